//! `cargo xtask`: the chores of this repository, the same on a laptop and in CI.

mod args;
mod bench;
mod book;
mod chaos;
mod command;
mod crates;
mod fuzz;
mod nearest;
mod npm;
mod package;
mod pypi;
mod test;
mod tidy;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::args::Task;

fn main() -> ExitCode {
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Task::Help) => args::print_help(),
        Ok(Task::Test(choice)) => test::run(choice),
        Ok(Task::Tidy(choice)) => tidy::run(choice),
        Ok(Task::Audit) => test::audit(),
        Ok(Task::Package) => {
            print_result("package", package::make(), "install it with `apt install`")
        }
        Ok(Task::Book) => print_result("book", book::make(), "open it in a browser"),
        Ok(Task::Bench(choice)) => bench::run(choice),
        Ok(Task::Chaos(choice)) => chaos::run(choice),
        Ok(Task::Fuzz(choice)) => fuzz::run(&choice),
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    if done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints where the result of a task is and the next step for it; `false` when the task failed.
fn print_result(task: &str, done: Result<PathBuf, String>, next: &str) -> bool {
    match &done {
        Ok(path) => println!("{}: {next}", path.display()),
        Err(failure) => eprintln!("{task}: {failure}"),
    }
    done.is_ok()
}
