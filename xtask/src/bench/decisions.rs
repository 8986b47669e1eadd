//! Prepares `bench decisions`: our program built for release, the peer built from its package, and three clients.

use std::path::PathBuf;

use crate::command::{Command, root, target_dir};
use crate::tools::{self, Tool};

/// Builds and installs what is missing. The bench names a peer that cannot be installed and leaves it out.
pub fn prepare() -> Result<Vec<String>, String> {
    if let Err(failure) = tools::install_missing(&TOOLS) {
        eprintln!("{failure}");
    }
    let arguments = match throttlecrab() {
        Ok(program) => vec!["--throttlecrab".to_string(), program.display().to_string()],
        Err(failure) => {
            eprintln!("throttlecrab-server: {failure}");
            Vec::new()
        }
    };
    Command::cargo(["build", "--release", "-p", "sluicegate-cli"]).run()?;
    Ok(arguments)
}

/// The peer's program, built on first use.
fn throttlecrab() -> Result<PathBuf, String> {
    const VERSION: &str = "0.4.40";
    let home = root().join(target_dir()).join("bench-throttlecrab");
    let program = home.join("bin/throttlecrab-server");
    if !program.is_file() {
        let home = home.display().to_string();
        Command::cargo([
            "install",
            "throttlecrab-server",
            "--locked",
            "--version",
            VERSION,
            "--root",
            &home,
        ])
        .run()?;
    }
    Ok(program)
}

/// Without the compiler of protobuf the peer is built without gRPC.
const TOOLS: [Tool; 7] = [
    tool("redis-server", "redis-server"),
    tool("redis-benchmark", "redis-tools"),
    tool("wrk", "wrk"),
    tool("h2load", "nghttp2-client"),
    tool("protoc", "protobuf-compiler"),
    // They count system calls and instructions; without them these columns are empty.
    tool("perf", "linux-perf"),
    tool("valgrind", "valgrind"),
];

const fn tool(binary: &'static str, debian_package: &'static str) -> Tool {
    Tool::required(binary, debian_package, "bench decisions")
}
