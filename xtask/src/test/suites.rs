//! The steps that run tests, and how many tests they ran.

use std::fs;

use crate::command::{Command, root, target_dir};
use crate::tidy::{Tree, ignored_tests};

use super::needs::NeedsPlan;
use super::{StepOutcome, StepResult};

/// Unit and integration tests. Plain `cargo test` stands in for nextest, without its time limit per test.
pub fn tests() -> StepResult {
    let tree = Tree::read()?;
    let plan = NeedsPlan::make(ignored_tests(&tree))?;
    let everything = ["--workspace", "--all-features"];
    let has_nextest = Command::cargo(["nextest", "--version"])
        .read_stdout()
        .is_ok();
    let command = if has_nextest {
        plan.with_nextest(Command::cargo(["nextest", "run"]).args(everything))
    } else {
        let targets = ["--lib", "--bins", "--tests", "--examples"];
        plan.with_libtest(Command::cargo(["test"]).args(everything).args(targets))
    };
    let tests = count(&command)?;
    let without_nextest = "without nextest, so a test that hangs is not stopped (`cargo install cargo-nextest --locked`)";
    let notes: Vec<String> = (!has_nextest)
        .then(|| without_nextest.to_string())
        .into_iter()
        .chain(pictures())
        .collect();
    Ok(StepOutcome::Passed {
        tests,
        skipped: plan.skipped(),
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    })
}

/// Where the tests have put what they saw in a browser: what a test prints is not shown when it passes.
fn pictures() -> Option<String> {
    let directory = root().join(target_dir()).join("tmp").join("dashboard");
    let count = fs::read_dir(&directory).ok()?.count();
    (count > 0).then(|| {
        format!(
            "{count} pictures of the dashboard are in {}",
            directory.display()
        )
    })
}

/// The model checker replaces the atomics of every crate it is compiled into, hence its own target directory.
pub fn loom() -> StepResult {
    let target = target_dir().join("loom").to_string_lossy().into_owned();
    let command = Command::cargo(["test", "--target-dir", &target])
        .args(["-p", "sluicegate", "--release", "--lib", "loom_"])
        .env("RUSTFLAGS", "--cfg sluicegate_loom");
    some_ran(count(&command)?, &command).map(passed)
}

/// The code in doc comments and, through `include_str!`, in README and guides.
pub fn doctests() -> StepResult {
    count(&Command::cargo([
        "test",
        "--workspace",
        "--all-features",
        "--doc",
    ]))
    .map(passed)
}

fn count(command: &Command) -> Result<u64, String> {
    command
        .run_and_capture()
        .map(|output| passed_tests(&output))
}

fn passed(tests: u64) -> StepOutcome {
    StepOutcome::Passed {
        tests,
        skipped: Vec::new(),
        note: None,
    }
}

/// A filter that matches nothing succeeds in silence, which must not look like a proof.
fn some_ran(tests: u64, command: &Command) -> Result<u64, String> {
    if tests == 0 {
        return Err(format!(
            "`{command}` ran no test: the tests named loom_* were renamed, or their `cfg` is not `all(test, loom)`"
        ));
    }
    Ok(tests)
}

/// Adds up `test result: ok. 3 passed; …` of libtest and `3 tests run: 3 passed, …` of nextest.
fn passed_tests(output: &str) -> u64 {
    let summaries = output.lines().filter(|line| {
        let line = line.trim_start();
        line.starts_with("test result: ") || line.starts_with("Summary [")
    });
    summaries.filter_map(number_before_passed).sum()
}

fn number_before_passed(line: &str) -> Option<u64> {
    let (before, _) = line.split_once(" passed")?;
    before.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_results_are_added_up_over_all_binaries() {
        let output = "running 3 tests\n...\ntest result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\n\
                      running 1 test\ntest result: ok. 1 passed; 0 failed\n";
        assert_eq!(passed_tests(output), 4);
    }

    #[test]
    fn nextest_results_are_read_from_its_summary() {
        let output = "        PASS [   0.004s] sluicegate 99 passed\n────────────\n     Summary [   0.015s] 21 tests run: 20 passed (1 slow), 1 failed, 2 skipped\n";
        assert_eq!(passed_tests(output), 20);
    }

    #[test]
    fn a_run_without_tests_is_not_a_proof() {
        let command = Command::cargo(["test"]);
        let none = passed_tests(
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 9 filtered out\n",
        );
        assert!(
            some_ran(none, &command)
                .expect_err("zero tests ran")
                .contains("`cargo test` ran no test")
        );
        assert_eq!(some_ran(1, &command), Ok(1));
    }
}
