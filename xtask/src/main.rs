//! `cargo xtask`: the chores of this repository, the same on a laptop and in CI.

mod args;
mod bench;
mod chaos;
mod command;
mod crates;
mod layering;
mod nearest;
mod package;
mod pypi;
mod test;
mod tidy;
mod tools;

use std::process::ExitCode;

use crate::args::Task;

fn main() -> ExitCode {
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Task::Help) => args::print_help(),
        Ok(Task::Test(choice)) => test::run(choice),
        Ok(Task::Tidy) => tidy::run(),
        Ok(Task::Audit) => test::audit(),
        Ok(Task::Package) => package::debian(),
        Ok(Task::Book) => package::book(),
        Ok(Task::Bench(choice)) => bench::run(choice),
        Ok(Task::Chaos(choice)) => chaos::run(choice),
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    if done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
