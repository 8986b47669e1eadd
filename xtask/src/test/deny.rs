//! The step that checks licences, banned crates, sources and advisories with cargo-deny.

use std::env;

use crate::command::{Command, root, target_dir};

use super::{Done, StepResult};

/// Skips with a note when cargo-deny is absent: building it takes over ten minutes on two cores.
pub fn run() -> StepResult {
    let Some(deny) = find_or_install()? else {
        let why = format!(
            "cargo-deny is not installed (`cargo install cargo-deny --locked`, or {INSTALL_SWITCH}=1 to build it under target)"
        );
        println!("{why}");
        return Ok(Done::Skipped { why });
    };
    deny.clone().args(["check", "--hide-inclusion-graph", "bans", "licenses", "sources"]).run()?;
    // Fetched apart from the check, so that no network and a bad crate do not look alike.
    if deny.clone().args(["fetch", "db"]).run().is_err() {
        let note = "advisories skipped: the advisory database could not be fetched";
        return Ok(Done::Passed { tests: 0, note: Some(note.to_string()) });
    }
    deny.clone().args(["check", "advisories"]).run()?;
    Ok(Done::QUIETLY)
}

const INSTALL_SWITCH: &str = "TOLLGATE_INSTALL_DENY";

fn find_or_install() -> Result<Option<Command>, String> {
    let installed = Command::cargo(["deny"]);
    if installed.clone().args(["--version"]).ask().is_ok() {
        return Ok(Some(installed));
    }
    let tools = root().join(target_dir()).join("tools");
    let binary = tools.join("bin").join("cargo-deny");
    if !binary.is_file() {
        if env::var_os(INSTALL_SWITCH).is_none_or(|value| value != "1") {
            return Ok(None);
        }
        let tools = tools.to_string_lossy().into_owned();
        Command::cargo(["install", "cargo-deny", "--locked"]).env("CARGO_INSTALL_ROOT", tools).run()?;
    }
    Ok(Some(Command::new(&binary.to_string_lossy(), [])))
}
