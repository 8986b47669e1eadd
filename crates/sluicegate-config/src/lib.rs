//! Sluicegate's configuration: YAML or TOML in, every mistake named, typed values out.
//!
//! A file goes three steps: `raw` reads the text into a tree in which every value knows its line,
//! `tree` fills in the references to the environment and to other files, and `convert` makes the
//! typed [`Config`]. No step stops at the first mistake: all of them are collected and reported
//! together.
//!
//! ```
//! use sluicegate_config::{Source, load};
//!
//! let config = load(&Source::embedded(), &|_| None).unwrap();
//! assert_eq!(config.policy.limits()[0].name, "per-client");
//!
//! let mut source = Source::embedded();
//! source.text = "limits:\n  - { name: a, key: [client_ip], rate: 0/s }\n".to_owned();
//! let mistakes = load(&source, &|_| None).unwrap_err();
//! assert!(mistakes.to_string().starts_with("built-in default:2:40: limits[0].rate: expected at least 1 unit"));
//! ```
#![forbid(unsafe_code)]

mod convert;
mod diff;
mod expand;
mod field;
pub mod import;
mod message_text;
mod mistakes;
mod raw;
mod redact;
mod schema;
mod secret_names;
mod source;
mod summary;
mod tree;
mod typed;

pub use diff::{Change, ChangeKind};
pub use mistakes::{Mistake, Mistakes};
pub use schema::schema;
pub use source::{Source, Syntax};
pub use summary::{
    ban_in_words, cost_in_words, counted_in_words, limit_quota_in_words, quota_in_words,
};
pub use typed::*;

use expand::Expander;
use field::{Field, ReadContext};
use tree::MistakeLog;

/// Reads a configuration, or reports every mistake in it. `env` looks up variables of the
/// environment: those that the text refers to, and the standard ones of OpenTelemetry.
///
/// Files that the configuration names are not opened, except those in `${file:…}` and the bodies of
/// rejections.
pub fn load(source: &Source, env: &dyn Fn(&str) -> Option<String>) -> Result<Config, Mistakes> {
    read(source, env, convert::config)
}

/// The mistakes that were found after the configuration was loaded, such as in the files that it
/// names: the key in the configuration, and what is wrong. Each gets the position of its key, or of
/// the section around it.
pub fn mistakes_at(
    source: &Source,
    env: &dyn Fn(&str) -> Option<String>,
    found: &[(String, String)],
) -> Mistakes {
    let located = read(source, env, |top| {
        for (path, message) in found {
            top.note_at(path, message);
        }
        None::<std::convert::Infallible>
    });
    match located {
        Ok(never) => match never {},
        Err(mistakes) => mistakes,
    }
}

/// The text of a configuration with stars in place of everything that looks like a secret.
pub fn without_secrets(text: &str) -> String {
    redact::redacted(text)
}

/// Reads a file, and converts it with `convert`. The result is given out only when there was
/// no mistake: converters put defaults in place of values that they could not read.
fn read<T>(
    source: &Source,
    env: &dyn Fn(&str) -> Option<String>,
    convert: impl FnOnce(&Field<'_>) -> Option<T>,
) -> Result<T, Mistakes> {
    if source.text.len() > Source::LENGTH_MAX {
        return Err(Mistakes::whole(&source.name, "is longer than 1 MiB"));
    }
    let report = |list| Mistakes::new(&source.name, redact::redacted(&source.text), list);
    let (raw, repeated) = raw::parse(&source.text, source.syntax).map_err(report)?;
    let mistakes = MistakeLog::new(repeated);
    let mut expander = Expander::new(env, &source.base_dir);
    let node = tree::expand(raw, "", &mut expander, &mistakes);
    let mut context = ReadContext::new(&source.base_dir, &mistakes, env);
    context.value_files = expander.files;
    let converted = convert(&Field {
        path: String::new(),
        node: &node,
        context: &context,
    });
    match (converted, mistakes.take()) {
        (Some(converted), mistakes) if mistakes.is_empty() => Ok(converted),
        (_, mistakes) => Err(report(mistakes)),
    }
}
