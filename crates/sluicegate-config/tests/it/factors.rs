//! Factors: from a number or a role of a claim, on the size, the rate or both.

use sluicegate_core::{Factor, FactorRule, Limit, Nanos, Principal, Quota, ScaledPart, Subject};

use crate::limits::one;
use crate::{good, wrong};

fn factor(number: f64) -> Factor {
    Factor::new(number).expect("a factor")
}

/// The quota of a caller with this claim, of a limit with these keys.
#[track_caller]
fn quota_of(keys: &str, claim: (&str, &str)) -> Option<Quota> {
    let config = good(&one(keys));
    let principal = Principal::new("ann").claim(claim.0, claim.1);
    let subject = Subject {
        client_ip: "203.0.113.7".parse().ok(),
        principal: Some(&principal),
        ..Subject::ANONYMOUS
    };
    let charges = config.policy.charges_for(&subject, 1).expect("a whole key");
    charges.first().map(|charge| charge.quota)
}

#[test]
fn a_factor_arrives_with_its_roles_and_what_it_applies_to() {
    let config = good(&one(
        "rate: 10/s, factor: { claim: role, map: { gold: 0.25, silver: 0.5, staff: 0 }, default: 2, applies_to: both }",
    ));
    let expected = FactorRule::new("role", factor(2.0))
        .role("gold", factor(0.25))
        .role("silver", factor(0.5))
        .role("staff", factor(0.0))
        .applies_to(ScaledPart::Both);
    assert_eq!(config.policy.limits()[0].factor, Some(expected));
    let by_default = good(&one("rate: 10/s, factor: { claim: f }"));
    let rule = |limit: &Limit| limit.factor.clone();
    assert_eq!(
        rule(&by_default.policy.limits()[0]),
        Some(FactorRule::new("f", Factor::ONE))
    );
}

#[test]
fn size_rate_or_both_are_divided() {
    let limit = |rest: &str| format!("rate: 10/s, burst: 20, factor: {{ claim: f{rest} }}");
    let quota = |rate, burst| Quota::new(rate, Nanos::SECOND, burst).ok();
    for (rest, claim, expected) in [
        ("", "2", quota(10, 10)),
        (", applies_to: size", "2", quota(10, 10)),
        (", applies_to: rate", "2", quota(5, 20)),
        (", applies_to: both", "2", quota(5, 10)),
        (", applies_to: both", "0.1", quota(100, 200)),
        (", applies_to: rate", "0", None),
        (
            ", map: { gold: 0.5 }, applies_to: rate",
            "gold",
            quota(20, 20),
        ),
        (
            ", map: { gold: 0.5 }, applies_to: rate",
            "0.5",
            quota(10, 20),
        ),
    ] {
        assert_eq!(
            quota_of(&limit(rest), ("f", claim)),
            expected,
            "{rest} {claim}"
        );
    }
}

#[test]
fn factors_are_told_in_words() {
    let words = |factor: &str| {
        let config = good(&one(&format!("rate: 10/s, factor: {factor}")));
        config.in_words()
    };
    for (factor, sentence) in [
        ("{ claim: f }", "a is divided by the claim f of the caller"),
        (
            "{ claim: f, applies_to: rate }",
            "the rate of a is divided by the claim f of the caller",
        ),
        (
            "{ claim: role, map: { gold: 0.25, silver: 0.5 }, applies_to: both }",
            "size and rate of a are divided by the claim role of the caller: 0.25 for gold, 0.5 for silver, else 1",
        ),
    ] {
        let words = words(factor);
        assert!(words.iter().any(|words| words == sentence), "{words:#?}");
    }
}

#[test]
fn wrong_factors_are_refused_at_their_place() {
    for (factor, message) in [
        (
            "{ claim: f, applies_to: burst }",
            "limits[0].factor.applies_to: unknown value \"burst\" (expected size, rate or both)",
        ),
        (
            "{ claim: f, map: { gold: -1 } }",
            "limits[0].factor.map.gold: must be a finite number of at least 0, where 0 is unlimited (got -1)",
        ),
        (
            "{ claim: f, map: { gold: much } }",
            "limits[0].factor.map.gold: expected a number (got \"much\")",
        ),
        (
            "{ claim: f, map: {} }",
            "limits[0].factor.map: must name at least one value of the claim, as in { gold: 0.5 }",
        ),
        (
            "{ claim: f, map: [gold] }",
            "limits[0].factor.map: expected a section (got a list)",
        ),
        (
            "{ claim: f, map: { \"a,b\": 1 } }",
            "limits[0].factor.map.\"a,b\": a role must not be empty, nor have commas or blanks around it",
        ),
        (
            "{ map: { gold: 1 } }",
            "limits[0].factor.claim: is missing: the claim that holds the factor",
        ),
    ] {
        let keys = format!("rate: 10/s, factor: {factor}");
        assert_eq!(wrong(&one(&keys)), message, "{factor}");
    }
}
