//! The step that looks for programs outside the Rust toolchain and installs the ones nothing works without.

use crate::npm;
use crate::pypi;
use crate::tools::{self, Need, Tool};

use super::{StepOutcome, StepResult};

/// Installs the required tools that are missing; prints a note about optional ones.
pub fn run() -> StepResult {
    tools::install_missing(&TOOLS)?;
    let programs = pypi::FOR_TESTS
        .iter()
        .filter_map(|part| Some(absence(part.name, &part.program().err()?)));
    let packages = npm::FOR_TESTS
        .iter()
        .filter_map(|part| Some(absence(part.name, &part.directory().err()?)));
    let notes: Vec<String> = tools::missing_note(&TOOLS)
        .into_iter()
        .chain(programs)
        .chain(packages)
        .collect();
    notes.iter().for_each(|note| println!("{note}"));
    Ok(StepOutcome::Passed {
        tests: 0,
        skipped: Vec::new(),
        note: (!notes.is_empty()).then(|| notes.join("; ")),
    })
}

/// The note about a tool that could not be installed: the tests with it will be skipped.
fn absence(name: &str, failure: &str) -> String {
    format!("not tested with {name}: {failure}")
}

/// A new program is one more line.
const TOOLS: [Tool; 14] = [
    Tool {
        binary: "git",
        debian_package: "git",
        needed_by: "test --only tidy",
        need: Need::Required,
    },
    Tool {
        binary: "redis-server",
        debian_package: "redis-server",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "curl",
        debian_package: "curl",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "h2load",
        debian_package: "nghttp2-client",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "nginx",
        debian_package: "nginx",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "haproxy",
        debian_package: "haproxy",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "promtool",
        debian_package: "prometheus",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "systemd-analyze",
        debian_package: "systemd",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "ip",
        debian_package: "iproute2",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "chromium",
        debian_package: "chromium",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "chromedriver",
        debian_package: "chromium-driver",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "cc",
        debian_package: "gcc",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool {
        binary: "npm",
        debian_package: "npm",
        needed_by: "test --only tests",
        need: Need::Optional,
    },
    Tool {
        binary: "valgrind",
        debian_package: "valgrind",
        needed_by: "bench local",
        need: Need::Optional,
    },
];
