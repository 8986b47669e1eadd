//! `cargo xtask test`: what CI runs, one step after the other.

mod deny;
mod needs;
mod setup;
mod suites;
mod summary;

use std::time::{Duration, Instant};

use crate::command::Command;
use crate::tidy::{self, TidyChoice};

use self::needs::SkippedTest;

/// The forms of `cargo xtask test …`; a step name is one of [`step_names`].
#[derive(Debug, PartialEq)]
pub enum TestChoice {
    Everything,
    Only(&'static str),
    List,
}

/// Runs the chosen steps until one fails; `true` when none did.
pub fn run(choice: TestChoice) -> bool {
    let chosen: Vec<&Step> = match choice {
        TestChoice::Everything => STEPS.iter().collect(),
        TestChoice::Only(name) => STEPS.iter().filter(|step| step.name == name).collect(),
        TestChoice::List => {
            STEPS
                .iter()
                .for_each(|step| println!("{:<9} {}", step.name, step.about));
            return true;
        }
    };
    let ran = run_until_failure(&chosen);
    summary::print(&chosen, &ran)
}

/// The step `deny` with nothing left out; `true` when there is nothing to complain about.
pub fn audit() -> bool {
    deny::audit()
        .inspect_err(|failure| eprintln!("audit: {failure}"))
        .is_ok()
}

/// The steps in the order they run.
pub fn step_names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// One thing that must hold before a change is good.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> StepResult,
}

/// A failure is a sentence that tells what happened and how to see it again.
type StepResult = Result<StepOutcome, String>;

/// The end of a step that did not fail.
#[derive(Clone, Debug, PartialEq)]
enum StepOutcome {
    Passed {
        /// How many tests ran and passed.
        tests: u64,
        /// Tests that did not run.
        skipped: Vec<SkippedTest>,
        /// A remark for the reader although nothing failed, such as a part left out.
        note: Option<String>,
    },
    /// Nothing was checked.
    Skipped { why: String },
}

impl StepOutcome {
    /// Passed, without tests and with nothing to remark.
    const WITHOUT_REMARK: Self = Self::Passed {
        tests: 0,
        skipped: Vec::new(),
        note: None,
    };
}

/// A step that ran: how it ended and how long it took.
struct StepRun {
    result: StepResult,
    took: Duration,
}

const STEPS: [Step; 9] = [
    Step {
        name: "setup",
        about: "looks for the programs the other steps need",
        run: setup::run,
    },
    Step {
        name: "fmt",
        about: "cargo fmt --check",
        run: fmt,
    },
    Step {
        name: "clippy",
        about: "cargo clippy, every warning an error",
        run: clippy,
    },
    Step {
        name: "tests",
        about: "unit and integration tests, with nextest if it is installed",
        run: suites::tests,
    },
    Step {
        name: "loom",
        about: "every interleaving of the lock-free code (tests named loom_*)",
        run: suites::loom,
    },
    Step {
        name: "doctests",
        about: "the code in doc comments, README and guides",
        run: suites::doctests,
    },
    Step {
        name: "docs",
        about: "cargo doc, every warning an error",
        run: docs,
    },
    Step {
        name: "tidy",
        about: "cargo xtask tidy",
        run: tidy_step,
    },
    Step {
        name: "deny",
        about: "licences, banned crates, sources, advisories, with cargo-deny if it is installed",
        run: deny::run,
    },
];

fn run_until_failure(steps: &[&Step]) -> Vec<StepRun> {
    let mut ran = Vec::new();
    for step in steps {
        println!("\n=== {}: {}", step.name, step.about);
        let started = Instant::now();
        let result = (step.run)();
        let took = started.elapsed();
        let failed = result.is_err();
        println!(
            "=== {} {} after {}",
            step.name,
            summary::outcome_word(&result),
            summary::seconds(took)
        );
        ran.push(StepRun { result, took });
        if failed {
            break;
        }
    }
    ran
}

fn fmt() -> StepResult {
    plain(Command::cargo(["fmt", "--all", "--check"]))
        .map_err(|failure| format!("{failure}; `cargo fmt --all` repairs it"))
}

fn clippy() -> StepResult {
    plain(Command::cargo([
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]))
}

fn docs() -> StepResult {
    plain(
        Command::cargo(["doc", "--workspace", "--all-features", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

fn tidy_step() -> StepResult {
    if tidy::run(TidyChoice::Check) {
        Ok(StepOutcome::WITHOUT_REMARK)
    } else {
        Err("the findings are listed above; `cargo xtask tidy` shows them again".to_string())
    }
}

fn plain(command: Command) -> StepResult {
    command.run().map(|()| StepOutcome::WITHOUT_REMARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes() -> StepResult {
        Ok(StepOutcome::WITHOUT_REMARK)
    }

    fn fails() -> StepResult {
        Err("broken".to_string())
    }

    #[test]
    fn nothing_runs_after_the_first_failure() {
        let steps = [
            ("a", passes as fn() -> StepResult),
            ("b", fails),
            ("c", passes),
        ]
        .map(|(name, run)| Step {
            name,
            about: "",
            run,
        });
        let ran = run_until_failure(&steps.iter().collect::<Vec<_>>());
        let ended: Vec<bool> = ran.iter().map(|ran| ran.result.is_ok()).collect();
        assert_eq!(ended, [true, false]);
    }

    #[test]
    fn step_names_are_unique() {
        let mut names = step_names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
    }
}
