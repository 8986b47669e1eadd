//! The command line: words in, a [`Task`] or one line of advice out.

use crate::bench::{self, BenchChoice};
use crate::chaos::ChaosChoice;
use crate::fuzz::{self, FuzzChoice};
use crate::nearest::nearest;
use crate::test::{self, TestChoice};
use crate::tidy::TidyChoice;

/// The task that the command line names, with every name in it already checked.
#[derive(Debug, PartialEq)]
pub enum Task {
    Help,
    Test(TestChoice),
    Tidy(TidyChoice),
    Audit,
    Package,
    Book,
    Bench(BenchChoice),
    Chaos(ChaosChoice),
    Fuzz(FuzzChoice),
}

/// Reads the words after `cargo xtask`. The error is complete and ready to print.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Task, String> {
    let words: Vec<String> = words.collect();
    let Some((task, rest)) = words.split_first() else {
        return Ok(Task::Help);
    };
    match task.as_str() {
        "help" | "--help" | "-h" => Ok(Task::Help),
        // The words behind the name of a bench belong to the bench, its `--help` too.
        "bench" => parse_bench(rest),
        "test" | "tidy" | "audit" | "package" | "book" | "chaos" | "fuzz"
            if asks_for_help(rest) =>
        {
            Ok(Task::Help)
        }
        "test" => parse_test(rest),
        "tidy" => parse_tidy(rest).map(Task::Tidy),
        "audit" => no_arguments("audit", rest).map(|()| Task::Audit),
        "package" => no_arguments("package", rest).map(|()| Task::Package),
        "book" => no_arguments("book", rest).map(|()| Task::Book),
        "chaos" => parse_chaos(rest).map(Task::Chaos),
        "fuzz" => parse_fuzz(rest).map(Task::Fuzz),
        unknown => Err(unknown_name("task", unknown, &TASKS, "cargo xtask --help")),
    }
}

/// Prints the tasks. Returns `true`, because this always succeeds.
pub fn print_help() -> bool {
    print!("{HELP}");
    true
}

const TASKS: [&str; 9] = [
    "test", "tidy", "audit", "package", "book", "bench", "chaos", "fuzz", "help",
];

const HELP: &str = "\
the chores of this repository

usage: cargo xtask TASK

  test                everything CI runs, in order, stopping at the first step that fails
  test --list         the steps and what each of them does
  test --only STEP    one step
  tidy                sizes, names, modules, leftovers, links, checklist and layering; prints every finding
  tidy --graph        the modules of each crate and what they use, in layers
  tidy --graph --write  the same, and writes the graphs in ARCHITECTURE.md again
  tidy --measure      names, comments and density of each crate, beside tower, governor, hyper and rustls
  audit               licences, sources and advisories of all dependencies; builds cargo-deny the first time
  package             a package for Debian, with manual pages and completions; builds cargo-deb the first time
  book                the documentation as a book; builds mdbook the first time
  bench               the benches there are
  bench NAME [ARG…]   one bench; the arguments go to the bench
  chaos               every long scenario with faults and replicas on real servers, then `fuzz`: about 50 minutes
  chaos --list        the scenarios and the promises they prove
  chaos --only NAME   one scenario
  fuzz                a minute of each fuzz target, after a planted bug was found; needs a C++ compiler
  fuzz [--minutes N] [--runs N] [--only TARGET] [--jobs N]
                      so long, so many executions, this target, so many targets at a time
  help                this text

exit code: 0 fine, 1 something failed, 2 the command line was not understood
";

/// True when one of the words is a call for help.
fn asks_for_help(words: &[String]) -> bool {
    words.iter().any(|word| word == "--help" || word == "-h")
}

fn parse_test(words: &[String]) -> Result<Task, String> {
    let choice = match words {
        [] => TestChoice::Everything,
        [flag] if flag == "--list" => TestChoice::List,
        [flag] if flag == "--only" => {
            return Err(
                "--only: the name of a step is missing (`cargo xtask test --list` names them)"
                    .to_string(),
            );
        }
        [flag, name] if flag == "--only" => TestChoice::Only(known_step(name)?),
        [flag, extra, ..] if flag == "--list" => return Err(unexpected("test --list", extra)),
        [flag, _, extra, ..] if flag == "--only" => {
            return Err(unexpected("test --only STEP", extra));
        }
        [unknown, ..] => {
            return Err(unknown_name(
                "argument of test",
                unknown,
                &["--list", "--only"],
                "cargo xtask --help",
            ));
        }
    };
    Ok(Task::Test(choice))
}

fn parse_tidy(words: &[String]) -> Result<TidyChoice, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => Ok(TidyChoice::Check),
        ["--graph"] => Ok(TidyChoice::Graph { write: false }),
        ["--graph", "--write"] => Ok(TidyChoice::Graph { write: true }),
        ["--graph", "--write", extra, ..] => Err(unexpected("tidy --graph --write", extra)),
        ["--graph", unknown, ..] => Err(unknown_name(
            "argument of tidy --graph",
            unknown,
            &["--write"],
            "cargo xtask --help",
        )),
        ["--measure"] => Ok(TidyChoice::Measure),
        ["--measure", extra, ..] => Err(unexpected("tidy --measure", extra)),
        [unknown, ..] => Err(unknown_name(
            "argument of tidy",
            unknown,
            &["--graph", "--measure"],
            "cargo xtask --help",
        )),
    }
}

fn known_step(name: &str) -> Result<&'static str, String> {
    let names = test::step_names();
    names
        .iter()
        .find(|known| **known == name)
        .copied()
        .ok_or_else(|| unknown_name("step", name, &names, "cargo xtask test --list"))
}

fn parse_bench(words: &[String]) -> Result<Task, String> {
    let Some((name, arguments)) = words.split_first() else {
        return Ok(Task::Bench(BenchChoice::List));
    };
    if name == "--help" || name == "-h" {
        return Ok(Task::Bench(BenchChoice::List));
    }
    let names = bench::names();
    let Some(known) = names.iter().find(|known| *known == name) else {
        return Err(unknown_name("bench", name, &names, "cargo xtask bench"));
    };
    Ok(Task::Bench(BenchChoice::Run {
        name: known,
        arguments: arguments.to_vec(),
        wants_help: asks_for_help(arguments),
    }))
}

/// Names of scenarios are not checked here: the program that runs them knows them.
fn parse_chaos(words: &[String]) -> Result<ChaosChoice, String> {
    match words {
        [] => Ok(ChaosChoice::Everything),
        [flag] if flag == "--list" => Ok(ChaosChoice::List),
        [flag] if flag == "--only" => Err(
            "--only: the name of a scenario is missing (`cargo xtask chaos --list` names them)"
                .to_string(),
        ),
        [flag, name] if flag == "--only" => Ok(ChaosChoice::Only(name.clone())),
        [flag, extra, ..] if flag == "--list" => Err(unexpected("chaos --list", extra)),
        [flag, _, extra, ..] if flag == "--only" => Err(unexpected("chaos --only NAME", extra)),
        [unknown, ..] => Err(unknown_name(
            "argument of chaos",
            unknown,
            &["--list", "--only"],
            "cargo xtask --help",
        )),
    }
}

/// Every flag has a value. Without bounds, each target runs for a minute.
fn parse_fuzz(words: &[String]) -> Result<FuzzChoice, String> {
    const FLAGS: [&str; 4] = ["--minutes", "--runs", "--only", "--jobs"];
    let mut choice = FuzzChoice {
        minutes: None,
        ..FuzzChoice::default()
    };
    for pair in words.chunks(2) {
        let flag = pair[0].as_str();
        if !FLAGS.contains(&flag) {
            let help = "cargo xtask --help";
            return Err(unknown_name("argument of fuzz", flag, &FLAGS, help));
        }
        let Some(value) = pair.get(1) else {
            return Err(format!("fuzz {flag}: its value is missing"));
        };
        let number = || match value.parse::<u64>() {
            Ok(number @ 1..) => Ok(number),
            _ => Err(format!(
                "fuzz {flag}: expected a whole number from 1 (got `{value}`)"
            )),
        };
        match flag {
            "--minutes" => choice.minutes = Some(number()?),
            "--runs" => choice.runs = Some(number()?),
            "--jobs" => choice.jobs = usize::try_from(number()?).unwrap_or(usize::MAX),
            _ => choice.only.push(known_target(value)?),
        }
    }
    if choice.minutes.is_none() && choice.runs.is_none() {
        choice.minutes = FuzzChoice::default().minutes;
    }
    Ok(choice)
}

fn known_target(name: &str) -> Result<String, String> {
    let names = fuzz::target_names();
    if names.iter().any(|known| known == name) {
        return Ok(name.to_string());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(unknown_name("target", name, &names, "ls fuzz/src"))
}

fn no_arguments(task: &str, words: &[String]) -> Result<(), String> {
    words
        .first()
        .map_or(Ok(()), |extra| Err(unexpected(task, extra)))
}

fn unexpected(task: &str, extra: &str) -> String {
    format!("{task}: takes nothing more (got `{extra}`)")
}

fn unknown_name(kind: &str, got: &str, known: &[&str], list_command: &str) -> String {
    let guess = nearest(got, known);
    format!("unknown {kind} `{got}`: the nearest is `{guess}` (`{list_command}` lists all)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(str::to_string))
    }

    #[test]
    fn nothing_and_help_both_print_the_list() {
        for line in [
            "",
            "help",
            "--help",
            "-h",
            "test --help",
            "tidy -h",
            "chaos --help",
        ] {
            assert_eq!(parsed(line), Ok(Task::Help), "{line:?}");
        }
    }

    #[test]
    fn each_task_is_understood() {
        assert_eq!(parsed("test"), Ok(Task::Test(TestChoice::Everything)));
        assert_eq!(parsed("test --list"), Ok(Task::Test(TestChoice::List)));
        assert_eq!(
            parsed("test --only tidy"),
            Ok(Task::Test(TestChoice::Only("tidy")))
        );
        assert_eq!(parsed("tidy"), Ok(Task::Tidy(TidyChoice::Check)));
        assert_eq!(
            parsed("tidy --measure"),
            Ok(Task::Tidy(TidyChoice::Measure))
        );
        assert_eq!(
            parsed("tidy --graph"),
            Ok(Task::Tidy(TidyChoice::Graph { write: false }))
        );
        assert_eq!(
            parsed("tidy --graph --write"),
            Ok(Task::Tidy(TidyChoice::Graph { write: true }))
        );
        assert_eq!(parsed("audit"), Ok(Task::Audit));
        assert_eq!(parsed("bench"), Ok(Task::Bench(BenchChoice::List)));
        assert_eq!(parsed("chaos"), Ok(Task::Chaos(ChaosChoice::Everything)));
        assert_eq!(parsed("chaos --list"), Ok(Task::Chaos(ChaosChoice::List)));
        assert_eq!(
            parsed("chaos --only soak"),
            Ok(Task::Chaos(ChaosChoice::Only("soak".to_string())))
        );
    }

    #[test]
    fn a_fuzz_run_has_bounds() {
        let fuzz = |line: &str| match parsed(line) {
            Ok(Task::Fuzz(choice)) => Ok(choice),
            Ok(other) => panic!("{other:?}"),
            Err(advice) => Err(advice),
        };
        assert_eq!(fuzz("fuzz"), Ok(FuzzChoice::default()));
        let chosen = FuzzChoice {
            only: vec!["path".to_string()],
            minutes: None,
            runs: Some(10),
            jobs: 2,
        };
        assert_eq!(fuzz("fuzz --only path --runs 10 --jobs 2"), Ok(chosen));
        for (line, advice) in [
            ("fuzz --minutes", "fuzz --minutes: its value is missing"),
            (
                "fuzz --jobs 0",
                "fuzz --jobs: expected a whole number from 1 (got `0`)",
            ),
            (
                "fuzz --only pth",
                "unknown target `pth`: the nearest is `path` (`ls fuzz/src` lists all)",
            ),
            (
                "fuzz --rnus 1",
                "unknown argument of fuzz `--rnus`: the nearest is `--runs` (`cargo xtask --help` lists all)",
            ),
        ] {
            assert_eq!(fuzz(line), Err(advice.to_string()), "{line}");
        }
    }

    #[test]
    fn words_after_a_bench_belong_to_the_bench() {
        let arguments = vec![
            "--threads".to_string(),
            "2".to_string(),
            "--help".to_string(),
        ];
        assert_eq!(
            parsed("bench local --threads 2 --help"),
            Ok(Task::Bench(BenchChoice::Run {
                name: "local",
                arguments,
                wants_help: true,
            }))
        );
    }

    #[test]
    fn a_slip_is_answered_with_the_nearest_name() {
        let cases = [
            (
                "tset",
                "unknown task `tset`: the nearest is `test` (`cargo xtask --help` lists all)",
            ),
            (
                "test --only clipy",
                "unknown step `clipy`: the nearest is `clippy` (`cargo xtask test --list` lists all)",
            ),
            (
                "test --lst",
                "unknown argument of test `--lst`: the nearest is `--list` (`cargo xtask --help` lists all)",
            ),
            (
                "bench locl",
                "unknown bench `locl`: the nearest is `local` (`cargo xtask bench` lists all)",
            ),
            (
                "test --only",
                "--only: the name of a step is missing (`cargo xtask test --list` names them)",
            ),
            (
                "chaos --only",
                "--only: the name of a scenario is missing (`cargo xtask chaos --list` names them)",
            ),
            (
                "chaos --onyl soak",
                "unknown argument of chaos `--onyl`: the nearest is `--only` (`cargo xtask --help` lists all)",
            ),
            (
                "chaos --list all",
                "chaos --list: takes nothing more (got `all`)",
            ),
            (
                "tidy --grap",
                "unknown argument of tidy `--grap`: the nearest is `--graph` (`cargo xtask --help` lists all)",
            ),
            (
                "tidy --graph --wirte",
                "unknown argument of tidy --graph `--wirte`: the nearest is `--write` (`cargo xtask --help` lists all)",
            ),
            (
                "tidy --measure x",
                "tidy --measure: takes nothing more (got `x`)",
            ),
            (
                "tidy --graph --write x",
                "tidy --graph --write: takes nothing more (got `x`)",
            ),
            (
                "test --only fmt docs",
                "test --only STEP: takes nothing more (got `docs`)",
            ),
        ];
        for (line, advice) in cases {
            assert_eq!(parsed(line), Err(advice.to_string()), "{line:?}");
        }
    }
}
