//! Configurations of targets that need limits.

use sluicegate_config::{Config, Source, load};

/// A configuration that is valid.
pub(crate) fn config_of(text: &str) -> Config {
    let source = Source {
        text: text.to_owned(),
        ..Source::embedded()
    };
    match load(&source, &|_| None) {
        Ok(config) => config,
        Err(mistakes) => panic!("{mistakes}"),
    }
}
