//! The source of a caller's factor: a claim with a number, or a claim with a role and a map.

use std::collections::BTreeMap;

use super::Factor;
use crate::quota::{Quota, ScaledPart};
use crate::subject::Principal;

/// The source of a limit's factor: a claim of the verified principal, never a header that the
/// caller writes.
///
/// ```
/// use sluicegate_core::{Factor, FactorRule, Principal};
///
/// let rule = FactorRule::new("role", Factor::ONE).role("gold", Factor::new(0.25)?);
/// let ann = Principal::new("ann").claim("role", "gold");
/// assert_eq!(rule.factor_of(Some(&ann)), Factor::new(0.25)?);
/// assert_eq!(rule.factor_of(None), Factor::ONE);
/// # Ok::<(), sluicegate_core::FactorError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct FactorRule {
    /// The claim that holds the number, or the role.
    pub claim: String,
    /// The factor of each role; empty when the claim holds the number itself.
    pub roles: BTreeMap<String, Factor>,
    /// The factor of callers without a principal, without the claim, or with a claim that is
    /// neither a factor nor a role of the map.
    pub default: Factor,
    /// The numbers of the quota that are divided.
    pub applies_to: ScaledPart,
}

impl FactorRule {
    /// Divides the size of a quota by the number in a claim.
    pub fn new(claim: impl Into<String>, default: Factor) -> Self {
        Self {
            claim: claim.into(),
            roles: BTreeMap::new(),
            default,
            applies_to: ScaledPart::Size,
        }
    }

    /// Gives a role its factor; the claim then holds roles instead of a number.
    #[must_use]
    pub fn role(mut self, role: impl Into<String>, factor: Factor) -> Self {
        self.roles.insert(role.into(), factor);
        self
    }

    /// Divides other numbers than the size.
    #[must_use]
    pub fn applies_to(mut self, part: ScaledPart) -> Self {
        self.applies_to = part;
        self
    }

    /// The factor of this caller. Of several roles, which a claim separates with commas, the one
    /// with the largest quota counts.
    pub fn factor_of(&self, principal: Option<&Principal>) -> Factor {
        let claim = principal.and_then(|principal| principal.claims.get(&self.claim));
        let Some(claim) = claim else {
            return self.default;
        };
        let factor = match self.roles.is_empty() {
            true => claim
                .trim()
                .parse()
                .ok()
                .and_then(|number| Factor::new(number).ok()),
            false => claim
                .split(',')
                .filter_map(|role| self.roles.get(role.trim()))
                .copied()
                .reduce(Factor::smaller),
        };
        factor.unwrap_or(self.default)
    }

    /// The quota of this caller; `None` when it is unlimited.
    pub fn quota_of(&self, principal: Option<&Principal>, quota: Quota) -> Option<Quota> {
        self.factor_of(principal).scale(quota, self.applies_to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(number: f64) -> Factor {
        Factor::new(number).unwrap()
    }

    #[test]
    fn the_factor_comes_from_the_principal_or_is_the_default() {
        let rule = FactorRule::new("rate_factor", factor(2.0));
        let with = |claim: &str| {
            let principal = Principal::new("ann").claim("rate_factor", claim);
            rule.factor_of(Some(&principal))
        };
        assert_eq!(with("0.5"), factor(0.5));
        assert_eq!(rule.factor_of(None), rule.default);
        assert_eq!(
            [with("-1"), with("NaN"), with("x"), with("inf")],
            [rule.default; 4]
        );
    }

    #[test]
    fn a_role_has_the_factor_of_the_map_and_the_most_generous_one_counts() {
        let rule = FactorRule::new("roles", factor(1.0))
            .role("gold", factor(0.25))
            .role("silver", factor(0.5))
            .role("slow", factor(10.0))
            .role("staff", factor(0.0));
        let with = |claim: &str| {
            let principal = Principal::new("ann").claim("roles", claim);
            rule.factor_of(Some(&principal))
        };
        assert_eq!(with("gold"), factor(0.25));
        assert_eq!(with("slow"), factor(10.0));
        assert_eq!(with("slow,gold,silver"), factor(0.25));
        assert_eq!(with(" silver , unknown "), factor(0.5));
        assert_eq!(with("gold,staff"), factor(0.0), "unlimited");
        // A number is no role, and a role is read as it is written.
        for unknown in ["", "Gold", "0.25", "gold silver", "bronze"] {
            assert_eq!(with(unknown), rule.default, "{unknown}");
        }
    }

    #[test]
    fn a_rule_divides_the_numbers_that_it_applies_to() {
        let rule = FactorRule::new("f", factor(2.0)).applies_to(ScaledPart::Rate);
        let quota = Quota::from(Quota::per_second(10).burst(20));
        let slower = Quota::from(Quota::per_second(5).burst(20));
        assert_eq!(rule.quota_of(None, quota), Some(slower));
    }
}
