//! `cargo xtask bench redis`: the store in Redis beside scripts called through redis-rs. See `--help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_bench::redis(std::env::args().skip(1))
}
