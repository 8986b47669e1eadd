//! Factors that shrink or widen a quota for one caller.
//!
//! A factor comes from a verified claim, so a plan is changed where callers are managed and not in
//! the configuration of limits.

use std::error::Error;
use std::fmt;

use crate::quota::Quota;
use crate::subject::Principal;

/// A caller's factor: its quota has `size / factor`, and a factor of 0 is no limit at all.
///
/// ```
/// use sluicegate_core::{Factor, Quota};
///
/// let quota = Quota::from(Quota::per_second(10));
/// let half = Factor::new(2.0)?.apply(quota).unwrap();
/// assert_eq!(half.limit(), 5);
/// assert_eq!(Factor::new(0.0)?.apply(quota), None);
/// # Ok::<(), sluicegate_core::FactorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor(f64);

impl Factor {
    /// The factor that changes nothing.
    pub const ONE: Self = Self(1.0);

    /// A factor of 0 or more; negative and non-finite numbers are refused.
    pub fn new(factor: f64) -> Result<Self, FactorError> {
        if factor.is_finite() && factor >= 0.0 {
            Ok(Self(factor))
        } else {
            Err(FactorError { got: factor })
        }
    }

    /// The quota with its size divided by this factor, rounded up and at least 1; `None` when it is
    /// unlimited.
    pub fn apply(self, quota: Quota) -> Option<Quota> {
        if self.0 == 0.0 {
            return None;
        }
        if self == Self::ONE {
            return Some(quota);
        }
        let size = (quota.limit() as f64 / self.0).ceil().max(1.0);
        // A size that cannot be enforced exactly keeps the quota as configured: a mistake in a
        // claim never makes a limit looser.
        Some(quota.resized(size as u64).unwrap_or(quota))
    }
}

/// The source of a limit's factor: a claim of the verified principal, never a header that the
/// caller writes.
#[derive(Clone, Debug, PartialEq)]
pub struct FactorRule {
    /// The claim that holds the number.
    pub claim: String,
    /// The factor of callers without a principal, without the claim, or with a claim that is not a
    /// factor.
    pub default: Factor,
}

impl FactorRule {
    /// The factor of this caller.
    pub fn factor_of(&self, principal: Option<&Principal>) -> Factor {
        principal
            .and_then(|principal| principal.claims.get(&self.claim))
            .and_then(|claim| claim.trim().parse().ok())
            .and_then(|number| Factor::new(number).ok())
            .unwrap_or(self.default)
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

    fn sized(factor: f64) -> Option<u64> {
        let quota = Quota::leaky_bucket(10, Nanos::SECOND, 1).unwrap();
        Factor::new(factor)
            .unwrap()
            .apply(quota)
            .map(|quota| quota.limit())
    }

    #[test]
    fn size_is_divided_rounded_up_and_at_least_one() {
        assert_eq!(
            [1.0, 2.0, 3.0, 0.5, 100.0].map(sized),
            [Some(10), Some(5), Some(4), Some(20), Some(1)]
        );
    }

    #[test]
    fn a_factor_of_zero_is_unlimited() {
        assert_eq!(sized(0.0), None);
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
    fn the_factor_comes_from_the_principal_or_is_the_default() {
        let rule = FactorRule {
            claim: "rate_factor".into(),
            default: Factor::new(2.0).unwrap(),
        };
        let with = |claim: &str| {
            let principal = Principal::new("ann").claim("rate_factor", claim);
            rule.factor_of(Some(&principal))
        };
        assert_eq!(with("0.5"), Factor::new(0.5).unwrap());
        assert_eq!(rule.factor_of(None), rule.default);
        assert_eq!(
            [with("-1"), with("NaN"), with("x"), with("inf")],
            [rule.default; 4]
        );
    }
}
