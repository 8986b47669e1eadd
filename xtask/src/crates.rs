//! Programs from crates.io. One that is not on the path is built under `target` on first use.

use crate::command::{Command, root, target_dir};

/// A program that has the name of its crate.
pub struct Program(&'static str);

pub const CARGO_DENY: Program = Program("cargo-deny");
pub const CARGO_DEB: Program = Program("cargo-deb");
pub const MDBOOK: Program = Program("mdbook");

impl Program {
    /// The command that starts it, if it is installed.
    pub fn installed(&self) -> Option<Command> {
        let on_path = Command::new(self.0, []);
        if on_path.clone().args(["--version"]).read_stdout().is_ok() {
            return Some(on_path);
        }
        let binary = root()
            .join(target_dir())
            .join("tools")
            .join("bin")
            .join(self.0);
        binary
            .is_file()
            .then(|| Command::new(&binary.to_string_lossy(), []))
    }

    /// The command that starts it, after building it if need be.
    pub fn install_if_missing(&self) -> Result<Command, String> {
        if let Some(installed) = self.installed() {
            return Ok(installed);
        }
        let tools = root()
            .join(target_dir())
            .join("tools")
            .to_string_lossy()
            .into_owned();
        Command::cargo(["install", self.0, "--locked"])
            .env("CARGO_INSTALL_ROOT", tools)
            .run()?;
        self.installed()
            .ok_or_else(|| format!("{} was built and is not where it should be", self.0))
    }
}
