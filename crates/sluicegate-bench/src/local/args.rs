//! The command line of `bench local`: words in, a [`Task`] or one line of advice out.

use crate::contestants::Who;
use crate::keys::KeyKind;
use crate::loads::Load;

/// What the caller asked for.
#[derive(Debug)]
pub enum Task {
    Help,
    Bench(Options),
    /// Hidden: decide `decisions` times under callgrind.
    Count {
        who: Who,
        key: KeyKind,
        load: Load,
        decisions: usize,
    },
    /// Hidden: fill one contestant and print its memory.
    Memory {
        who: Who,
        key: KeyKind,
        keys: u32,
    },
}

/// How much to measure and where to put it.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub is_quick: bool,
    pub rounds: usize,
    pub only: Option<String>,
    pub counts_instructions: bool,
    pub writes_page: bool,
}

impl Options {
    /// Whether a load or section of this name is to be measured.
    pub fn includes(&self, name: &str) -> bool {
        is_chosen(self.only.as_deref(), name)
    }
}

pub const HELP: &str = "\
the in-process engine beside governor, throttlecrab, pingora-limits and a locked map

usage: cargo xtask bench local [OPTION…]

  --quick          three rounds, fewer decisions, nothing with 10 M keys: a minute or two
  --rounds N       rounds per load, at most 20 (7, or 3 when quick)
  --only TEXT      loads and sections whose name contains TEXT: hot, 10,000, uniform, zipf, 10 M, new keys,
                   bytes, instructions; never writes the page
  --no-callgrind   do not count instructions
  --no-write       print the tables and leave docs/performance.md alone
  --help           this text

exit code: 0 when everything ran, whatever the figures; 1 when something could not be measured; 2 for the command line
";

const ROUNDS: usize = 7;
const ROUNDS_QUICK: usize = 3;
/// With more, the buckets of the loads that must pass would run empty.
const ROUNDS_MAX: usize = 20;

/// Reads the words after the program's name. The error is complete and ready to print.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Task, String> {
    let words: Vec<String> = words.collect();
    match words.split_first() {
        Some((first, rest)) if first == "count" => parse_count(rest),
        Some((first, rest)) if first == "memory" => parse_memory(rest),
        _ if words.iter().any(|word| word == "--help" || word == "-h") => Ok(Task::Help),
        _ => parse_options(words).map(Task::Bench),
    }
}

fn parse_options(words: Vec<String>) -> Result<Options, String> {
    let mut options = Options {
        is_quick: false,
        rounds: 0,
        only: None,
        counts_instructions: true,
        writes_page: true,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => options.is_quick = true,
            "--no-callgrind" => options.counts_instructions = false,
            "--no-write" => options.writes_page = false,
            "--rounds" => options.rounds = parse_rounds(words.next())?,
            "--only" => {
                options.only = Some(
                    words
                        .next()
                        .ok_or("--only: the name of a load is missing, for example `zipf`")?,
                );
                options.writes_page = false;
            }
            unknown => return Err(format!("unknown option `{unknown}` (`--help` lists all)")),
        }
    }
    if options.rounds == 0 {
        options.rounds = if options.is_quick {
            ROUNDS_QUICK
        } else {
            ROUNDS
        };
    }
    Ok(options)
}

/// Whether `--only` leaves this load or section in.
pub fn is_chosen(only: Option<&str>, name: &str) -> bool {
    only.is_none_or(|only| name.to_lowercase().contains(&only.to_lowercase()))
}

/// The number after `--rounds`.
pub fn parse_rounds(word: Option<String>) -> Result<usize, String> {
    let word =
        word.ok_or_else(|| format!("--rounds: a number from 1 to {ROUNDS_MAX} is missing"))?;
    let rounds = word
        .parse()
        .ok()
        .filter(|rounds| (1..=ROUNDS_MAX).contains(rounds));
    rounds
        .ok_or_else(|| format!("--rounds: must be a number from 1 to {ROUNDS_MAX} (got `{word}`)"))
}

fn parse_count(words: &[String]) -> Result<Task, String> {
    let id = value(words, "--load")?;
    let load = Load::by_id(id).ok_or_else(|| format!("--load: there is no `{id}`"))?;
    Ok(Task::Count {
        who: parse_who(words)?,
        key: parse_key(words)?,
        load,
        decisions: parse_n(words)? as usize,
    })
}

fn parse_memory(words: &[String]) -> Result<Task, String> {
    Ok(Task::Memory {
        who: parse_who(words)?,
        key: parse_key(words)?,
        keys: parse_n(words)?,
    })
}

fn parse_who(words: &[String]) -> Result<Who, String> {
    let id = value(words, "--contestant")?;
    let who = Who::ALL.into_iter().find(|who| who.id() == id);
    who.ok_or_else(|| format!("--contestant: there is no `{id}`"))
}

fn parse_key(words: &[String]) -> Result<KeyKind, String> {
    let name = value(words, "--key")?;
    let kind = KeyKind::ALL.into_iter().find(|kind| kind.name() == name);
    kind.ok_or_else(|| format!("--key: there is no `{name}`"))
}

fn parse_n(words: &[String]) -> Result<u32, String> {
    let number = value(words, "--n")?;
    number
        .parse()
        .map_err(|_| format!("--n: must be a number (got `{number}`)"))
}

/// The word after `option`.
pub fn value<'a>(words: &'a [String], option: &str) -> Result<&'a str, String> {
    let at = words.iter().position(|word| word == option);
    at.and_then(|at| words.get(at + 1))
        .map(String::as_str)
        .ok_or_else(|| format!("{option}: is missing"))
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
            counts_instructions: true,
            writes_page: true,
        };
        assert_eq!(options(""), expected);
    }

    #[test]
    fn quick_is_short_unless_rounds_are_given() {
        assert_eq!(options("--quick").rounds, 3);
        assert_eq!(options("--rounds 9 --quick").rounds, 9);
    }

    #[test]
    fn a_part_of_the_loads_never_replaces_the_page() {
        let options = options("--only zipf");
        assert!(!options.writes_page);
        assert!(options.includes("1 M Zipf 1.1"));
        assert!(!options.includes("1 hot key"));
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
            "--only: the name of a load is missing, for example `zipf`"
        );
        assert_eq!(
            advice("--fast"),
            "unknown option `--fast` (`--help` lists all)"
        );
    }

    #[test]
    fn hidden_tasks_name_a_contestant_a_key_and_a_number() {
        let line = "count --contestant mutex --key u64 --load 10k --n 500";
        assert!(matches!(
            parsed(line),
            Ok(Task::Count {
                who: Who::MutexMap,
                key: KeyKind::U64,
                load: Load { id: "10k", .. },
                decisions: 500
            })
        ));
        assert!(parsed("memory --contestant nobody --key u64 --n 5").is_err());
    }
}
