//! `cargo xtask bench redis`: the store in Redis beside what people put there otherwise. See `--help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_bench::redis(std::env::args().skip(1))
}
