//! `bench proxy`: what a request costs the proxy itself, beside nginx, HAProxy and Envoy.
//!
//! ```text
//! bench ─▶ for each load, round, contestant: a fresh proxy with a configuration of its own
//!            client ──▶ proxy ──▶ backend       client and backend are ours and the same for everybody
//!                         └─ tree: processor time and memory of its processes, read from outside
//! ```

mod args;
mod bench;

mod contestants;
mod launch;
mod loads;
mod programs;
mod requests;

mod backend;
mod client;
mod connector;
mod open_files;
mod open_loop;
mod prepared_request;
mod wire;

mod external;
mod latency;
mod measure;
mod shared_store;

mod picture;
mod report;
mod results;
mod targets;

use std::process::ExitCode;

use self::args::ProxyBenchOptions;
use crate::exit_code::run_bench;

/// Measures the proxy beside its peers; `arguments` are the words after the program's name.
pub fn proxy(arguments: impl Iterator<Item = String>) -> ExitCode {
    run_bench("proxy", arguments, |options: ProxyBenchOptions| {
        bench::run(&options)
    })
}
