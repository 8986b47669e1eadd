//! Prepares `bench proxy`: our program built for release, the peers, and a client of HTTP/2.

use crate::command::Command;
use crate::pypi;
use crate::tools::{self, Need, Tool};

/// Builds and installs what is missing. The bench names a peer that cannot be installed and leaves it out.
pub fn prepare() -> Result<Vec<String>, String> {
    if let Err(failure) = tools::install_missing(&TOOLS) {
        eprintln!("{failure}");
    }
    let arguments = match pypi::ENVOY.program() {
        Ok(program) => vec!["--envoy".to_string(), program.display().to_string()],
        Err(failure) => {
            eprintln!("envoy: {failure}");
            Vec::new()
        }
    };
    Command::cargo(["build", "--release", "-p", "sluicegate-cli"]).run()?;
    Ok(arguments)
}

const TOOLS: [Tool; 4] = [
    Tool {
        binary: "nginx",
        debian_package: "nginx",
        needed_by: "bench proxy",
        need: Need::Required,
    },
    Tool {
        binary: "haproxy",
        debian_package: "haproxy",
        needed_by: "bench proxy",
        need: Need::Required,
    },
    Tool {
        binary: "redis-server",
        debian_package: "redis-server",
        needed_by: "bench proxy",
        need: Need::Required,
    },
    Tool {
        binary: "h2load",
        debian_package: "nghttp2-client",
        needed_by: "bench proxy",
        need: Need::Required,
    },
];
