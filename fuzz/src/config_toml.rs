//! Configurations in TOML.

use sluicegate_config::Syntax;

use crate::config_yaml::check;

/// The input is a file.
pub fn run(data: &[u8]) {
    check(data, Syntax::Toml);
}
