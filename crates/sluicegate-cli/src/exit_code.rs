//! The exit codes of all commands.

/// Exit code of success.
pub(crate) const FINE: u8 = 0;
/// Exit code of a refused configuration or a failed command. Clap itself exits with 2 on wrong usage.
pub(crate) const FAILED: u8 = 1;
/// Exit code of `diff` for configurations that differ.
pub(crate) const DIFFERENT: u8 = 1;
/// Exit code of `diff` for a file that cannot be read or has mistakes.
pub(crate) const WRONG: u8 = 2;
