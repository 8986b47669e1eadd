//! Differences of everything but limits and access lists, one setting at a time.
//!
//! Every section is listed as keys with values in words. The sections are taken apart field by
//! field, so a new field that is not compared does not compile.

mod sections;
mod store;

use std::collections::BTreeMap;
use std::fmt::Display;

use super::{Change, ChangeKind};
use crate::redact::shown_url;
use crate::typed::{Config, KeyLayout, RedisMode, StoreKind};

/// The settings of one configuration by key, in words. A key that is absent is not set.
#[derive(Debug, Default)]
struct Settings(BTreeMap<String, Setting>);

/// The value of a setting.
#[derive(Debug)]
struct Setting {
    /// Everything that is compared.
    value: String,
    /// The value without its secrets.
    shown: String,
}

impl Settings {
    fn of(config: &Config) -> Self {
        let mut settings = Self::default();
        sections::list(config, &mut settings);
        store::list(&config.store, &mut settings);
        settings
    }

    fn put(&mut self, key: impl Into<String>, value: impl Display) {
        let value = value.to_string();
        let shown = value.clone();
        self.0.insert(key.into(), Setting { value, shown });
    }

    /// Sets the key to a URL, whose parameters may be secrets.
    fn put_url(&mut self, key: impl Into<String>, url: impl Display) {
        let value = url.to_string();
        let shown = shown_url(&value);
        self.0.insert(key.into(), Setting { value, shown });
    }

    fn put_some(&mut self, key: impl Into<String>, value: Option<impl Display>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    /// Sets the key to the values of a list, or not at all when it is empty.
    fn put_list(&mut self, key: impl Into<String>, values: &[impl Display]) {
        if !values.is_empty() {
            self.put(key, crate::summary::and(values));
        }
    }
}

/// Each setting that differs.
pub(super) fn changes(old: &Config, new: &Config) -> Vec<Change> {
    let (before, after) = (Settings::of(old).0, Settings::of(new).0);
    let mut changes: Vec<Change> = counters(old, new).into_iter().collect();
    let keys = before.keys().chain(after.keys());
    let mut keys: Vec<&String> = keys.collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let message = match (before.get(key), after.get(key)) {
            (Some(was), Some(is)) if was.value == is.value => continue,
            (Some(was), Some(is)) if was.shown == is.shown => {
                format!("{key} has another secret now: {}", is.shown)
            }
            (Some(was), Some(is)) => {
                format!("{key} is {} now, and was {}", is.shown, was.shown)
            }
            (None, Some(is)) => format!("{key} is {} now, and was not set", is.shown),
            (Some(was), None) => format!("{key} is not set any more, and was {}", was.shown),
            (None, None) => continue,
        };
        changes.push(Change::new(ChangeKind::Changed, key.as_str(), message));
    }
    changes
}

/// Counters that are in another place start anew. Other endpoints may be the same servers.
fn counters(old: &Config, new: &Config) -> Option<Change> {
    let place = |config: &Config| match &config.store.kind {
        StoreKind::Local { .. } => None,
        StoreKind::Redis(redis) => Some((
            redis.database,
            redis.key_prefix.clone(),
            layout(redis.key_layout),
            redis.mode == RedisMode::Cluster,
        )),
    };
    (place(old) != place(new)).then(|| {
        let message =
            "counters are kept in another place or under other names: all of them start anew";
        Change::new(ChangeKind::NewCounters, "store", message.to_owned())
    })
}

/// The name of a layout in the file.
fn layout(layout: KeyLayout) -> &'static str {
    match layout {
        KeyLayout::Readable => "readable",
        KeyLayout::Compact => "compact",
        KeyLayout::EdgeQuota => "edgequota",
        KeyLayout::EdgeGuard => "edgeguard",
    }
}
