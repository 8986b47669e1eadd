//! `cargo xtask chaos`: the long scenarios of `tollgate-chaos`, and random programs by the million.

use crate::command::Command;

/// What `cargo xtask chaos …` was asked to do.
#[derive(Debug, PartialEq)]
pub enum ChaosChoice {
    List,
    Everything,
    Only(String),
}

/// Plays what was asked for; `false` when a promise broke or something could not be played.
pub fn run(choice: ChaosChoice) -> bool {
    let done = match &choice {
        ChaosChoice::List => {
            println!("  {PROGRAMS:<28} T-41: a million random steps and more, the same in Rust and in Redis");
            scenarios(&["--list"])
        }
        ChaosChoice::Only(name) if name == PROGRAMS => programs(),
        ChaosChoice::Only(name) => scenarios(&["--only", name]),
        // Both, whatever the first one found.
        ChaosChoice::Everything => match (programs(), scenarios(&[])) {
            (Err(first), Err(second)) => Err(format!("{first}\nchaos: {second}")),
            (first, second) => first.and(second),
        },
    };
    match done {
        Ok(()) => true,
        Err(failure) => {
            eprintln!("chaos: {failure}");
            false
        }
    }
}

const PROGRAMS: &str = "programs";

/// Programs of 250 steps each.
const PROGRAMS_COUNT: &str = "4000";

/// The tests that play random programs, with more of them.
fn programs() -> Result<(), String> {
    Command::cargo(["test", "--release", "-p", "tollgate", "--test", "it", "--", "as_the_reference_store_does"])
        .env("TOLLGATE_CASES", PROGRAMS_COUNT)
        .run()?;
    Command::cargo(["test", "--release", "-p", "tollgate", "--features", "redis", "--lib", "--", "random"])
        .env("TOLLGATE_CASES", PROGRAMS_COUNT)
        .run()
}

/// The replicas are a program of their own, which `cargo run` alone would not build.
fn scenarios(arguments: &[&str]) -> Result<(), String> {
    Command::cargo(["build", "--release", "-p", "tollgate-chaos", "--bins"]).run()?;
    Command::cargo(["run", "--release", "--quiet", "-p", "tollgate-chaos", "--bin", "chaos", "--"])
        .args(arguments.iter().copied())
        .run()
}
