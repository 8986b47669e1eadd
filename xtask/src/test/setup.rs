//! The step that looks for programs outside the Rust toolchain and installs the ones nothing works without.

use std::env;

use crate::command::Command;

use super::{Done, StepResult};

/// Installs what is required and missing; tells about what is only optional.
pub fn run() -> StepResult {
    let missing = required_packages(&TOOLS, on_path);
    if !missing.is_empty() {
        install(&missing)?;
        let still_missing = required_packages(&TOOLS, on_path);
        if !still_missing.is_empty() {
            return Err(format!("installed without an error but still not on PATH: {}", still_missing.join(" ")));
        }
    }
    let note = optional_note(&TOOLS, on_path);
    note.iter().for_each(|note| println!("{note}"));
    Ok(Done::Passed { tests: 0, note })
}

/// A program from outside. A new one is one more line in [`TOOLS`].
struct Tool {
    binary: &'static str,
    debian_package: &'static str,
    needed_by: &'static str,
    need: Need,
}

#[derive(Clone, Copy, PartialEq)]
enum Need {
    /// Installed if we may, a failure otherwise.
    Required,
    /// Mentioned when missing, never installed.
    Optional,
}

const TOOLS: [Tool; 4] = [
    Tool { binary: "git", debian_package: "git", needed_by: "test --only tidy", need: Need::Required },
    Tool {
        binary: "redis-server",
        debian_package: "redis-server",
        needed_by: "test --only tests",
        need: Need::Required,
    },
    Tool { binary: "cc", debian_package: "gcc", needed_by: "test --only tests", need: Need::Required },
    Tool { binary: "valgrind", debian_package: "valgrind", needed_by: "bench local", need: Need::Optional },
];

fn on_path(binary: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| directory.join(binary).is_file())
}

fn required_packages(tools: &[Tool], present: impl Fn(&str) -> bool) -> Vec<&'static str> {
    missing(tools, Need::Required, present).map(|tool| tool.debian_package).collect()
}

fn optional_note(tools: &[Tool], present: impl Fn(&str) -> bool) -> Option<String> {
    let sentences: Vec<String> = missing(tools, Need::Optional, present)
        .map(|tool| {
            format!(
                "{} not found, needed by `cargo xtask {}` (Debian package {})",
                tool.binary, tool.needed_by, tool.debian_package
            )
        })
        .collect();
    (!sentences.is_empty()).then(|| sentences.join("; "))
}

fn missing(tools: &[Tool], need: Need, present: impl Fn(&str) -> bool) -> impl Iterator<Item = &Tool> {
    tools.iter().filter(move |tool| tool.need == need && !present(tool.binary))
}

fn install(packages: &[&str]) -> Result<(), String> {
    let Some(apt_get) = apt_get_as_root() else {
        return Err(by_hand(packages));
    };
    apt_get.clone().args(["update"]).run()?;
    apt_get.args(["install", "-y"]).args(packages.iter().copied()).run()
}

/// `apt-get` with the rights to install, if this is Debian and we have them without a password.
fn apt_get_as_root() -> Option<Command> {
    if !on_path("apt-get") {
        return None;
    }
    let is_root = Command::new("id", ["-u"]).ask().is_ok_and(|id| id.trim() == "0");
    if is_root {
        return Some(Command::new("env", ["DEBIAN_FRONTEND=noninteractive", "apt-get"]));
    }
    Command::new("sudo", ["-n", "true"]).ask().ok()?;
    Some(Command::new("sudo", ["-n", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]))
}

fn by_hand(packages: &[&str]) -> String {
    let packages = packages.join(" ");
    format!(
        "missing, and no right to install it: {packages} (`sudo apt-get install {packages}` on Debian, or the package of the same name elsewhere)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXTURE: [Tool; 3] = [
        Tool { binary: "redis-server", debian_package: "redis", needed_by: "test", need: Need::Required },
        Tool { binary: "nginx", debian_package: "nginx-light", needed_by: "test", need: Need::Required },
        Tool { binary: "plotter", debian_package: "plot-utils", needed_by: "bench plot", need: Need::Optional },
    ];

    #[test]
    fn only_missing_required_tools_are_installed_under_their_package_name() {
        assert_eq!(required_packages(&FIXTURE, |_| false), ["redis", "nginx-light"]);
        assert_eq!(required_packages(&FIXTURE, |binary| binary == "redis-server"), ["nginx-light"]);
    }

    #[test]
    fn a_missing_optional_tool_is_a_note_with_the_way_to_get_it() {
        let note = "plotter not found, needed by `cargo xtask bench plot` (Debian package plot-utils)";
        assert_eq!(optional_note(&FIXTURE, |_| false), Some(note.to_string()));
        assert_eq!(optional_note(&FIXTURE, |_| true), None);
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("cargo"));
        assert!(!on_path("no-such-program"));
    }
}
