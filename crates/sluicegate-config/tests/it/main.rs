//! Configurations as users write them, good and bad.

mod bans;
mod conditions;
mod costs;
mod counting;
mod diff;
mod docs;
mod expansion;
mod external;
mod factors;
mod hostile_files;
mod import;
mod import_golden;
mod limits;
mod listeners;
mod mistakes;
mod numbers;
mod otel;
mod overload;
mod proxy;
mod quotas;
mod reference;
mod rejections;
mod schema;
mod sections;
mod store;
mod summary;
mod switches;
mod toml;

use std::path::PathBuf;

use sluicegate_config::{Config, Mistakes, Source, load};

/// A source with this text, in a directory that does not exist.
fn source(text: &str) -> Source {
    Source {
        name: "sluicegate.yaml".to_owned(),
        text: text.to_owned(),
        base_dir: PathBuf::from("/etc/sluicegate"),
        ..Source::embedded()
    }
}

/// Loads a text with an empty environment.
fn try_load(text: &str) -> Result<Config, Mistakes> {
    load(&source(text), &|_| None)
}

/// The configuration of a text that must be accepted.
#[track_caller]
fn good(text: &str) -> Config {
    try_load(text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
}

/// The messages of a text that must be refused.
#[track_caller]
fn bad(text: &str) -> Vec<String> {
    match try_load(text) {
        Ok(_) => panic!("was accepted:\n{text}"),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    }
}

/// The one message of a text that must be refused.
#[track_caller]
fn wrong(text: &str) -> String {
    let messages = bad(text);
    assert_eq!(messages.len(), 1, "{messages:#?}\n{text}");
    messages[0].clone()
}
