//! The kit against real servers.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod clock_shim;
mod fault_proxy;
mod groups;
mod server;
mod tls;

use std::process::{Command, Output};

/// Set in a process that runs one test, for what other tests would disturb or not survive.
const ALONE: &str = "TOLLGATE_TESTKIT_ALONE";

fn run_alone(test: &str, environment: Vec<(String, String)>) -> Output {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture"]).env(ALONE, "1").envs(environment).output().unwrap()
}
