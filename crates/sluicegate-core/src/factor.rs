//! Factors that shrink or widen a quota for one caller.
//!
//! A factor comes from a verified claim, so a plan is changed where callers are managed and not in
//! the configuration of limits.

mod rule;

pub use rule::FactorRule;

use std::error::Error;
use std::fmt;

use crate::quota::{Quota, Ratio, ScaledPart};

/// A caller's factor: its quota is divided by it, and a factor of 0 is no limit at all.
///
/// A factor is the decimal number that was written, so that 0.1 is exactly a tenth and 10 / 0.1 is
/// 100.
///
/// ```
/// use sluicegate_core::{Factor, Nanos, Quota, ScaledPart};
///
/// let quota = Quota::from(Quota::per_second(10));
/// let half = Factor::new(2.0)?.apply(quota).unwrap();
/// assert_eq!(half.limit(), 5);
/// assert_eq!(Factor::new(0.0)?.apply(quota), None);
/// // Five a second, still ten at once.
/// let slower = Factor::new(2.0)?.scale(quota, ScaledPart::Rate).unwrap();
/// assert_eq!((slower.limit(), slower.window()), (10, Nanos::from_secs(2)));
/// # Ok::<(), sluicegate_core::FactorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor(
    /// `None` is a factor of 0: unlimited.
    Option<Ratio>,
);

impl Factor {
    /// The factor that changes nothing.
    pub const ONE: Self = Self(Some(Ratio {
        numerator: 1,
        denominator: 1,
    }));

    /// A factor of 0 or more; negative and non-finite numbers are refused.
    pub fn new(factor: f64) -> Result<Self, FactorError> {
        if !factor.is_finite() || factor < 0.0 {
            return Err(FactorError { got: factor });
        }
        Ok(Self((factor > 0.0).then(|| decimal(factor))))
    }

    /// The quota with its size divided by this factor, rounded up and at least 1; `None` when it is
    /// unlimited.
    pub fn apply(self, quota: Quota) -> Option<Quota> {
        self.scale(quota, ScaledPart::Size)
    }

    /// The quota with its size, its rate or both divided by this factor; `None` when it is
    /// unlimited. Sizes are rounded up and are at least 1, rates are rounded down.
    ///
    /// Numbers that cannot be enforced exactly keep the quota as configured where they would make
    /// it looser: a mistake in a claim never makes a limit looser.
    pub fn scale(self, quota: Quota, part: ScaledPart) -> Option<Quota> {
        let ratio = self.0?;
        if self == Self::ONE {
            return Some(quota);
        }
        Some(quota.scaled(ratio, part))
    }

    /// The smaller of two factors, which gives the larger quota.
    fn smaller(self, other: Self) -> Self {
        let (Some(one), Some(another)) = (self.0, other.0) else {
            return Self(None);
        };
        // Only the product with the larger factor can be too large.
        let product =
            |one: Ratio, denominator| u128::from(one.numerator).saturating_mul(denominator);
        match product(one, another.denominator) <= product(another, one.denominator) {
            true => self,
            false => other,
        }
    }
}

/// Written as the decimal number that it is.
impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // Numbers of up to 15 digits come out as they were written.
            Some(ratio) => write!(f, "{}", ratio.numerator as f64 / ratio.denominator as f64),
            None => f.write_str("0"),
        }
    }
}

/// The shortest decimal number that is read as this one, which must be positive and finite.
/// Numbers beyond the range of a ratio become its nearest end: no quota is that large or small.
fn decimal(number: f64) -> Ratio {
    // The format is `1.2345e2`: one digit before the point.
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}").parse().unwrap_or(u64::MAX);
    let shift = exponent.parse::<i32>().unwrap_or(0) - fraction.len() as i32;
    let power = |exponent: u32| 10_u128.checked_pow(exponent);
    if shift >= 0 {
        let scaled = power(shift.unsigned_abs()).and_then(|power| power.checked_mul(digits.into()));
        return Ratio {
            numerator: scaled
                .and_then(|scaled| scaled.try_into().ok())
                .unwrap_or(u64::MAX),
            denominator: 1,
        };
    }
    match power(shift.unsigned_abs()).filter(|power| *power <= Ratio::DENOMINATOR_MAX) {
        Some(denominator) => Ratio {
            numerator: digits,
            denominator,
        },
        None => Ratio {
            // Rounded up: a larger factor is a smaller quota.
            numerator: (number * Ratio::DENOMINATOR_MAX as f64).ceil().max(1.0) as u64,
            denominator: Ratio::DENOMINATOR_MAX,
        },
    }
}

/// A number that is negative or not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FactorError {
    /// The number that was given.
    pub got: f64,
}

impl fmt::Display for FactorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "factor: must be a finite number of at least 0 (got {}); 0 means unlimited",
            self.got
        )
    }
}

impl Error for FactorError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nanos;

    fn factor(number: f64) -> Factor {
        Factor::new(number).unwrap()
    }

    fn sized(number: f64) -> Option<u64> {
        let quota = Quota::leaky_bucket(10, Nanos::SECOND, 1).unwrap();
        factor(number).apply(quota).map(|quota| quota.limit())
    }

    #[test]
    fn size_is_divided_rounded_up_and_at_least_one() {
        assert_eq!(
            [1.0, 2.0, 3.0, 0.5, 100.0].map(sized),
            [Some(10), Some(5), Some(4), Some(20), Some(1)]
        );
        // No digit of a decimal fraction is lost.
        assert_eq!(
            [0.1, 0.3, 0.7, 1e-3, 2.5].map(sized),
            [Some(100), Some(34), Some(15), Some(10_000), Some(4)]
        );
    }

    #[test]
    fn a_factor_of_zero_is_unlimited() {
        assert_eq!(sized(0.0), None);
        assert_eq!(sized(-0.0), None);
    }

    #[test]
    fn negative_and_non_finite_factors_are_refused() {
        for bad in [-0.1, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert!(
                Factor::new(bad)
                    .unwrap_err()
                    .to_string()
                    .starts_with("factor: must be")
            );
        }
    }

    #[test]
    fn factors_are_written_as_they_were_read() {
        for (number, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (0.1, "0.1"),
            (12.5, "12.5"),
            (1e6, "1000000"),
        ] {
            assert_eq!(factor(number).to_string(), text);
        }
    }

    #[test]
    fn a_bucket_is_scaled_in_size_or_rate_or_both() {
        let bucket = Quota::new(10, Nanos::SECOND, 20).unwrap();
        let quota = |count, burst| Quota::new(count, Nanos::SECOND, burst).ok();
        let scaled = |number, part| factor(number).scale(bucket, part);
        assert_eq!(scaled(2.0, ScaledPart::Size), quota(10, 10));
        assert_eq!(scaled(2.0, ScaledPart::Rate), quota(5, 20));
        assert_eq!(scaled(2.0, ScaledPart::Both), quota(5, 10));
        assert_eq!(scaled(0.1, ScaledPart::Rate), quota(100, 20));
        assert_eq!(scaled(0.1, ScaledPart::Both), quota(100, 200));
        assert_eq!(scaled(0.0, ScaledPart::Both), None);
    }

    #[test]
    fn drips_are_scaled_in_whole_milliseconds_and_never_too_fast() {
        let bucket = Quota::leaky_bucket(10, Nanos::from_millis(100), 2).unwrap();
        let drips = |size, interval_ms, drip| {
            Quota::leaky_bucket(size, Nanos::from_millis(interval_ms), drip).ok()
        };
        let scaled = |number, part| factor(number).scale(bucket, part);
        assert_eq!(scaled(3.0, ScaledPart::Size), drips(4, 100, 2));
        assert_eq!(scaled(3.0, ScaledPart::Rate), drips(10, 300, 2));
        assert_eq!(scaled(3.0, ScaledPart::Both), drips(4, 300, 2));
        assert_eq!(scaled(0.015, ScaledPart::Rate), drips(10, 2, 2));
        // Below a millisecond the drips grow: 2 every 0.4 ms are 5 every millisecond.
        assert_eq!(scaled(0.004, ScaledPart::Rate), drips(10, 1, 5));
    }

    #[test]
    fn the_one_number_of_a_window_is_scaled_once() {
        let fixed = |limit| Quota::fixed_window(limit, Nanos::MINUTE).unwrap();
        let sliding = |limit| Quota::sliding_window(limit, Nanos::MINUTE).unwrap();
        for part in [ScaledPart::Size, ScaledPart::Rate, ScaledPart::Both] {
            assert_eq!(factor(3.0).scale(fixed(10), part), Some(fixed(4)));
            assert_eq!(factor(0.5).scale(sliding(10), part), Some(sliding(20)));
        }
    }

    #[test]
    fn factors_beyond_every_quota_make_it_the_slowest_and_never_looser() {
        let bucket = Quota::new(1, Nanos::MINUTE, 10_000).unwrap();
        // 69 days are more than a token bucket can keep exactly, so drips take over.
        let slower = factor(10.0).scale(bucket, ScaledPart::Rate);
        let drips = Quota::leaky_bucket(10_000, Nanos::from_secs(600), 1).unwrap();
        assert_eq!(slower, Some(drips));
        for number in [1e30, f64::MAX] {
            let slowest = factor(number).scale(bucket, ScaledPart::Rate).unwrap();
            assert!(slowest.window() > Nanos::from_secs(130 * 365 * 86_400));
            let both = factor(number).scale(bucket, ScaledPart::Both).unwrap();
            assert_eq!(both.limit(), 1);
        }
        for number in [1e-30, f64::MIN_POSITIVE] {
            for part in [ScaledPart::Size, ScaledPart::Both] {
                assert_eq!(factor(number).scale(bucket, part), Some(bucket));
            }
        }
    }
}
