//! The programs that take part, where they are, and why the others do not.

use std::path::PathBuf;

use super::args::DecisionsBenchOptions;
use super::clients::Clients;
use super::contestants::Who;
use crate::programs::{missing, on_path, our_program, version_of};
use crate::samples::Contestant;

/// Everything that was looked for.
pub struct Programs {
    /// In the order of [`Who::ALL`].
    pub contestants: Vec<Program>,
    pub clients: Clients,
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
    /// Without one of the clients nothing is measured.
    pub fn find(options: &DecisionsBenchOptions) -> Result<Self, String> {
        let client =
            |binary: &str, package: &str| on_path(binary).ok_or_else(|| missing(binary, package));
        let clients = Clients {
            redis_benchmark: client("redis-benchmark", "redis-tools")?,
            wrk: client("wrk", "wrk")?,
            h2load: client("h2load", "nghttp2-client")?,
            nghttp: client("nghttp", "nghttp2-client")?,
        };
        let mut programs = Self {
            contestants: Vec::new(),
            clients,
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
        Ok(programs)
    }

    /// The peers and their versions, as in a list.
    pub fn versions(&self) -> String {
        self.versions.join(", ")
    }
}

/// Where a contestant is, with its version unless it is ours.
fn found(who: Who, options: &DecisionsBenchOptions) -> Result<(PathBuf, Option<String>), String> {
    let (name, path) = match who {
        Who::Sluicegate => {
            return our_program(options.server.sluicegate.as_deref()).map(|path| (path, None));
        }
        Who::Throttlecrab => {
            let named = options.throttlecrab.clone().filter(|path| path.is_file());
            let path = named.or_else(|| on_path("throttlecrab-server"));
            let why =
                "throttlecrab-server not found (`cargo install throttlecrab-server` makes it)";
            ("throttlecrab-server", path.ok_or(why)?)
        }
        Who::Redis => (
            "Redis",
            on_path("redis-server").ok_or_else(|| missing("redis-server", "redis-server"))?,
        ),
    };
    let version = version_of(&path, "--version");
    Ok((
        path,
        Some(version.map_or_else(|| name.to_string(), |version| format!("{name} {version}"))),
    ))
}
