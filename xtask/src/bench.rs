//! `cargo xtask bench`: the long measurements, each a binary of `tollgate-bench`.

use crate::command::Command;

/// What `cargo xtask bench …` was asked to do.
#[derive(Debug, PartialEq)]
pub enum BenchChoice {
    List,
    Run { name: &'static str, arguments: Vec<String> },
}

/// Lists the benches or runs one; `false` when the bench could not run or failed.
pub fn run(choice: BenchChoice) -> bool {
    match choice {
        BenchChoice::List => {
            print_list();
            true
        }
        BenchChoice::Run { name, arguments } => run_one(name, arguments),
    }
}

/// The names `cargo xtask bench` takes.
pub fn names() -> Vec<&'static str> {
    BENCHES.iter().map(|bench| bench.name).collect()
}

struct Bench {
    name: &'static str,
    about: &'static str,
}

const BENCHES: [Bench; 2] = [
    Bench {
        name: "local",
        about: "the in-process store beside its peers, in one run (instructions too, where valgrind is installed)",
    },
    Bench {
        name: "redis",
        about: "the store in Redis beside scripts called through redis-rs, in one run (needs redis-server)",
    },
];

fn print_list() {
    println!("usage: cargo xtask bench NAME [ARG…]\n");
    for bench in &BENCHES {
        println!("  {:<8} {}", bench.name, bench.about);
    }
}

fn run_one(name: &str, arguments: Vec<String>) -> bool {
    let command = Command::cargo(["run", "--release", "-p", "tollgate-bench", "--bin", name, "--"]).args(arguments);
    match command.run() {
        Ok(()) => true,
        Err(failure) => {
            eprintln!("bench {name}: {failure}");
            false
        }
    }
}
