//! Parts of a rule that cannot be read.

use std::error::Error;
use std::fmt;

/// A part of a rule that could not be read: a key part, a host or a path.
///
/// Its text says what was expected and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRuleError {
    /// The text as it was given.
    got: String,
    /// A few words that follow `expected`.
    expected: &'static str,
}

impl ParseRuleError {
    pub(crate) fn new(got: &str, expected: &'static str) -> Self {
        Self {
            got: got.to_owned(),
            expected,
        }
    }
}

impl fmt::Display for ParseRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} (got {:?})", self.expected, self.got)
    }
}

impl Error for ParseRuleError {}
