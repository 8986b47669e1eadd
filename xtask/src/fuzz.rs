//! `cargo xtask fuzz`: searches for inputs that our code takes wrongly, with libFuzzer and the targets in `fuzz/`.
//!
//! Needs a C++ compiler and nothing else: the instrumentation is a part of the stable compiler, libFuzzer comes
//! with a crate.

mod campaign;
mod programs;
mod status;

use std::fs;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use self::campaign::{Campaign, FuzzResult};
use crate::command::root;

/// What `cargo xtask fuzz …` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FuzzChoice {
    /// Only these targets; all of them if there is none.
    pub only: Vec<String>,
    /// The longest time for each target.
    pub minutes: Option<u64>,
    /// The most executions of each target.
    pub runs: Option<u64>,
    /// Targets that run side by side.
    pub jobs: usize,
}

impl Default for FuzzChoice {
    /// A minute of each, one after the other.
    fn default() -> Self {
        Self {
            only: Vec::new(),
            minutes: Some(1),
            runs: None,
            jobs: 1,
        }
    }
}

/// Runs the chosen targets; `false` when one of them crashed or could not run.
pub fn run(choice: &FuzzChoice) -> bool {
    let done = try_run(choice);
    done.inspect_err(|failure| eprintln!("fuzz: {failure}"))
        .unwrap_or(false)
}

/// The names of all targets: each has a program.
pub fn target_names() -> Vec<String> {
    let folder = root().join("fuzz/libfuzzer/src/bin");
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_string()))
        .filter(|name| name != campaign::PLANTED)
        .collect();
    names.sort();
    names
}

fn try_run(choice: &FuzzChoice) -> Result<bool, String> {
    let programs = programs::build()?;
    campaign::find_planted_bug(&programs)?;
    let names = match choice.only.is_empty() {
        true => target_names(),
        false => choice.only.clone(),
    };
    let campaign = Campaign {
        programs,
        seconds: choice.minutes.map(|minutes| minutes * 60),
        runs: choice.runs,
    };
    let began = Instant::now();
    let mut results = run_all(&campaign, &names, choice.jobs)?;
    results.sort_by(|one, other| one.target.cmp(&other.target));
    print_table(&results, began.elapsed());
    let crashed: Vec<&FuzzResult> = results
        .iter()
        .filter(|result| !result.crashes.is_empty())
        .collect();
    for result in &crashed {
        for input in &result.crashes {
            println!("\n{} crashed: {}", result.target, input.display());
            println!("  repeat it: {}", campaign.repeat(&result.target, input));
            println!("  what it said: {}", result.log.display());
        }
    }
    Ok(crashed.is_empty())
}

/// Runs the targets in `jobs` threads, each of which takes the next target when it is done with one.
fn run_all(campaign: &Campaign, names: &[String], jobs: usize) -> Result<Vec<FuzzResult>, String> {
    let waiting = Mutex::new(names.iter());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|threads| {
        for _ in 0..jobs.max(1) {
            threads.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no thread panics").next();
                    let Some(name) = next else { break };
                    let result = campaign.run(name);
                    results.lock().expect("no thread panics").push(result);
                }
            });
        }
    });
    results
        .into_inner()
        .expect("no thread panics")
        .into_iter()
        .collect()
}

fn print_table(results: &[FuzzResult], took: Duration) {
    println!("\n| target | executions | a second | coverage | corpus | crashes |");
    println!("|---|---:|---:|---:|---:|---:|");
    for result in results {
        let status = &result.status;
        println!(
            "| `{}` | {} | {} | {} | {} | {} |",
            result.target,
            grouped(status.executions),
            grouped(status.per_second),
            status.coverage,
            status.corpus,
            result.crashes.len()
        );
    }
    println!(
        "\n{} targets in {} minutes",
        results.len(),
        took.as_secs() / 60
    );
}

/// A number with commas between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (12_345_678, "12,345,678"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn every_target_but_the_planted_one_is_found() {
        let names = target_names();
        assert!(names.contains(&"http1_request".to_string()));
        assert!(!names.contains(&campaign::PLANTED.to_string()));
    }
}
