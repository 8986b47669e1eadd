//! The numbers of a token bucket.

use super::error::{QuotaError, at_least};
use crate::time::Nanos;

/// A bucket of `burst` units that gains one unit every `interval`; one instant is its whole state.
///
/// Made by [`Quota::per_second`](crate::Quota::per_second) and its like where the numbers are
/// written in the program, and by [`TokenBucket::with_interval`] where they come from outside.
///
/// ```
/// use sluicegate_core::{Nanos, Quota};
///
/// let bucket = Quota::per_second(10).burst(5);
/// assert_eq!(bucket.interval(), Nanos::from_millis(100));
/// // Five units come back in half a second.
/// assert_eq!(bucket.tolerance(), Nanos::from_millis(500));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    /// Nanoseconds in which one unit comes back; at least 1.
    pub(crate) interval: u64,
    /// The most units that are there at once; 0 blocks everything.
    pub(crate) burst: u64,
    /// `burst * interval`, the debt of an empty bucket in nanoseconds; at most `TOLERANCE_MAX`.
    pub(crate) tolerance: u64,
    /// `2^64 / interval`, rounded down and at most 2^64 − 1: divides without a division.
    reciprocal: u64,
}

impl TokenBucket {
    /// Debts up to here stay exact in every store (Lua numbers hold 2^53); 52 days.
    pub(super) const TOLERANCE_MAX: u64 = 1 << 52;

    /// One unit every `interval`, at most `burst` at once; a burst of 0 blocks everything.
    pub fn with_interval(interval: Nanos, burst: u64) -> Result<Self, QuotaError> {
        at_least("interval", interval.get(), 1)?;
        match interval.get().checked_mul(burst) {
            Some(tolerance) if tolerance <= Self::TOLERANCE_MAX => {
                let interval = interval.get();
                Ok(Self {
                    interval,
                    burst,
                    tolerance,
                    reciprocal: reciprocal(interval),
                })
            }
            _ => Err(QuotaError::TooSlow {
                max: Nanos::new(Self::TOLERANCE_MAX),
            }),
        }
    }

    /// The same rate with another burst.
    ///
    /// # Panics
    /// When `burst` is 0 or needs more than 52 days to refill. For numbers from outside use
    /// [`Quota::new`](crate::Quota::new).
    #[must_use]
    pub const fn burst(self, burst: u32) -> Self {
        assert!(burst > 0, "burst: must be at least 1 (got 0)");
        let Some(tolerance) = self.interval.checked_mul(burst as u64) else {
            panic!("burst: takes more than 52 days to refill");
        };
        assert!(
            tolerance <= Self::TOLERANCE_MAX,
            "burst: takes more than 52 days to refill"
        );
        Self {
            burst: burst as u64,
            tolerance,
            ..self
        }
    }

    /// `count` units every `period`, as many at once; for numbers that are written in a program.
    pub(super) const fn literal(count: u32, period: Nanos) -> Self {
        assert!(count > 0, "rate: must be at least 1 (got 0)");
        let interval = period.get().div_ceil(count as u64);
        assert!(
            interval * count as u64 - period.get() <= period.get() / RATE_ERROR_DEN,
            "rate: too fast to be represented exactly"
        );
        Self {
            interval,
            burst: 0,
            tolerance: 0,
            reciprocal: reciprocal(interval),
        }
        .burst(count)
    }

    /// The time one unit takes to come back.
    pub const fn interval(&self) -> Nanos {
        Nanos::new(self.interval)
    }

    /// The time in which an empty bucket fills: a charge fits while the debt with it is no more
    /// than this.
    pub const fn tolerance(&self) -> Nanos {
        Nanos::new(self.tolerance)
    }

    /// Whole units that come back within `span` nanoseconds, which is at most the tolerance:
    /// `span / interval`, rounded down.
    ///
    /// A multiplication instead of the division, because every decision asks this once and a
    /// 64-bit division is the slowest instruction it would execute.
    #[inline]
    pub(crate) const fn units_in(&self, span: u64) -> u64 {
        // The reciprocal is short of the true one by less than 2^-64, and the span is below 2^53:
        // the product is short of the quotient by less than 2^-11, so its whole part is the
        // quotient's or one less.
        let units = ((span as u128 * self.reciprocal as u128) >> 64) as u64;
        if span - units * self.interval >= self.interval {
            units + 1
        } else {
            units
        }
    }
}

/// `2^64 / interval`, rounded down. For an interval of 1 the quotient has one bit too many; the
/// largest number there is falls short by one, which [`TokenBucket::units_in`] makes up for.
const fn reciprocal(interval: u64) -> u64 {
    if interval == 1 {
        u64::MAX
    } else {
        ((1_u128 << 64) / interval as u128) as u64
    }
}

/// Rounding an interval up may slow a rate by at most one part in so many.
pub(super) const RATE_ERROR_DEN: u64 = 1_000;

/// Nanoseconds per unit, rounded up so that the quota is never exceeded.
///
/// Refused when rounding would slow the rate noticeably, as it would for 700,000,000 a second.
pub(super) fn emission_interval(count: u64, period: u64) -> Result<u64, QuotaError> {
    let interval = period.div_ceil(count);
    let rounding = u128::from(interval) * u128::from(count) - u128::from(period);
    if rounding > u128::from(period / RATE_ERROR_DEN) {
        return Err(QuotaError::TooFast {
            count,
            period: Nanos::new(period),
        });
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dividing_by_the_reciprocal_is_exact() {
        let intervals = [
            1,
            2,
            3,
            7,
            10,
            999,
            1_000,
            142_857_143,
            333_333_334,
            1 << 31,
            (1 << 32) - 1,
            (1 << 52) - 1,
            1 << 52,
        ];
        for interval in intervals {
            let bucket =
                TokenBucket::with_interval(Nanos::new(interval), (1 << 52) / interval).unwrap();
            let edges = (0..64).flat_map(|bit| {
                [
                    (1_u64 << bit) - 1,
                    1 << bit,
                    (1_u64 << bit).saturating_add(1),
                ]
            });
            let multiples =
                (0..100).flat_map(|units| [(units * interval).saturating_sub(1), units * interval]);
            for span in edges
                .chain(multiples)
                .filter(|span| *span <= bucket.tolerance)
            {
                assert_eq!(
                    bucket.units_in(span),
                    span / interval,
                    "{span} / {interval}"
                );
            }
        }
    }
}
