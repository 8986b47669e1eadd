//! Reasons to refuse the numbers of a quota, and the checks that find them.

use std::error::Error;
use std::fmt;

use crate::time::Nanos;

/// Numbers that cannot be enforced exactly, with the bound they break.
///
/// ```
/// use sluicegate_core::{Nanos, Quota};
///
/// let error = Quota::new(10, Nanos::SECOND, 0).unwrap_err();
/// assert_eq!(error.to_string(), "burst: must be at least 1 (got 0)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// A number below its least value.
    TooSmall {
        /// The number's name, as in the configuration.
        what: &'static str,
        /// The value that was given.
        got: u64,
        /// The least that is accepted.
        min: u64,
    },
    /// A number above its greatest value.
    TooLarge {
        /// The number's name, as in the configuration.
        what: &'static str,
        /// The value that was given.
        got: u64,
        /// The most that is accepted.
        max: u64,
    },
    /// Whole milliseconds were expected.
    NotMillis {
        /// The number's name, as in the configuration.
        what: &'static str,
        /// The value that was given.
        got: Nanos,
    },
    /// The rate would be off by more than one in a thousand.
    TooFast {
        /// Units per period that were asked for.
        count: u64,
        /// The period.
        period: Nanos,
    },
    /// An empty counter would take too long to refill.
    TooSlow {
        /// The longest time to refill.
        max: Nanos,
    },
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { what, got, min } => {
                write!(f, "{what}: must be at least {min} (got {got})")
            }
            Self::TooLarge { what, got, max } => {
                write!(f, "{what}: must be at most {max} (got {got})")
            }
            Self::NotMillis { what, got } => {
                write!(f, "{what}: must be whole milliseconds (got {got})")
            }
            Self::TooFast { count, period } => write!(
                f,
                "rate: {count} per {period} cannot be kept exactly (at most 1000000 per second, or a divisor of 1000000000)"
            ),
            Self::TooSlow { max } => {
                write!(
                    f,
                    "burst: takes more than {} days to refill; lower it or raise the rate",
                    max.get() / Nanos::DAY.get()
                )
            }
        }
    }
}

impl Error for QuotaError {}

/// Refuses a number below `min`.
pub(super) fn at_least(what: &'static str, got: u64, min: u64) -> Result<(), QuotaError> {
    if got < min {
        Err(QuotaError::TooSmall { what, got, min })
    } else {
        Ok(())
    }
}

/// Refuses a number above `max`.
pub(super) fn at_most(what: &'static str, got: u64, max: u64) -> Result<(), QuotaError> {
    if got > max {
        Err(QuotaError::TooLarge { what, got, max })
    } else {
        Ok(())
    }
}

/// The span in milliseconds; refuses zero and fractions, which the algorithms that count in
/// milliseconds could not keep.
pub(super) fn whole_millis(what: &'static str, span: Nanos) -> Result<u64, QuotaError> {
    at_least(what, span.get(), 1)?;
    if !span.get().is_multiple_of(Nanos::MILLISECOND.get()) {
        return Err(QuotaError::NotMillis { what, got: span });
    }
    Ok(span.get() / Nanos::MILLISECOND.get())
}
