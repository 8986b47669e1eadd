//! `cargo xtask bench proxy`: the proxy beside nginx, HAProxy and Envoy. See `--help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_bench::proxy(std::env::args().skip(1))
}
