//! Programs that not every machine has, for tests that are marked `#[ignore = "needs …"]`.
//!
//! `cargo xtask test` installs them, runs those tests too, and reports a test whose need it cannot meet as
//! skipped. Such a test never returns early: without the program it fails.

use std::path::PathBuf;

/// The program that an environment variable names.
///
/// # Panics
/// If the variable is not set, which means that the test was not run by `cargo xtask test`.
#[must_use]
pub fn program(variable: &str) -> PathBuf {
    let named = std::env::var_os(variable).map(PathBuf::from);
    named.unwrap_or_else(|| {
        panic!(
            "{variable}: must name a program (`cargo xtask test` installs it and runs this test)"
        )
    })
}
