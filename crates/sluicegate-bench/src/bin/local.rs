//! `cargo xtask bench local`: the in-process engine beside its peers. See `--help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_bench::local(std::env::args().skip(1))
}
