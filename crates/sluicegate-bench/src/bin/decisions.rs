//! `cargo xtask bench decisions`: the decision service beside throttlecrab-server and a script in Redis. See `--help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_bench::decisions(std::env::args().skip(1))
}
