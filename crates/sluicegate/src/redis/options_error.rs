//! What is wrong with the options of a Redis store, all at once.

use std::error::Error;
use std::fmt;

/// Every mistake in [`RedisOptions`](crate::RedisOptions), each beginning with its field as the configuration names it.
/// No message holds a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionsError {
    mistakes: Vec<String>,
}

impl OptionsError {
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

/// Collects mistakes while options are looked through.
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
