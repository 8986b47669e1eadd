//! The treatment of requests while the store is away.
//!
//! The default is closed: without a decision of the store nobody knows whether a request is within
//! its limit, and a limiter that lets everything pass protects nothing.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The treatment of a limit's requests while the store is away.
///
/// ```
/// use sluicegate_core::{FailurePolicy, FailureStatus};
///
/// assert_eq!("fail-open".parse(), Ok(FailurePolicy::Open));
/// assert_eq!(FailurePolicy::default(), FailurePolicy::Closed(FailureStatus::new(503)?));
/// # Ok::<(), sluicegate_core::FailureStatusError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Requests pass unchecked.
    Open,
    /// Requests are rejected with this status.
    Closed(FailureStatus),
    /// Each replica enforces the same quota on its own, so all of them together may admit it once
    /// per replica.
    Local,
}

impl Default for FailurePolicy {
    /// Closed, with status 503.
    fn default() -> Self {
        Self::Closed(FailureStatus::default())
    }
}

/// Written as in the configuration: `open`, `closed`, `local`.
impl fmt::Display for FailurePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Closed(_) => "closed",
            Self::Local => "local",
        })
    }
}

/// Reads a name in any case, with `_` and `-` ignored; `closed` comes with status 503. The longer
/// names are those of programs that Sluicegate replaces.
impl FromStr for FailurePolicy {
    type Err = UnknownFailurePolicy;

    fn from_str(text: &str) -> Result<Self, UnknownFailurePolicy> {
        let letters = text
            .trim()
            .chars()
            .filter(|letter| !matches!(letter, '_' | '-'));
        match letters.collect::<String>().to_ascii_lowercase().as_str() {
            "open" | "failopen" | "passthrough" => Ok(Self::Open),
            "closed" | "failclosed" => Ok(Self::default()),
            "local" | "inmemoryfallback" => Ok(Self::Local),
            _ => Err(UnknownFailurePolicy {
                got: text.to_owned(),
            }),
        }
    }
}

/// A name that is not one of a failure policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFailurePolicy {
    got: String,
}

impl fmt::Display for UnknownFailurePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "on_failure.policy: unknown value {:?} (expected open, closed or local)",
            self.got
        )
    }
}

impl Error for UnknownFailurePolicy {}

/// The HTTP status of requests that are rejected because the store is away: 400 to 599, 503 by
/// default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureStatus(u16);

impl FailureStatus {
    /// Checks that the status tells a caller that something failed.
    pub fn new(status: u16) -> Result<Self, FailureStatusError> {
        match status {
            400..=599 => Ok(Self(status)),
            got => Err(FailureStatusError { got }),
        }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Default for FailureStatus {
    fn default() -> Self {
        Self(503)
    }
}

/// A status outside 400 to 599, which would not tell a caller that something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureStatusError {
    got: u16,
}

impl fmt::Display for FailureStatusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "on_failure.status: must be 400 to 599 (got {})",
            self.got
        )
    }
}

impl Error for FailureStatusError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_policy_is_known_in_any_spelling_and_others_are_refused_by_name() {
        for open in [
            "open",
            "OPEN",
            "passThrough",
            "pass_through",
            "pass-through",
            "failOpen",
            "fail_open",
            " Open ",
        ] {
            assert_eq!(open.parse(), Ok(FailurePolicy::Open), "{open:?}");
        }
        for closed in [
            "closed",
            "Closed",
            "failClosed",
            "fail_closed",
            "FAIL-CLOSED",
        ] {
            assert_eq!(
                closed.parse(),
                Ok(FailurePolicy::Closed(FailureStatus(503))),
                "{closed:?}"
            );
        }
        for local in [
            "local",
            "Local",
            "inMemoryFallback",
            "in_memory_fallback",
            "IN-MEMORY-FALLBACK",
        ] {
            assert_eq!(local.parse(), Ok(FailurePolicy::Local), "{local:?}");
        }
        for refused in ["x", "", "opened", "fail", "memory"] {
            let error = refused.parse::<FailurePolicy>().unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "on_failure.policy: unknown value {refused:?} (expected open, closed or local)"
                )
            );
        }
        assert_eq!(
            FailurePolicy::default(),
            FailurePolicy::Closed(FailureStatus(503))
        );
    }

    #[test]
    fn a_status_that_tells_of_a_failure_is_taken_and_another_refused() {
        for status in [400, 429, 503, 599] {
            assert_eq!(
                FailureStatus::new(status).map(FailureStatus::get),
                Ok(status)
            );
        }
        for status in [0, 200, 399, 600, u16::MAX] {
            let error = FailureStatus::new(status).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("on_failure.status: must be 400 to 599 (got {status})")
            );
        }
    }
}
