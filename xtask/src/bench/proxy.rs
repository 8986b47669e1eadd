//! Prepares `bench proxy`: our program built for release, the peers, and a client of HTTP/2.

use crate::command::Command;
use crate::pypi;
use crate::tools::{self, Tool};

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

const TOOLS: [Tool; 6] = [
    tool("nginx", "nginx"),
    tool("haproxy", "haproxy"),
    tool("redis-server", "redis-server"),
    tool("h2load", "nghttp2-client"),
    // They count system calls and instructions; without them these columns are empty.
    tool("perf", "linux-perf"),
    tool("valgrind", "valgrind"),
];

const fn tool(binary: &'static str, debian_package: &'static str) -> Tool {
    Tool::required(binary, debian_package, "bench proxy")
}
