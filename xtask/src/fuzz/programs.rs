//! Builds a program of libFuzzer for each target.

use std::path::PathBuf;

use crate::command::{Command, root, target_dir};
use crate::tools::{self, Need, Tool};

/// Compiles libFuzzer, which is C++.
const COMPILER: Tool = Tool {
    binary: "c++",
    debian_package: "g++",
    needed_by: "fuzz",
    need: Need::Required,
};

/// Counts which code an input reaches, and tells the fuzzer what is compared with what. The passes are those of
/// `cargo fuzz`; they are a part of LLVM and need no nightly compiler.
const INSTRUMENTATION: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Builds all programs; returns the folder that they are in.
pub fn build() -> Result<PathBuf, String> {
    tools::install_missing(&[COMPILER])?;
    let host = host()?;
    let target = folder().to_string_lossy().into_owned();
    // A target is named, although it is the host: build scripts are not instrumented then.
    Command::cargo(["build", "-p", "sluicegate-fuzz-libfuzzer", "--bins"])
        .args(["--profile", "fuzz", "--target", &host])
        .args(["--target-dir", &target])
        .env(
            "RUSTFLAGS",
            format!("--cfg sluicegate_fuzz {}", INSTRUMENTATION.join(" ")),
        )
        .run()?;
    Ok(folder().join(host).join("fuzz"))
}

/// Where everything about fuzzing is that is not committed.
pub fn folder() -> PathBuf {
    root().join(target_dir()).join("fuzz")
}

fn host() -> Result<String, String> {
    let version = Command::new("rustc", ["-vV"]).read_stdout()?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_string)
        .ok_or_else(|| "`rustc -vV` names no host".to_string())
}
