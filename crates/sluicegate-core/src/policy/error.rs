//! What can be wrong with limits, and with a request that should be charged to one.

use std::error::Error;
use std::fmt;

use crate::limit::{KeyPart, Limit};

/// A mistake in a list of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// The limit's index in the list, from 0.
    pub index: usize,
    /// The field.
    pub field: &'static str,
    /// What is wrong and what was expected.
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

/// A request that cannot be charged, because it does not say who it is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKey {
    /// The limit that asked.
    pub limit: String,
    /// The part of its key, or `None` when the limit itself is unknown.
    pub part: Option<KeyPart>,
    /// What is wrong with it.
    pub reason: MissingReason,
}

impl MissingKey {
    pub(crate) fn new(limit: &Limit, part: &KeyPart, reason: MissingReason) -> Self {
        Self {
            limit: limit.name.clone(),
            part: Some(part.clone()),
            reason,
        }
    }

    pub(crate) fn too_many(limit: &Limit) -> Self {
        Self {
            limit: limit.name.clone(),
            part: None,
            reason: MissingReason::TooMany {
                expected: limit.key.len(),
            },
        }
    }

    pub(crate) fn unknown_limit(name: &str) -> Self {
        Self {
            limit: name.to_owned(),
            part: None,
            reason: MissingReason::UnknownLimit,
        }
    }
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Some(part) => write!(f, "limit {:?}: {part} {}", self.limit, self.reason),
            None => write!(f, "limit {:?}: {}", self.limit, self.reason),
        }
    }
}

impl Error for MissingKey {}

/// Why a key part has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// Not there.
    Missing,
    /// Nothing but blanks.
    Empty,
    /// More than one value.
    Repeated,
    /// Bytes beyond printable ASCII.
    NotText,
    /// Too long to name a caller.
    TooLong,
    /// Given as text, but no address.
    NotAnAddress,
    /// More parts than the key has.
    TooMany {
        /// The parts of the key.
        expected: usize,
    },
    /// No limit has this name.
    UnknownLimit,
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Empty => f.write_str("is empty"),
            Self::Repeated => f.write_str("has more than one value"),
            Self::NotText => f.write_str("has characters beyond printable ASCII"),
            Self::TooLong => f.write_str("is longer than 4096 bytes"),
            Self::NotAnAddress => f.write_str("is no IP address"),
            Self::TooMany { expected } => write!(f, "the key has only {expected} parts"),
            Self::UnknownLimit => f.write_str("there is no limit of this name"),
        }
    }
}
