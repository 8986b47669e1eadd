//! The command line of `bench local`, and of the processes that it starts of itself.

use clap::{Args, Parser, Subcommand};

use super::contestants::LocalContestant;
use super::keys::KeyKind;
use super::loads::LocalLoad;
use crate::options::{EXIT_CODES, RunOptions};

/// The in-process engine beside governor, throttlecrab, pingora-limits and a locked map
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask bench local", no_binary_name = true, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
#[command(mut_arg("only", |only| only.help(ONLY)))]
pub struct LocalCommand {
    #[command(subcommand)]
    pub child: Option<LocalChildTask>,
    #[command(flatten)]
    pub options: LocalBenchOptions,
}

const ONLY: &str = "Loads and sections whose name contains TEXT: hot, 10,000, uniform, zipf, 10 M, \
                    new keys, bytes, instructions, two limits; never writes the page";

/// The extent of a run of `bench local`.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct LocalBenchOptions {
    #[command(flatten)]
    pub run: RunOptions,
    /// Do not count instructions
    #[arg(long)]
    pub no_callgrind: bool,
}

/// A measurement that needs a process of its own.
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum LocalChildTask {
    /// Decide `n` times under callgrind
    #[command(hide = true)]
    Count {
        #[arg(long, value_parser = contestant_by_id)]
        contestant: LocalContestant,
        #[arg(long, value_parser = key_by_name)]
        key: KeyKind,
        #[arg(long, value_parser = load_by_id)]
        load: LocalLoad,
        #[arg(long)]
        n: usize,
    },
    /// Fill a contestant with `n` keys and print its memory
    #[command(hide = true)]
    Memory {
        #[arg(long, value_parser = contestant_by_id)]
        contestant: LocalContestant,
        #[arg(long, value_parser = key_by_name)]
        key: KeyKind,
        #[arg(long)]
        n: u32,
    },
}

fn contestant_by_id(id: &str) -> Result<LocalContestant, String> {
    LocalContestant::by_id(id).ok_or_else(|| format!("there is no contestant `{id}`"))
}

fn key_by_name(name: &str) -> Result<KeyKind, String> {
    let kind = KeyKind::ALL.into_iter().find(|kind| kind.name() == name);
    kind.ok_or_else(|| format!("there is no key `{name}`"))
}

fn load_by_id(id: &str) -> Result<LocalLoad, String> {
    LocalLoad::by_id(id).ok_or_else(|| format!("there is no load `{id}`"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn parsed(line: &str) -> Result<LocalCommand, ErrorKind> {
        LocalCommand::try_parse_from(line.split_whitespace()).map_err(|error| error.kind())
    }

    #[test]
    fn the_command_line_is_well_formed() {
        LocalCommand::command().debug_assert();
    }

    #[test]
    fn without_words_everything_is_measured_and_written() {
        let command = parsed("").unwrap();
        assert!(command.child.is_none() && !command.options.no_callgrind);
        assert!(command.options.run.may_write());
        assert!(parsed("--quick").unwrap().options.run.may_write());
    }

    #[test]
    fn a_part_of_the_loads_never_replaces_the_page() {
        assert!(!parsed("--only zipf").unwrap().options.run.may_write());
    }

    #[test]
    fn children_are_told_a_contestant_a_key_and_a_number() {
        let line = "count --contestant mutex --key u64 --load 10k --n 500";
        assert!(matches!(
            parsed(line).unwrap().child,
            Some(LocalChildTask::Count {
                contestant: LocalContestant::MutexMap,
                key: KeyKind::U64,
                load: LocalLoad { id: "10k", .. },
                n: 500
            })
        ));
        let unknown = parsed("memory --contestant nobody --key u64 --n 5");
        assert_eq!(unknown.unwrap_err(), ErrorKind::ValueValidation);
    }
}
