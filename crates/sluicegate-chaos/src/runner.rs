//! Runs scenarios one after the other, and prints which promises held.

use std::fmt;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Instant;

use crate::{Length, Report};

/// A scenario that can be run by its name.
pub struct Scenario {
    name: &'static str,
    ids: &'static str,
    play: ScenarioFunction,
}

type ScenarioFunction = Box<dyn Fn(Length) -> Pin<Box<dyn Future<Output = Report>>>>;

/// A scenario by its name, the promises it proves, and the function that runs it.
pub fn scenario<F, P>(name: &'static str, ids: &'static str, play: F) -> Scenario
where
    F: Fn(Length) -> P + 'static,
    P: Future<Output = Report> + 'static,
{
    Scenario {
        name,
        ids,
        play: Box::new(move |length| Box::pin(play(length))),
    }
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.ids)
    }
}

/// Does what the words after the program's name ask for: everything, `--only NAME`, or `--list`.
pub fn main(words: impl Iterator<Item = String>, scenarios: &[Scenario]) -> ExitCode {
    let words: Vec<String> = words.collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => play(scenarios.iter().collect()),
        ["--list"] => {
            scenarios
                .iter()
                .for_each(|scenario| println!("  {:<28} {}", scenario.name, scenario.ids));
            ExitCode::SUCCESS
        }
        ["--only", name] => match scenarios.iter().find(|scenario| scenario.name == *name) {
            Some(scenario) => play(vec![scenario]),
            None => wrong(&format!(
                "there is no scenario `{name}` (`cargo xtask chaos --list` names them)"
            )),
        },
        _ => wrong("usage: chaos [--list | --only NAME]"),
    }
}

fn wrong(usage: &str) -> ExitCode {
    eprintln!("{usage}");
    ExitCode::from(2)
}

fn play(scenarios: Vec<&Scenario>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("threads can be started");
    let (started, total) = (Instant::now(), scenarios.len());
    let mut broken = Vec::new();
    for (place, scenario) in scenarios.into_iter().enumerate() {
        let so_far = started.elapsed().as_secs();
        println!(
            "[{}/{total}, {so_far} s] {} ({}) …",
            place + 1,
            scenario.name,
            scenario.ids
        );
        let begun = Instant::now();
        let report = runtime.block_on((scenario.play)(Length::Long));
        println!("{report}  took {} s\n", begun.elapsed().as_secs());
        if !report.holds() {
            broken.push(format!("{} ({})", scenario.name, scenario.ids));
        }
    }
    println!(
        "{} of {total} scenarios held, in {} s",
        total - broken.len(),
        started.elapsed().as_secs()
    );
    broken.iter().for_each(|name| println!("BROKEN: {name}"));
    if broken.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
