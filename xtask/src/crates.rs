//! Programs from crates.io. What is not on the path is built under `target`, the first time it is wanted.

use crate::command::{Command, root, target_dir};

/// A program that its crate is named after.
pub struct Program(&'static str);

pub const CARGO_DENY: Program = Program("cargo-deny");
pub const CARGO_DEB: Program = Program("cargo-deb");
pub const MDBOOK: Program = Program("mdbook");

impl Program {
    /// How it is called, if it is there.
    pub fn installed(&self) -> Option<Command> {
        let on_path = Command::new(self.0, []);
        if on_path.clone().args(["--version"]).ask().is_ok() {
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

    /// How it is called; it is built first if need be.
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
