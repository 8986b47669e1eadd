//! One replica of a scenario; started by the scenario, which reads its history from standard output.

use std::process::ExitCode;

fn main() -> ExitCode {
    sluicegate_chaos::replica::main(std::env::args().skip(1))
}
