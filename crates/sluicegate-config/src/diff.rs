//! The difference of two configurations in sentences: what changes, and for whom.
//!
//! Configurations are compared as they are enforced, with every default filled in, so a file that
//! only says the same in another way is no change.

mod access;
mod counting;
mod limits;
mod rejections;
mod settings;

use crate::typed::Config;

/// One difference between two configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The consequence for callers or operators.
    pub kind: ChangeKind,
    /// The place in the file, such as `limits.per-client` or `proxy.timeouts.idle`.
    pub key: String,
    /// The difference in a sentence.
    pub message: String,
}

/// The consequence of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// A limit is new or turned on.
    Added,
    /// A limit is gone or turned off.
    Removed,
    /// Fewer requests pass.
    Tighter,
    /// More requests pass.
    Looser,
    /// Counters start anew, because they have other names.
    NewCounters,
    /// Anything else.
    Changed,
}

impl ChangeKind {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Tighter => "tighter",
            Self::Looser => "looser",
            Self::NewCounters => "new_counters",
            Self::Changed => "changed",
        }
    }
}

impl Config {
    /// Every difference between this configuration and the one that takes its place; empty when
    /// both enforce the same.
    ///
    /// ```
    /// use sluicegate_config::{Source, load};
    ///
    /// let old = load(&Source::embedded(), &|_| None).unwrap();
    /// let mut source = Source::embedded();
    /// source.text = source.text.replace("10/s", "5/s");
    /// let new = load(&source, &|_| None).unwrap();
    /// let changes = old.changes_to(&new);
    /// assert_eq!(changes[0].kind.name(), "tighter");
    /// assert!(changes[0].message.starts_with("per-client is tighter: "));
    /// assert!(old.changes_to(&old).is_empty());
    /// ```
    pub fn changes_to(&self, new: &Self) -> Vec<Change> {
        let mut changes = limits::changes(self, new);
        changes.extend(rejections::changes(self, new));
        changes.extend(access::changes(&self.access, &new.access));
        changes.extend(settings::changes(self, new));
        changes
    }
}

impl Change {
    fn new(kind: ChangeKind, key: impl Into<String>, message: String) -> Self {
        Self {
            kind,
            key: key.into(),
            message,
        }
    }
}
