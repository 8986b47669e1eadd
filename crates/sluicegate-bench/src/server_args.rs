//! The command line of benches of servers: words in, a [`Task`] or one line of advice out.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::args::{is_chosen, parse_rounds};
use crate::ending;

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
    /// The program of a peer that is seldom on the PATH.
    pub peer: Option<PathBuf>,
    /// Ours, where it does not lie beside this one.
    pub sluicegate: Option<PathBuf>,
}

impl Options {
    /// Whether a load or section of this name is to be measured.
    pub fn includes(&self, name: &str) -> bool {
        is_chosen(self.only.as_deref(), name)
    }
}

/// What differs from bench to bench.
#[derive(Clone, Copy)]
pub struct Spec {
    /// The option that names the program of a peer.
    pub peer_option: &'static str,
    /// What `--help` says.
    pub help: &'static str,
    /// Part of the name of a load.
    pub example: &'static str,
}

/// Does what the command line of a bench asks for; `words` are those after the program's name.
pub fn carry_out(
    name: &str,
    spec: Spec,
    words: impl Iterator<Item = String>,
    bench: fn(&Options) -> Result<(), String>,
) -> ExitCode {
    ending::of(name, parse(spec, words), |task| match task {
        Task::Help => {
            print!("{}", spec.help);
            Ok(())
        }
        Task::Bench(options) => bench(&options),
    })
}

const ROUNDS: usize = 7;
const ROUNDS_QUICK: usize = 3;

/// Reads the words after the program's name. The error is complete and ready to print.
pub fn parse(spec: Spec, words: impl Iterator<Item = String>) -> Result<Task, String> {
    let words: Vec<String> = words.collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(Task::Help);
    }
    parse_options(spec, words).map(Task::Bench)
}

fn parse_options(spec: Spec, words: Vec<String>) -> Result<Options, String> {
    let mut rounds = None;
    let mut options = Options {
        is_quick: false,
        rounds: ROUNDS,
        only: None,
        writes_page: true,
        peer: None,
        sluicegate: None,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--rounds" => rounds = Some(parse_rounds(words.next())?),
            "--quick" => options.is_quick = true,
            "--only" => {
                let advice = || {
                    format!(
                        "--only: the name of a load is missing, for example `{}`",
                        spec.example
                    )
                };
                options.only = Some(words.next().ok_or_else(advice)?);
            }
            word if word == spec.peer_option => {
                options.peer = Some(parse_program(spec.peer_option, words.next())?);
            }
            "--sluicegate" => {
                options.sluicegate = Some(parse_program("--sluicegate", words.next())?)
            }
            "--no-write" => options.writes_page = false,
            unknown => return Err(format!("unknown option `{unknown}` (`--help` lists all)")),
        }
    }
    options.rounds = rounds.unwrap_or(if options.is_quick {
        ROUNDS_QUICK
    } else {
        ROUNDS
    });
    options.writes_page &= !options.is_quick && options.only.is_none();
    Ok(options)
}

fn parse_program(option: &str, word: Option<String>) -> Result<PathBuf, String> {
    word.map(PathBuf::from)
        .ok_or_else(|| format!("{option}: the path of a program is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        let spec = Spec {
            peer_option: "--envoy",
            help: "",
            example: "h2",
        };
        parse(spec, line.split_whitespace().map(str::to_string))
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
            writes_page: true,
            peer: None,
            sluicegate: None,
        };
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
        assert_eq!(
            options("--envoy a/envoy").peer,
            Some(PathBuf::from("a/envoy"))
        );
        assert_eq!(
            options("--sluicegate b").sluicegate,
            Some(PathBuf::from("b"))
        );
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
            "--only: the name of a load is missing, for example `h2`"
        );
        assert_eq!(
            advice("--envoy"),
            "--envoy: the path of a program is missing"
        );
        assert_eq!(
            advice("--fast"),
            "unknown option `--fast` (`--help` lists all)"
        );
    }

    #[test]
    fn help_wins_over_everything() {
        assert_eq!(parsed("--fast --help"), Ok(Task::Help));
    }
}
