//! The command line of `bench redis`, and of the processes that it starts of itself.

use clap::{Args, Parser, Subcommand};

use super::turn::{RuntimeThreads, TurnArguments};
use crate::options::{EXIT_CODES, RunOptions};

/// The store in Redis beside a GCRA script and a hash token bucket called through redis-rs; starts its own redis-server
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench redis", no_binary_name = true, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(mut_arg("only", |only| only.help(ONLY)))]
pub struct RedisCommand {
    #[command(subcommand)]
    pub child: Option<RedisChildTask>,
    #[command(flatten)]
    pub options: RedisBenchOptions,
}

const ONLY: &str = "Loads and sections whose name contains TEXT: cold keys, hot key, allowed, denied, \
                    1 caller, 64, 512, bytes; never writes the page";

/// The extent of a run of `bench redis`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct RedisBenchOptions {
    #[command(flatten)]
    pub run: RunOptions,
    /// The contestants on a runtime with a thread per core, instead of one thread; never writes the page
    #[arg(long)]
    multi_thread: bool,
}

impl RedisBenchOptions {
    pub fn threads(&self) -> RuntimeThreads {
        if self.multi_thread {
            RuntimeThreads::PerCore
        } else {
            RuntimeThreads::One
        }
    }

    /// True when the run may replace figures in the page, which are of whole runs on one thread.
    pub fn may_write(&self) -> bool {
        self.run.may_write() && !self.run.is_quick && !self.multi_thread
    }
}

/// A measurement that needs a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Subcommand)]
pub enum RedisChildTask {
    /// One turn of one contestant, against a Redis that is running
    #[command(hide = true)]
    Turn(TurnArguments),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn options(line: &str) -> RedisBenchOptions {
        let command = RedisCommand::try_parse_from(line.split_whitespace());
        command.unwrap().options
    }

    #[test]
    fn the_command_line_is_well_formed() {
        RedisCommand::command().debug_assert();
    }

    #[test]
    fn without_words_everything_is_measured_on_one_thread_and_written() {
        let options = options("");
        assert_eq!(
            (options.threads(), options.may_write()),
            (RuntimeThreads::One, true)
        );
    }

    #[test]
    fn only_a_whole_run_replaces_the_page() {
        for part in ["--quick", "--only cold", "--multi-thread", "--no-write"] {
            assert!(!options(part).may_write(), "{part}");
        }
        assert!(options("--rounds 3").may_write());
    }
}
