//! `bench redis`: the store in Redis beside scripts called through redis-rs.
//!
//! ```text
//! bench ─▶ for each load, number of callers, round, contestant: a fresh Redis, and a child with the contestant in it
//!            turn    child: connect, warm up, ready ─▶ decide for a while ─▶ decisions, time, processor time
//!            measure parent: what Redis has used ──────────────────────────▶ what it has used since
//! ```

mod args;
mod bench;
mod contestants;
mod loads;
mod measure;
mod picture;
mod report;
mod results;
mod targets;
mod turn;

use std::process::ExitCode;

use self::args::{RedisChildTask, RedisCommand};
use crate::exit_code::run_bench;

/// Measures the store in Redis beside its peers; `arguments` are the words after the program's name.
pub fn redis(arguments: impl Iterator<Item = String>) -> ExitCode {
    run_bench("redis", arguments, |command: RedisCommand| {
        match command.child {
            None => bench::run(&command.options),
            Some(RedisChildTask::Turn(turn)) => turn::take(&turn.into()),
        }
    })
}
