//! The pace of a quota: how the units of a counter flow back, without how many there are at most.

use std::fmt;
use std::str::FromStr;

use super::Quota;

/// How units flow back. Two quotas of one pace read each other's states as they are; a state that
/// was written at another pace has to be converted
/// ([`algorithm::convert`](crate::algorithm::convert)).
///
/// ```
/// use sluicegate_core::{Pace, Quota};
///
/// let quota = Quota::from(Quota::per_second(10).burst(20));
/// let larger = Quota::from(Quota::per_second(10).burst(50));
/// let faster = Quota::from(Quota::per_second(20).burst(20));
/// assert_eq!(quota.pace(), larger.pace());
/// assert_ne!(quota.pace(), faster.pace());
/// // The text is what a shared store keeps beside a state.
/// assert_eq!(quota.pace().to_string(), "t100000000");
/// assert_eq!("t100000000".parse::<Pace>(), Ok(quota.pace()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// One unit every `interval`, continuously.
    TokenBucket {
        /// Nanoseconds, at least 1.
        interval: u64,
    },
    /// `drip` units at once every interval.
    Drip {
        /// Milliseconds between two drips, at least 1.
        interval_ms: u64,
        /// Units of one drip, at least 1.
        drip: u64,
        /// True when drips fall on multiples of the interval since the epoch.
        aligned: bool,
    },
    /// As windows of this length go out of view.
    SlidingWindow {
        /// Milliseconds, at least 1.
        window_ms: u64,
    },
}

impl Quota {
    /// How the units of this quota flow back.
    #[inline(always)]
    pub const fn pace(&self) -> Pace {
        match self {
            Self::TokenBucket(bucket) => Pace::TokenBucket {
                interval: bucket.interval,
            },
            Self::Drip(bucket) => Pace::Drip {
                interval_ms: bucket.interval_ms,
                drip: bucket.drip,
                aligned: bucket.aligned,
            },
            Self::SlidingWindow(window) => Pace::SlidingWindow {
                window_ms: window.window_ms,
            },
        }
    }
}

/// A letter for the algorithm and its numbers: `t<interval_ns>`, `d<interval_ms>:<drip>:<aligned>`
/// or `w<window_ms>`.
impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TokenBucket { interval } => write!(f, "t{interval}"),
            Self::Drip {
                interval_ms,
                drip,
                aligned,
            } => write!(f, "d{interval_ms}:{drip}:{}", u8::from(aligned)),
            Self::SlidingWindow { window_ms } => write!(f, "w{window_ms}"),
        }
    }
}

/// A text that is not the text of a pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsePaceError;

impl fmt::Display for ParsePaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a pace: expected t<interval_ns>, d<interval_ms>:<drip>:<aligned> or w<window_ms>",
        )
    }
}

impl std::error::Error for ParsePaceError {}

impl FromStr for Pace {
    type Err = ParsePaceError;

    fn from_str(text: &str) -> Result<Self, ParsePaceError> {
        let kind = text.chars().next().ok_or(ParsePaceError)?;
        let mut numbers = text[kind.len_utf8()..].split(':').map(number);
        let pace = match (kind, numbers.next(), numbers.next(), numbers.next()) {
            ('t', Some(interval), None, None) => Self::TokenBucket {
                interval: at_least_one(interval)?,
            },
            ('d', Some(interval_ms), Some(drip), Some(aligned)) => Self::Drip {
                interval_ms: at_least_one(interval_ms)?,
                drip: at_least_one(drip)?,
                aligned: match aligned? {
                    0 => false,
                    1 => true,
                    _ => return Err(ParsePaceError),
                },
            },
            ('w', Some(window_ms), None, None) => Self::SlidingWindow {
                window_ms: at_least_one(window_ms)?,
            },
            _ => return Err(ParsePaceError),
        };
        if numbers.next().is_some() {
            return Err(ParsePaceError);
        }
        Ok(pace)
    }
}

fn number(digits: &str) -> Result<u64, ParsePaceError> {
    let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits {
        return Err(ParsePaceError);
    }
    digits.parse().map_err(|_| ParsePaceError)
}

fn at_least_one(number: Result<u64, ParsePaceError>) -> Result<u64, ParsePaceError> {
    number.and_then(|number| match number {
        0 => Err(ParsePaceError),
        number => Ok(number),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;

    #[test]
    fn every_pace_is_read_back_from_its_text() {
        let quotas = [
            (Quota::from(Quota::per_second(10).burst(5)), "t100000000"),
            (
                Quota::leaky_bucket(10, Nanos::SECOND, 2).unwrap(),
                "d1000:2:0",
            ),
            (
                Quota::fixed_window(100, Nanos::MINUTE).unwrap(),
                "d60000:100:1",
            ),
            (Quota::sliding_window(100, Nanos::MINUTE).unwrap(), "w60000"),
        ];
        for (quota, text) in quotas {
            assert_eq!(quota.pace().to_string(), text);
            assert_eq!(text.parse(), Ok(quota.pace()));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "t",
            "t0",
            "t-1",
            "t+1",
            "t1:2",
            "x1",
            "1",
            "d1:2",
            "d1:2:2",
            "d0:1:0",
            "d1:0:1",
            "d1:2:1:0",
            "w",
            "w0",
            "w1:1",
            "t99999999999999999999",
            "é1",
            "t 1",
        ] {
            assert_eq!(text.parse::<Pace>(), Err(ParsePaceError), "{text:?}");
        }
    }
}
