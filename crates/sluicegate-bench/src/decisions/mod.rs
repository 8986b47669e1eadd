//! `bench decisions`: what a question costs the decision service, beside throttlecrab-server and a script in Redis.
//!
//! ```text
//! bench ─▶ for each load, round, contestant: a fresh server
//!            redis-benchmark, wrk or h2load ──▶ server       the same client with the same question for everybody
//!                                                 └─ tree: processor time of its processes, read from outside
//! ```

mod args;
mod bench;

mod check_answers;
mod contestants;
mod loads;
mod message;
mod programs;
mod questions;

mod clients;
mod measure;
mod picture;
mod report;
mod targets;

use std::process::ExitCode;

use self::args::DecisionsBenchOptions;
use crate::exit_code::run_bench;

/// Measures the decision service beside its peers; `arguments` are the words after the program's name.
pub fn decisions(arguments: impl Iterator<Item = String>) -> ExitCode {
    run_bench("decisions", arguments, |options: DecisionsBenchOptions| {
        bench::run(&options)
    })
}
