//! Mistakes in a list of limits.

use std::error::Error;
use std::fmt;

/// A mistake in a list of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The limit's index in the list, from 0.
    pub index: usize,
    /// The field of the limit, as the configuration calls it.
    pub field: &'static str,
    /// The fact and the way out.
    pub message: String,
}

impl PolicyError {
    pub(super) fn new(index: usize, field: &'static str, message: String) -> Self {
        Self {
            index,
            field,
            message,
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limits[{}].{}: {}", self.index, self.field, self.message)
    }
}

impl Error for PolicyError {}

/// Every mistake in a list of limits, one line each when written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors(pub Vec<PolicyError>);

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(PolicyError::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl Error for PolicyErrors {}
