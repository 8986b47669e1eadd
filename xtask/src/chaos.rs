//! `cargo xtask chaos`: the long scenarios of `sluicegate-chaos`, and tests that are played many more times than usual.

use crate::command::Command;
use crate::fuzz::{self, FuzzChoice};
use crate::tools::{self, Need, Tool};

/// The forms of `cargo xtask chaos …`.
#[derive(Debug, PartialEq)]
pub enum ChaosChoice {
    List,
    Everything,
    Only(String),
}

/// Runs the chosen scenarios; `false` when a promise broke or a scenario could not run.
pub fn run(choice: ChaosChoice) -> bool {
    let done = match &choice {
        ChaosChoice::List => {
            LONG_TESTS
                .iter()
                .for_each(|test| println!("  {:<28} {}", test.name, test.about));
            println!("  {FUZZ:<28} S14: a minute of each fuzz target");
            scenarios(&["--list"])
        }
        ChaosChoice::Only(name) if name == FUZZ => fuzzing(),
        ChaosChoice::Only(name) => match LONG_TESTS.iter().find(|test| test.name == name) {
            Some(test) => test.run(),
            None => scenarios(&["--only", name]),
        },
        // All of them, even when the first ones failed.
        ChaosChoice::Everything => {
            let found = LONG_TESTS.iter().map(LongTest::run);
            let found = found.chain([scenarios(&[]), fuzzing()]);
            let failures: Vec<String> = found.filter_map(Result::err).collect();
            if failures.is_empty() {
                Ok(())
            } else {
                Err(failures.join("\nchaos: "))
            }
        }
    };
    match done {
        Ok(()) => true,
        Err(failure) => {
            eprintln!("chaos: {failure}");
            false
        }
    }
}

/// The name of the fuzz targets among the scenarios.
const FUZZ: &str = "fuzz";

/// A minute of each fuzz target.
fn fuzzing() -> Result<(), String> {
    match fuzz::run(&FuzzChoice::default()) {
        true => Ok(()),
        false => Err("a fuzz target crashed or did not run; its input is named above".to_string()),
    }
}

/// Tests that run many more times than `cargo xtask test` does.
struct LongTest {
    name: &'static str,
    about: &'static str,
    /// Which tests `cargo test --release` is to build, and which of those to run; several times.
    runs: &'static [(&'static [&'static str], &'static [&'static str])],
    /// How many times.
    cases: &'static str,
    /// Programs that it needs beside those of `cargo xtask test`.
    tools: &'static [Tool],
}

const SLOWHTTPTEST: Tool = Tool {
    binary: "slowhttptest",
    debian_package: "slowhttptest",
    needed_by: "chaos --only slow-clients",
    need: Need::Required,
};

/// The tests against the running program.
const RUNNING: &[&str] = &["-p", "sluicegate-cli", "--test", "it"];

const LONG_TESTS: [LongTest; 8] = [
    LongTest {
        name: "programs",
        about: "T-41: a million random steps and more, the same in Rust and in Redis",
        runs: &[
            (
                &["-p", "sluicegate", "--test", "it"],
                &["as_the_reference_store_does"],
            ),
            (
                &["-p", "sluicegate", "--features", "redis", "--lib"],
                &["random"],
            ),
        ],
        // Programs of 250 steps each.
        cases: "4000",
        tools: &[],
    },
    LongTest {
        name: "reloads",
        about: "T-62: a thousand reloads under load",
        runs: &[(RUNNING, &["reloads_under_load_fail_no_request"])],
        cases: "1000",
        tools: &[],
    },
    LongTest {
        name: "replacements",
        about: "T-63, N6: a hundred processes replace each other under load at every listener",
        runs: &[
            (
                RUNNING,
                &["replacements_under_load_refuse_reset_and_cut_off_nothing"],
            ),
            (RUNNING, &["replacements_lose_no_request_at_any_listener"]),
        ],
        cases: "100",
        tools: &[],
    },
    LongTest {
        name: "large-bodies",
        about: "G4: a gibibyte up and a gibibyte down through flat memory",
        runs: &[(RUNNING, &["large_bodies_stream_through_flat_memory"])],
        // Mebibytes.
        cases: "1024",
        tools: &[],
    },
    LongTest {
        name: "series",
        about: "T-31: a million distinct paths, tenants and hosts, and the metrics stay the same",
        runs: &[(
            RUNNING,
            &[
                "--nocapture",
                "distinct_paths_tenants_and_methods_add_no_series",
            ],
        )],
        cases: "1000000",
        tools: &[],
    },
    LongTest {
        name: "dashboard",
        about: "the page beside a hundred thousand decisions a second",
        runs: &[(
            RUNNING,
            &[
                "--nocapture",
                "beside_a_flood_the_page_shows_a_sample_and_stays_light",
            ],
        )],
        // Decisions.
        cases: "40960000",
        tools: &[],
    },
    LongTest {
        name: "slow-clients",
        about: "T-32: slowhttptest keeps no connection open and slows nobody",
        runs: &[(
            RUNNING,
            &[
                "--ignored",
                "--nocapture",
                "slowhttptest_keeps_no_connection_open_and_slows_nobody",
            ],
        )],
        // Connections, each with one to the server behind; few enough for the usual limit of open files.
        cases: "250",
        tools: &[SLOWHTTPTEST],
    },
    LongTest {
        name: "greedy-client",
        about: "S8, S9, S10: one client at full effort, in twenty-seven ways, and another is served",
        runs: &[(
            RUNNING,
            &["--nocapture", "--test-threads=1", "greedy_client::"],
        )],
        // Seconds for each way.
        cases: "60",
        tools: &[],
    },
];

impl LongTest {
    fn run(&self) -> Result<(), String> {
        tools::install_missing(self.tools)?;
        let mut runs = self.runs.iter();
        runs.try_for_each(|(built, run)| {
            let arguments = built.iter().chain(&["--"]).chain(*run);
            Command::cargo(["test", "--release"])
                .args(arguments.copied())
                .env("SLUICEGATE_CASES", self.cases)
                .run()
        })
    }
}

/// The replicas are a program of their own, which `cargo run` alone would not build.
fn scenarios(arguments: &[&str]) -> Result<(), String> {
    Command::cargo(["build", "--release", "-p", "sluicegate-chaos", "--bins"]).run()?;
    Command::cargo([
        "run",
        "--release",
        "--quiet",
        "-p",
        "sluicegate-chaos",
        "--bin",
        "chaos",
        "--",
    ])
    .args(arguments.iter().copied())
    .run()
}
