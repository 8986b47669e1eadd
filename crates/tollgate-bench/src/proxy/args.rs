//! The command line of `bench proxy`: words in, a [`Task`] or one line of advice out.

use std::path::PathBuf;

use crate::args::{is_chosen, parse_rounds};

/// What the caller asked for.
#[derive(Debug, PartialEq)]
pub enum Task {
    Help,
    Bench(Options),
}

/// How much to measure, with which programs, and where to put it.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub is_quick: bool,
    pub rounds: usize,
    pub only: Option<String>,
    pub writes_page: bool,
    /// Envoy's program, where it is not on the PATH.
    pub envoy: Option<PathBuf>,
    /// Ours, where it does not lie beside this one.
    pub tollgate: Option<PathBuf>,
}

impl Options {
    /// Whether a load or section of this name is to be measured.
    pub fn includes(&self, name: &str) -> bool {
        is_chosen(self.only.as_deref(), name)
    }
}

pub const HELP: &str = "\
the proxy beside nginx with limit_req, HAProxy with a stick table and Envoy with its local rate limit

usage: cargo xtask bench proxy [OPTION…]

  --quick          three short rounds, a few minutes; never writes the page
  --rounds N       rounds per load, at most 20 (7, or 3 when quick)
  --only TEXT      loads and sections whose name contains TEXT: allowed, rejected, 64 connections, 256, POST, 1 MiB, h2,
                   idle; never writes the page
  --envoy PATH     Envoy's program, otherwise that on the PATH
  --tollgate PATH  our program, otherwise the one beside this bench
  --no-write       print the tables and leave docs/performance.md alone
  --help           this text

A contestant whose program is missing is left out and named at the end, and the page is not written.

exit code: 0 when everything ran, whatever the figures; 1 when something could not be measured; 2 for the command line
";

const ROUNDS: usize = 7;
const ROUNDS_QUICK: usize = 3;

/// Reads the words after the program's name. The error is complete and ready to print.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Task, String> {
    let words: Vec<String> = words.collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(Task::Help);
    }
    parse_options(words).map(Task::Bench)
}

fn parse_options(words: Vec<String>) -> Result<Options, String> {
    let mut rounds = None;
    let mut options =
        Options { is_quick: false, rounds: ROUNDS, only: None, writes_page: true, envoy: None, tollgate: None };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => rounds = Some(parse_rounds(words.next())?),
            "--quick" => options.is_quick = true,
            "--only" => {
                options.only = Some(words.next().ok_or("--only: the name of a load is missing, for example `h2`")?);
            }
            "--envoy" => options.envoy = Some(parse_program("--envoy", words.next())?),
            "--tollgate" => options.tollgate = Some(parse_program("--tollgate", words.next())?),
            "--no-write" => options.writes_page = false,
            unknown => return Err(format!("unknown option `{unknown}` (`--help` lists all)")),
        }
    }
    options.rounds = rounds.unwrap_or(if options.is_quick { ROUNDS_QUICK } else { ROUNDS });
    options.writes_page &= !options.is_quick && options.only.is_none();
    Ok(options)
}

fn parse_program(option: &str, word: Option<String>) -> Result<PathBuf, String> {
    word.map(PathBuf::from).ok_or_else(|| format!("{option}: the path of a program is missing"))
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
        let expected =
            Options { is_quick: false, rounds: 7, only: None, writes_page: true, envoy: None, tollgate: None };
        assert_eq!(options(""), expected);
    }

    #[test]
    fn only_a_whole_run_replaces_the_page() {
        for part in ["--quick", "--only h2", "--no-write"] {
            assert!(!options(part).writes_page, "{part}");
        }
        assert!(options("--rounds 5 --envoy x").writes_page);
    }

    #[test]
    fn programs_can_be_named() {
        assert_eq!(options("--envoy a/envoy").envoy, Some(PathBuf::from("a/envoy")));
        assert_eq!(options("--tollgate b").tollgate, Some(PathBuf::from("b")));
    }

    #[test]
    fn mistakes_are_answered_with_what_is_accepted() {
        let advice = |line: &str| parsed(line).map(|_| ()).unwrap_err();
        assert_eq!(advice("--rounds 0"), "--rounds: must be a number from 1 to 20 (got `0`)");
        assert_eq!(advice("--only"), "--only: the name of a load is missing, for example `h2`");
        assert_eq!(advice("--envoy"), "--envoy: the path of a program is missing");
        assert_eq!(advice("--fast"), "unknown option `--fast` (`--help` lists all)");
    }

    #[test]
    fn help_wins_over_everything() {
        assert_eq!(parsed("--fast --help"), Ok(Task::Help));
    }
}
