//! The command line of `bench redis`: words in, a [`Task`] or one line of advice out.

use super::turn::{Threads, Turn};
use crate::args::{is_chosen, parse_rounds};

/// What the caller asked for.
#[derive(Debug, PartialEq)]
pub enum Task {
    Help,
    Bench(Options),
    /// Hidden: one contestant, against a Redis that is there.
    Turn(Turn),
}

/// How much to measure and where to put it.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub is_quick: bool,
    pub rounds: usize,
    pub only: Option<String>,
    pub threads: Threads,
    pub writes_page: bool,
}

impl Options {
    /// Whether a load or section of this name is to be measured.
    pub fn includes(&self, name: &str) -> bool {
        is_chosen(self.only.as_deref(), name)
    }
}

pub const HELP: &str = "\
the store in Redis beside a GCRA script and a hash token bucket called through redis-rs; starts its own redis-server

usage: cargo xtask bench redis [OPTION…]

  --quick          three short rounds, a minute or two; never writes the page
  --rounds N       rounds per load, at most 20 (7, or 3 when quick)
  --only TEXT      loads and sections whose name contains TEXT: cold keys, hot key, allowed, denied, 1 caller, 64, 512,
                   bytes; never writes the page
  --multi-thread   the contestants on a runtime with a thread per core, instead of one thread; never writes the page
  --no-write       print the tables and leave docs/performance.md alone
  --help           this text

exit code: 0 when everything ran, whatever the figures; 1 when something could not be measured; 2 for the command line
";

const ROUNDS: usize = 7;
const ROUNDS_QUICK: usize = 3;

/// Reads the words after the program's name. The error is complete and ready to print.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Task, String> {
    let words: Vec<String> = words.collect();
    match words.split_first() {
        Some((first, rest)) if first == Turn::WORD => Turn::parse(rest).map(Task::Turn),
        _ if words.iter().any(|word| word == "--help" || word == "-h") => Ok(Task::Help),
        _ => parse_options(words).map(Task::Bench),
    }
}

fn parse_options(words: Vec<String>) -> Result<Options, String> {
    let mut rounds = None;
    let mut options = Options {
        is_quick: false,
        rounds: ROUNDS,
        only: None,
        threads: Threads::One,
        writes_page: true,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => rounds = Some(parse_rounds(words.next())?),
            "--quick" => options.is_quick = true,
            "--only" => {
                options.only = Some(
                    words
                        .next()
                        .ok_or("--only: the name of a load is missing, for example `cold`")?,
                );
            }
            "--multi-thread" => options.threads = Threads::PerCore,
            "--no-write" => options.writes_page = false,
            unknown => return Err(format!("unknown option `{unknown}` (`--help` lists all)")),
        }
    }
    options.rounds = rounds.unwrap_or(if options.is_quick {
        ROUNDS_QUICK
    } else {
        ROUNDS
    });
    options.writes_page &=
        !options.is_quick && options.only.is_none() && options.threads == Threads::One;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(str::to_string))
    }

    fn options(line: &str) -> Options {
        match parsed(line) {
            Ok(Task::Bench(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn without_words_everything_is_measured_and_written() {
        let expected = Options {
            is_quick: false,
            rounds: 7,
            only: None,
            threads: Threads::One,
            writes_page: true,
        };
        assert_eq!(options(""), expected);
    }

    #[test]
    fn only_a_whole_run_replaces_the_page() {
        for part in ["--quick", "--only cold", "--multi-thread", "--no-write"] {
            assert!(!options(part).writes_page, "{part}");
        }
        assert!(options("--rounds 3").writes_page);
    }

    #[test]
    fn mistakes_are_answered_with_what_is_accepted() {
        let advice = |line: &str| parsed(line).map(|_| ()).unwrap_err();
        assert_eq!(
            advice("--rounds 0"),
            "--rounds: must be a number from 1 to 20 (got `0`)"
        );
        assert_eq!(
            advice("--only"),
            "--only: the name of a load is missing, for example `cold`"
        );
        assert_eq!(
            advice("--fast"),
            "unknown option `--fast` (`--help` lists all)"
        );
    }

    #[test]
    fn help_wins_over_everything_but_a_turn() {
        assert_eq!(parsed("--fast --help"), Ok(Task::Help));
    }
}
