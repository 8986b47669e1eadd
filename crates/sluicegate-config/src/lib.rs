//! Sluicegate's configuration: YAML in, every mistake named, typed values out.
//!
//! A file goes three steps: `raw` reads the YAML into a tree that knows its places, `expand` fills in what comes from
//! the environment and from other files, and `lower` makes the typed [`Config`], noting every mistake on the way.
//!
//! ```
//! use sluicegate_config::{Source, load};
//!
//! let config = load(&Source::embedded(), &|_| None).unwrap();
//! assert_eq!(config.policy.limits()[0].name, "per-client");
//!
//! let mut source = Source::embedded();
//! source.text = "limits:\n  - { name: a, key: [client_ip], rate: 1/s, burst: 0 }\n".to_owned();
//! let mistakes = load(&source, &|_| None).unwrap_err();
//! assert_eq!(mistakes.to_string(), "built-in default:2:52: limits[0].burst: must be at least 1 (got 0)");
//! ```
#![forbid(unsafe_code)]

mod blot;
mod expand;
pub mod import;
mod item;
mod lower;
mod mistakes;
mod raw;
mod schema;
mod section;
mod source;
mod tree;
mod typed;
mod words;

pub use mistakes::{Mistake, Mistakes};
pub use schema::schema;
pub use source::Source;
pub use typed::*;
pub use words::quota_in_words;

use expand::Expander;
use item::{Desk, Item};
use tree::Notes;

/// Reads a configuration, or tells everything that is wrong with it. `env` is asked for variables of the environment.
///
/// Files that the configuration names are not opened, except those in `${file:…}`.
pub fn load(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Mistakes> {
    read(source, env, lower::config)
}

/// The text of a configuration with what looks like a password as stars: for showing it.
pub fn without_secrets(text: &str) -> String {
    blot::blotted(text)
}

/// Reads a file in YAML as whatever it is.
fn read<T>(
    source: &Source,
    env: &dyn Fn(&str) -> Option<String>,
    lower: impl FnOnce(&Item<'_>) -> Option<T>,
) -> Result<T, Mistakes> {
    if source.text.len() > Source::LENGTH_MAX {
        return Err(Mistakes::whole(&source.name, "is longer than 1 MiB"));
    }
    let told = |list| Mistakes::new(&source.name, blot::blotted(&source.text), list);
    let (raw, twice) = raw::parse(&source.text).map_err(|mistake| told(vec![mistake]))?;
    let notes = Notes::new(twice.into_iter().collect());
    let node = tree::grow(raw, "", &mut Expander::new(env, &source.base_dir), &notes);
    let desk = Desk {
        base_dir: &source.base_dir,
        notes: &notes,
    };
    let lowered = lower(&Item {
        path: String::new(),
        node: &node,
        desk: &desk,
    });
    match (lowered, notes.take()) {
        (Some(lowered), mistakes) if mistakes.is_empty() => Ok(lowered),
        (_, mistakes) => Err(told(mistakes)),
    }
}
