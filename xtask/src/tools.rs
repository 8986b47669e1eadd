//! Programs outside the Rust toolchain: finds them, and installs those that nothing works without.

use std::env;
use std::path::PathBuf;

use crate::command::Command;

/// Installs what is required and missing.
pub fn install_missing(tools: &[Tool]) -> Result<(), String> {
    let missing = required_packages(tools, on_path);
    if missing.is_empty() {
        return Ok(());
    }
    install(&missing)?;
    let still_missing = required_packages(tools, on_path);
    if still_missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "installed without an error but still not on PATH: {}",
        still_missing.join(" ")
    ))
}

/// A note about the tools that are optional and missing, and the way to get them.
pub fn missing_note(tools: &[Tool]) -> Option<String> {
    optional_note(tools, on_path)
}

/// A program that a package of the system brings.
pub struct Tool {
    pub binary: &'static str,
    pub debian_package: &'static str,
    pub needed_by: &'static str,
    pub need: Need,
}

impl Tool {
    pub const fn required(
        binary: &'static str,
        debian_package: &'static str,
        needed_by: &'static str,
    ) -> Self {
        Self {
            binary,
            debian_package,
            needed_by,
            need: Need::Required,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Need {
    /// Installed if we may, a failure otherwise.
    Required,
    /// Mentioned when missing, never installed.
    Optional,
}

/// Looks beyond `PATH` too: servers are often in directories that only administrators have on theirs.
fn on_path(binary: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut directories =
        env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin", "/sbin"].map(PathBuf::from));
    directories.any(|directory| directory.join(binary).is_file())
}

fn required_packages(tools: &[Tool], present: impl Fn(&str) -> bool) -> Vec<&'static str> {
    missing(tools, Need::Required, present)
        .map(|tool| tool.debian_package)
        .collect()
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

fn missing(
    tools: &[Tool],
    need: Need,
    present: impl Fn(&str) -> bool,
) -> impl Iterator<Item = &Tool> {
    tools
        .iter()
        .filter(move |tool| tool.need == need && !present(tool.binary))
}

fn install(packages: &[&str]) -> Result<(), String> {
    let Some(apt_get) = apt_get_as_root() else {
        return Err(by_hand(packages));
    };
    apt_get.clone().args(["update"]).run()?;
    apt_get
        .args(["install", "-y"])
        .args(packages.iter().copied())
        .run()
}

/// `apt-get` with the rights to install, if this is Debian and we have them without a password.
fn apt_get_as_root() -> Option<Command> {
    if !on_path("apt-get") {
        return None;
    }
    let is_root = Command::new("id", ["-u"])
        .read_stdout()
        .is_ok_and(|id| id.trim() == "0");
    if is_root {
        return Some(Command::new(
            "env",
            ["DEBIAN_FRONTEND=noninteractive", "apt-get"],
        ));
    }
    Command::new("sudo", ["-n", "true"]).read_stdout().ok()?;
    Some(Command::new(
        "sudo",
        ["-n", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"],
    ))
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
        Tool {
            binary: "redis-server",
            debian_package: "redis",
            needed_by: "test",
            need: Need::Required,
        },
        Tool {
            binary: "nginx",
            debian_package: "nginx-light",
            needed_by: "test",
            need: Need::Required,
        },
        Tool {
            binary: "plotter",
            debian_package: "plot-utils",
            needed_by: "bench plot",
            need: Need::Optional,
        },
    ];

    #[test]
    fn only_missing_required_tools_are_installed_under_their_package_name() {
        assert_eq!(
            required_packages(&FIXTURE, |_| false),
            ["redis", "nginx-light"]
        );
        assert_eq!(
            required_packages(&FIXTURE, |binary| binary == "redis-server"),
            ["nginx-light"]
        );
    }

    #[test]
    fn a_missing_optional_tool_is_a_note_with_the_way_to_get_it() {
        let note =
            "plotter not found, needed by `cargo xtask bench plot` (Debian package plot-utils)";
        assert_eq!(optional_note(&FIXTURE, |_| false), Some(note.to_string()));
        assert_eq!(optional_note(&FIXTURE, |_| true), None);
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("cargo"));
        assert!(!on_path("no-such-program"));
    }
}
