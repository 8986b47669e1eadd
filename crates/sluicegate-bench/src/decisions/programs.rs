//! The programs that take part, where they are, and why the others do not.

use std::path::PathBuf;

use super::args::DecisionsBenchOptions;
use super::clients::LoadClients;
use super::contestants::DecisionsContestant;
use crate::programs::{missing, on_path, our_program, version_of};
use crate::samples::ServerContestant;

/// Everything that was looked for.
pub struct DecisionsPrograms {
    /// In the order of [`DecisionsContestant::ALL`].
    pub contestants: Vec<DecisionsProgram>,
    pub clients: LoadClients,
    /// Programs that are missing, and how to get them.
    pub absent: Vec<String>,
    versions: Vec<String>,
}

/// A contestant that can be started.
pub struct DecisionsProgram {
    pub contestant: DecisionsContestant,
    pub path: PathBuf,
}

impl DecisionsPrograms {
    /// Without one of the clients nothing is measured.
    pub fn find(options: &DecisionsBenchOptions) -> Result<Self, String> {
        let client =
            |binary: &str, package: &str| on_path(binary).ok_or_else(|| missing(binary, package));
        let clients = LoadClients {
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
        for contestant in DecisionsContestant::ALL {
            match found(contestant, options) {
                Ok((path, version)) => {
                    programs
                        .contestants
                        .push(DecisionsProgram { contestant, path });
                    programs.versions.extend(version);
                }
                Err(why) => programs
                    .absent
                    .push(format!("{}: {why}", contestant.name())),
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
fn found(
    contestant: DecisionsContestant,
    options: &DecisionsBenchOptions,
) -> Result<(PathBuf, Option<String>), String> {
    let (name, path) = match contestant {
        DecisionsContestant::Sluicegate => {
            return our_program(options.server.sluicegate.as_deref()).map(|path| (path, None));
        }
        DecisionsContestant::Throttlecrab => {
            let named = options.throttlecrab.clone().filter(|path| path.is_file());
            let path = named.or_else(|| on_path("throttlecrab-server"));
            let why =
                "throttlecrab-server not found (`cargo install throttlecrab-server` makes it)";
            ("throttlecrab-server", path.ok_or(why)?)
        }
        DecisionsContestant::Redis => (
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
