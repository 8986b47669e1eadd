//! `cargo xtask bench`: the long measurements, each a binary of `sluicegate-bench`.

mod decisions;
mod proxy;

use crate::command::Command;

/// The forms of `cargo xtask bench …`.
#[derive(Debug, PartialEq)]
pub enum BenchChoice {
    List,
    Run {
        name: &'static str,
        arguments: Vec<String>,
        /// The arguments ask for the help of the bench, which needs nothing else.
        wants_help: bool,
    },
}

/// Lists the benches or runs one; `false` when the bench could not run or failed.
pub fn run(choice: BenchChoice) -> bool {
    match choice {
        BenchChoice::List => {
            print_list();
            true
        }
        BenchChoice::Run {
            name,
            arguments,
            wants_help,
        } => run_one(name, arguments, wants_help),
    }
}

/// The names `cargo xtask bench` takes.
pub fn names() -> Vec<&'static str> {
    BENCHES.iter().map(|bench| bench.name).collect()
}

struct Bench {
    name: &'static str,
    about: &'static str,
    /// Installs and builds for the bench, and returns the arguments that tell it where.
    prepare: fn() -> Result<Vec<String>, String>,
}

const BENCHES: [Bench; 4] = [
    Bench {
        name: "local",
        about: "the in-process store beside its peers, in one run (instructions too, where valgrind is installed)",
        prepare: || Ok(Vec::new()),
    },
    Bench {
        name: "redis",
        about: "the store in Redis beside scripts called through redis-rs, in one run (needs redis-server)",
        prepare: || Ok(Vec::new()),
    },
    Bench {
        name: "proxy",
        about: "the proxy beside nginx, HAProxy and Envoy, in one run (installs what is missing, where it may)",
        prepare: proxy::prepare,
    },
    Bench {
        name: "decisions",
        about: "the decision service beside throttlecrab-server and Redis, in one run (installs what is missing, where it may)",
        prepare: decisions::prepare,
    },
];

fn print_list() {
    println!("usage: cargo xtask bench NAME [ARG…]\n");
    for bench in &BENCHES {
        println!("  {:<10} {}", bench.name, bench.about);
    }
}

fn run_one(name: &str, arguments: Vec<String>, wants_help: bool) -> bool {
    let bench = BENCHES
        .iter()
        .find(|bench| bench.name == name)
        .expect("the command line was checked against the list");
    match bench
        .prepared(wants_help)
        .and_then(|prepared| run_with(name, prepared, arguments))
    {
        Ok(()) => true,
        Err(failure) => {
            eprintln!("bench {name}: {failure}");
            false
        }
    }
}

impl Bench {
    /// Prepares nothing for somebody who only wants to read the help.
    fn prepared(&self, wants_help: bool) -> Result<Vec<String>, String> {
        if wants_help {
            Ok(Vec::new())
        } else {
            (self.prepare)()
        }
    }
}

fn run_with(name: &str, prepared: Vec<String>, arguments: Vec<String>) -> Result<(), String> {
    Command::cargo([
        "run",
        "--release",
        "-p",
        "sluicegate-bench",
        "--bin",
        name,
        "--",
    ])
    .args(prepared)
    .args(arguments)
    .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_had_without_preparation() {
        let bench = Bench {
            name: "x",
            about: "",
            prepare: || Ok(vec!["prepared".to_string()]),
        };
        assert_eq!(bench.prepared(true), Ok(Vec::new()));
        assert_eq!(bench.prepared(false), Ok(vec!["prepared".to_string()]));
    }
}
