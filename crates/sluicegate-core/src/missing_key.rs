//! Requests that cannot be charged to a limit, because its key cannot be made.
//!
//! [`Key`](crate::Key) reports it, and [`Policy`](crate::Policy) decides by the limit's
//! [`OnMissingKey`](crate::OnMissingKey) whether the request is charged all the same.

use std::error::Error;
use std::fmt;

use crate::limit::{KeyPart, Limit};

/// A request that cannot be charged, because a part of the key is missing or unusable.
///
/// ```
/// use sluicegate_core::{Limit, MissingReason, Policy, Quota, Subject};
///
/// let policy = Policy::new([Limit::per_client("per-ip", Quota::per_second(10))])?;
/// let missing = policy.charges_for(&Subject::ANONYMOUS, 1).unwrap_err();
/// assert_eq!(missing.reason, MissingReason::Missing);
/// assert_eq!(missing.to_string(), "limit \"per-ip\": client_ip is missing");
/// # Ok::<(), sluicegate_core::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingKey {
    /// The name of the limit.
    pub limit: String,
    /// The part of its key, or `None` when the limit itself is unknown.
    pub part: Option<KeyPart>,
    /// The reason why it cannot be used.
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

    /// There is no limit of this name, or it is off.
    pub(crate) fn no_limit(name: &str, is_disabled: bool) -> Self {
        Self {
            limit: name.to_owned(),
            part: None,
            reason: match is_disabled {
                true => MissingReason::LimitIsOff,
                false => MissingReason::UnknownLimit,
            },
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

/// The reason why a key part has no usable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingReason {
    /// The request does not have it.
    Missing,
    /// Nothing but blanks.
    Empty,
    /// More than one value.
    Repeated,
    /// Bytes beyond printable ASCII.
    NotText,
    /// Too long to name a caller.
    TooLong,
    /// Servers may read another value in it.
    Ambiguous,
    /// The limit's cost is read from it, and it is no whole number.
    NotANumber,
    /// The limit's cost is read from it, and it is larger than any request may cost.
    AboveCost {
        /// The most that a request may cost.
        max: u64,
    },
    /// The text is not an IP address.
    NotAnAddress,
    /// More parts than the key has.
    TooMany {
        /// The number of parts of the key.
        expected: usize,
    },
    /// No limit has this name.
    UnknownLimit,
    /// The limit of this name is turned off.
    LimitIsOff,
}

impl MissingReason {
    /// The longest value, in bytes, that may name a caller.
    pub(crate) const VALUE_MAX: usize = 4_096;
}

impl fmt::Display for MissingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is missing"),
            Self::Empty => f.write_str("is empty"),
            Self::Repeated => f.write_str("has more than one value"),
            Self::NotText => f.write_str("has characters beyond printable ASCII"),
            Self::TooLong => write!(f, "is longer than {} bytes", Self::VALUE_MAX),
            Self::NotANumber => f.write_str("is no whole number, and the cost is read from it"),
            Self::AboveCost { max } => {
                write!(f, "is above {max}, the most that a request may cost")
            }
            Self::Ambiguous => f.write_str("has a value that servers may read differently"),
            Self::NotAnAddress => f.write_str("is not an IP address"),
            Self::TooMany { expected } => write!(f, "the key has only {expected} parts"),
            Self::UnknownLimit => f.write_str("there is no limit of this name"),
            Self::LimitIsOff => f.write_str("is off (enabled: false)"),
        }
    }
}
