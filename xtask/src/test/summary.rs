//! The table at the end of `cargo xtask test`.

use std::time::Duration;

use super::{Step, StepOutcome, StepResult, StepRun};

/// Prints what became of each step, then one line in words; `true` when no step failed.
pub fn print(steps: &[&Step], ran: &[StepRun]) -> bool {
    println!();
    rows(steps, ran).iter().for_each(|row| println!("{row}"));
    let failure = steps
        .iter()
        .zip(ran)
        .find_map(|(step, ran)| Some((step, ran.result.as_ref().err()?)));
    let not_run = skipped_tests(ran);
    not_run.iter().for_each(|line| println!("{line}"));
    let Some((step, failure)) = failure else {
        println!("\n{}", all_good(ran));
        return true;
    };
    eprintln!(
        "\n{} failed: {failure}\n`cargo xtask test --only {}` repeats the step",
        step.name, step.name
    );
    false
}

/// `75.3 s`: one decimal is what a reader can use.
pub fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

/// How a step ended, in a word.
pub fn outcome_word(result: &StepResult) -> &'static str {
    match result {
        Ok(StepOutcome::Passed { .. }) => "passed",
        Ok(StepOutcome::Skipped { .. }) => "skipped",
        Err(_) => "FAILED",
    }
}

fn rows(steps: &[&Step], ran: &[StepRun]) -> Vec<String> {
    let row = |name: &str, outcome_word: &str, took: &str, remarks: &str| {
        format!("{name:<9} {outcome_word:<8} {took:>9}  {remarks}")
            .trim_end()
            .to_string()
    };
    let mut rows = vec![row("step", "result", "time", "remarks")];
    for (index, step) in steps.iter().enumerate() {
        rows.push(match ran.get(index) {
            Some(StepRun { result, took }) => row(
                step.name,
                outcome_word(result),
                &seconds(*took),
                &remarks(result),
            ),
            None => row(step.name, "not run", "", ""),
        });
    }
    rows
}

/// The failure itself is not among them: it comes after the table, where it is seen.
fn remarks(result: &StepResult) -> String {
    match result {
        Ok(StepOutcome::Passed {
            tests,
            skipped,
            note,
        }) => {
            let tests = (*tests > 0).then(|| format!("{tests} tests passed"));
            let skipped = (!skipped.is_empty()).then(|| format!("{} skipped", skipped.len()));
            tests
                .into_iter()
                .chain(skipped)
                .chain(note.clone())
                .collect::<Vec<_>>()
                .join("; ")
        }
        Ok(StepOutcome::Skipped { why }) => why.clone(),
        Err(_) => String::new(),
    }
}

/// A line for each test that did not run, with its name and the reason.
fn skipped_tests(ran: &[StepRun]) -> Vec<String> {
    let skipped = ran.iter().flat_map(|ran| match &ran.result {
        Ok(StepOutcome::Passed { skipped, .. }) => skipped.as_slice(),
        _ => &[],
    });
    skipped
        .map(|test| format!("skipped test: {}: {}", test.name, test.reason))
        .collect()
}

fn all_good(ran: &[StepRun]) -> String {
    let tests_of = |ran: &StepRun| {
        if let Ok(StepOutcome::Passed { tests, .. }) = ran.result {
            tests
        } else {
            0
        }
    };
    let skipped = ran
        .iter()
        .filter(|ran| matches!(ran.result, Ok(StepOutcome::Skipped { .. })))
        .count();
    let passed = ran.len() - skipped;
    let tests: u64 = ran.iter().map(tests_of).sum();
    let took = ran.iter().map(|ran| ran.took).sum();
    format!(
        "all good: {passed} steps passed, {skipped} skipped; {tests} tests passed, {} skipped; {}",
        skipped_tests(ran).len(),
        seconds(took)
    )
}

#[cfg(test)]
mod tests {
    use super::super::needs::SkippedTest;
    use super::*;

    fn step(name: &'static str) -> Step {
        Step {
            name,
            about: "",
            run: || Ok(StepOutcome::WITHOUT_REMARK),
        }
    }

    fn ran(result: StepResult) -> StepRun {
        StepRun {
            result,
            took: Duration::from_millis(1_250),
        }
    }

    fn passed(tests: u64, note: Option<&str>) -> StepRun {
        ran(Ok(StepOutcome::Passed {
            tests,
            skipped: Vec::new(),
            note: note.map(str::to_string),
        }))
    }

    fn skipped(why: &str) -> StepRun {
        ran(Ok(StepOutcome::Skipped {
            why: why.to_string(),
        }))
    }

    #[test]
    fn every_chosen_step_has_a_row_even_if_it_did_not_run() {
        let steps = ["fmt", "tests", "deny", "docs", "tidy"].map(step);
        let steps: Vec<&Step> = steps.iter().collect();
        let ran = [
            passed(0, None),
            passed(12, Some("no nextest")),
            skipped("no deny"),
            ran(Err("broken".to_string())),
        ];
        assert_eq!(
            rows(&steps, &ran),
            [
                "step      result        time  remarks",
                "fmt       passed       1.2 s",
                "tests     passed       1.2 s  12 tests passed; no nextest",
                "deny      skipped      1.2 s  no deny",
                "docs      FAILED       1.2 s",
                "tidy      not run",
            ]
        );
    }

    #[test]
    fn one_failure_is_a_failure_and_a_skip_is_none() {
        let steps = ["fmt", "deny"].map(step);
        let steps: Vec<&Step> = steps.iter().collect();
        assert!(!print(
            &steps,
            &[passed(0, None), ran(Err("broken".to_string()))]
        ));
        assert!(print(&steps, &[passed(0, None), skipped("no deny")]));
    }

    #[test]
    fn the_last_line_adds_up_steps_tests_and_times() {
        let ran = [passed(3, None), skipped("no deny"), passed(4, None)];
        assert_eq!(
            all_good(&ran),
            "all good: 2 steps passed, 1 skipped; 7 tests passed, 0 skipped; 3.8 s"
        );
    }

    #[test]
    fn tests_that_did_not_run_are_named_and_not_counted_as_passed() {
        let skipped = ["one", "two"].map(|name| SkippedTest {
            package: "x".to_string(),
            name: name.to_string(),
            reason: "needs Envoy".to_string(),
        });
        let ran = [ran(Ok(StepOutcome::Passed {
            tests: 5,
            skipped: skipped.to_vec(),
            note: None,
        }))];
        assert_eq!(remarks(&ran[0].result), "5 tests passed; 2 skipped");
        let named = ["one", "two"].map(|name| format!("skipped test: {name}: needs Envoy"));
        assert_eq!(skipped_tests(&ran), named);
        assert_eq!(
            all_good(&ran),
            "all good: 1 steps passed, 0 skipped; 5 tests passed, 2 skipped; 1.2 s"
        );
    }
}
