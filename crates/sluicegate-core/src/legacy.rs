//! Limits in the older notation `max`, `duration` and `min_interval`, converted to a bucket.
//!
//! The formula is that of the program whose configuration uses this notation, rounding included, so
//! that a file that is moved over enforces the same numbers.

use crate::quota::{Quota, QuotaError};
use crate::time::Nanos;

/// At most `max` per `duration`, and at least `min_interval` between two requests.
///
/// ```
/// use sluicegate_core::{LegacyLimit, Nanos, Quota};
///
/// let hourly = LegacyLimit {
///     max: Some(100),
///     duration: Some(Nanos::HOUR),
///     min_interval: None,
/// };
/// assert_eq!(hourly.quota()?, Some(Quota::leaky_bucket(100, Nanos::from_secs(36), 1)?));
/// # Ok::<(), sluicegate_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LegacyLimit {
    /// Requests per duration; at least 1.
    pub max: Option<u64>,
    /// The span that `max` counts in; at least a millisecond.
    pub duration: Option<Nanos>,
    /// The least time between two requests; less than a millisecond counts as a millisecond. Zero
    /// is none beside `max`, and refused alone.
    pub min_interval: Option<Nanos>,
}

impl LegacyLimit {
    /// The bucket that enforces this; `None` when nothing is given, and so nothing limited.
    ///
    /// Spans are rounded down to milliseconds, but an interval never to none; quotients are rounded
    /// to the nearest whole number.
    pub fn quota(self) -> Result<Option<Quota>, QuotaError> {
        let too_small = |what| QuotaError::TooSmall {
            what,
            got: 0,
            min: 1,
        };
        let millis = |span: Nanos| span.get() / Nanos::MILLISECOND.get();
        let min_interval_ms = self
            .min_interval
            .filter(|interval| *interval > Nanos::ZERO)
            .map(|interval| millis(interval).max(1));
        match (self.max, self.duration.map(millis), min_interval_ms) {
            (Some(max), Some(duration_ms), interval_ms) => {
                bucket(max, duration_ms, interval_ms).map(Some)
            }
            (Some(_), None, _) => Err(too_small("duration")),
            (None, Some(_), _) => Err(too_small("max")),
            (None, None, Some(interval_ms)) => {
                Quota::leaky_bucket(1, Nanos::from_millis(interval_ms), 1).map(Some)
            }
            (None, None, None) if self.min_interval.is_some() => Err(too_small("min_interval")),
            (None, None, None) => Ok(None),
        }
    }
}

/// The bucket of `max` units: `min_interval` sets the time between drips, or else the even pace of
/// `max` per `duration`, and the drips are as large as that rate asks.
fn bucket(max: u64, duration_ms: u64, min_interval_ms: Option<u64>) -> Result<Quota, QuotaError> {
    if max == 0 {
        return Err(QuotaError::TooSmall {
            what: "max",
            got: 0,
            min: 1,
        });
    }
    if duration_ms == 0 {
        return Err(QuotaError::TooSmall {
            what: "duration",
            got: 0,
            min: 1,
        });
    }
    let first_interval_ms = min_interval_ms
        .unwrap_or_else(|| round_div(duration_ms, 1, max))
        .max(1);
    let drip_size = round_div(max, first_interval_ms, duration_ms).max(1);
    let drip_rate_ms = round_div(duration_ms, drip_size, max).max(1);
    Quota::leaky_bucket(max, Nanos::from_millis(drip_rate_ms), drip_size)
}

/// `a · b / c`, rounded to the nearest whole number, halves up; saturating.
fn round_div(a: u64, b: u64, c: u64) -> u64 {
    let (product, c) = (u128::from(a) * u128::from(b), u128::from(c));
    u64::try_from((2 * product + c) / (2 * c)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn legacy(max: u64, duration: Nanos, min_interval: Option<Nanos>) -> Quota {
        LegacyLimit {
            max: Some(max),
            duration: Some(duration),
            min_interval,
        }
        .quota()
        .unwrap()
        .unwrap()
    }

    #[test]
    fn max_and_duration_become_a_bucket() {
        assert_eq!(
            legacy(100, Nanos::HOUR, None),
            Quota::leaky_bucket(100, Nanos::from_secs(36), 1).unwrap()
        );
        // The interval would be below a millisecond, so several units drain at once.
        assert_eq!(
            legacy(5_000, Nanos::SECOND, None),
            Quota::leaky_bucket(5_000, Nanos::MILLISECOND, 5).unwrap()
        );
        // 1000 / 3 = 333.3 ms, rounded.
        assert_eq!(
            legacy(3, Nanos::SECOND, None),
            Quota::leaky_bucket(3, Nanos::from_millis(333), 1).unwrap()
        );
    }

    #[test]
    fn a_min_interval_sets_the_size_of_the_drips() {
        // A second between requests, 100 an hour: the bucket drains one unit every 36 s.
        let slow = legacy(100, Nanos::HOUR, Some(Nanos::SECOND));
        assert_eq!(
            slow,
            Quota::leaky_bucket(100, Nanos::from_secs(36), 1).unwrap()
        );
        // A minute between drips, 600 an hour: ten units a minute.
        let coarse = legacy(600, Nanos::HOUR, Some(Nanos::MINUTE));
        assert_eq!(coarse, Quota::leaky_bucket(600, Nanos::MINUTE, 10).unwrap());
    }

    #[test]
    fn only_a_min_interval_is_a_bucket_of_one() {
        let only = LegacyLimit {
            min_interval: Some(Nanos::SECOND),
            ..LegacyLimit::default()
        };
        assert_eq!(
            only.quota().unwrap(),
            Some(Quota::leaky_bucket(1, Nanos::SECOND, 1).unwrap())
        );
    }

    #[test]
    fn no_interval_however_small_means_unlimited() {
        let alone = |nanos| LegacyLimit {
            min_interval: Some(Nanos::new(nanos)),
            ..LegacyLimit::default()
        };
        let every_millisecond = Quota::leaky_bucket(1, Nanos::MILLISECOND, 1).unwrap();
        for nanos in [1, 1_000, 999_999, 1_000_000, 1_999_999] {
            assert_eq!(
                alone(nanos).quota().unwrap(),
                Some(every_millisecond),
                "{nanos} ns"
            );
        }
        assert_eq!(
            alone(0).quota().unwrap_err().to_string(),
            "min_interval: must be at least 1 (got 0)"
        );
        // Beside a maximum a small interval counts as a millisecond too: here a unit every 60 ms.
        let with_max = legacy(1_000, Nanos::MINUTE, Some(Nanos::new(1)));
        assert_eq!(
            with_max,
            legacy(1_000, Nanos::MINUTE, Some(Nanos::MILLISECOND))
        );
        assert_eq!(
            legacy(3, Nanos::SECOND, Some(Nanos::ZERO)),
            legacy(3, Nanos::SECOND, None)
        );
    }

    #[test]
    fn nothing_given_is_unlimited_and_half_a_rule_is_refused() {
        assert_eq!(LegacyLimit::default().quota().unwrap(), None);
        let no_duration = LegacyLimit {
            max: Some(3),
            ..LegacyLimit::default()
        };
        assert_eq!(
            no_duration.quota().unwrap_err().to_string(),
            "duration: must be at least 1 (got 0)"
        );
        let no_max = LegacyLimit {
            duration: Some(Nanos::HOUR),
            ..LegacyLimit::default()
        };
        assert_eq!(
            no_max.quota().unwrap_err().to_string(),
            "max: must be at least 1 (got 0)"
        );
    }
}
