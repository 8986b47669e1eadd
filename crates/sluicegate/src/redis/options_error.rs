//! The error of options that have mistakes, all of them at once.

use std::error::Error;
use std::fmt;

/// Every mistake in [`RedisOptions`](crate::RedisOptions).
///
/// Each begins with the name of its field in the configuration file. No message holds a password.
///
/// ```
/// let error = sluicegate::RedisOptions::from_url("redis+cluster://a,a/1").unwrap_err();
/// assert_eq!(
///     error.mistakes(),
///     [
///         "store.redis.endpoints: a:6379 is named twice",
///         "store.redis.database: a cluster has only database 0 (got 1)",
///     ]
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError {
    mistakes: Vec<String>,
}

impl OptionsError {
    /// An error with one mistake.
    pub(super) fn new(field: &str, what: impl fmt::Display) -> Self {
        Self {
            mistakes: vec![format!("{field}: {what}")],
        }
    }

    /// The mistakes, one sentence each.
    pub fn mistakes(&self) -> &[String] {
        &self.mistakes
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.mistakes.join("; "))
    }
}

impl Error for OptionsError {}

/// Collects mistakes while options are checked.
#[derive(Default)]
pub(super) struct MistakeList(Vec<String>);

impl MistakeList {
    pub(super) fn push(&mut self, field: &str, what: impl fmt::Display) {
        self.0.push(format!("{field}: {what}"));
    }

    pub(super) fn into_result(self) -> Result<(), OptionsError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(OptionsError { mistakes: self.0 })
        }
    }
}
