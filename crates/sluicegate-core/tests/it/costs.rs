//! The units that a request takes at a limit.

use sluicegate_core::{
    FactorRule, HeaderCost, Headers, KeyPart, Limit, MissingKey, MissingReason, NoHeaders,
    OnMissingKey, Policy, Quota, QuotaSource, Subject,
};

fn quota() -> Quota {
    Quota::per_second(1).burst(10).into()
}

fn units(limit: &Limit, headers: &dyn Headers, cost: u64) -> Result<u64, MissingKey> {
    let policy = Policy::new([limit.clone()]).unwrap();
    let subject = Subject {
        headers,
        ..Subject::ANONYMOUS
    };
    let charges = policy.charges_for(&subject, cost)?;
    Ok(charges[0].cost)
}

#[test]
fn a_request_costs_its_cost_times_the_number_of_the_limit() {
    let plain = Limit::new("plain", quota());
    let upload = Limit::new("upload", quota()).cost(5);
    for cost in [0, 1, 2, 7] {
        assert_eq!(units(&plain, &NoHeaders, cost), Ok(cost));
        assert_eq!(units(&upload, &NoHeaders, cost), Ok(cost * 5));
    }
    assert_eq!(units(&upload, &NoHeaders, u64::MAX), Ok(u64::MAX));
}

#[test]
fn a_header_says_the_cost_and_never_less_than_the_default() {
    let limit = Limit::new("batch", quota()).cost(HeaderCost::new("X-Cost").default(2).max(100));
    let with = |value: &str| units(&limit, &[("x-cost", value)], 1);
    assert_eq!(units(&limit, &NoHeaders, 3), Ok(6));
    for (value, expected) in [
        ("2", 2),
        ("7", 7),
        (" 7 ", 7),
        ("007", 7),
        ("100", 100),
        ("1", 2),
        ("0", 2),
    ] {
        assert_eq!(with(value), Ok(expected), "{value:?}");
    }
    assert_eq!(units(&limit, &[("x-cost", "7")], 3), Ok(21));
    let above = MissingReason::AboveCost { max: 100 };
    for (value, reason) in [
        ("", MissingReason::Empty),
        ("  ", MissingReason::Empty),
        ("101", above),
        ("99999999999999999999999", above),
        ("-1", MissingReason::NotANumber),
        ("+1", MissingReason::NotANumber),
        ("1.5", MissingReason::NotANumber),
        ("0x7", MissingReason::NotANumber),
        ("seven", MissingReason::NotANumber),
        ("1 2", MissingReason::NotANumber),
        ("1, 2", MissingReason::Repeated),
        ("\u{665}", MissingReason::NotText),
    ] {
        let refused = with(value).unwrap_err();
        assert_eq!(refused.reason, reason, "{value:?}");
        assert_eq!(refused.part, Some(KeyPart::header("x-cost")));
        let text = refused.to_string();
        assert!(
            text.starts_with("limit \"batch\": header:x-cost "),
            "{text}"
        );
    }
    let twice = units(&limit, &[("x-cost", "1"), ("X-Cost", "1")], 1);
    assert_eq!(twice.unwrap_err().reason, MissingReason::Repeated);
    let unbounded = Limit::new("batch", quota()).cost(HeaderCost::new("x-cost"));
    let most = u64::MAX.to_string();
    assert_eq!(
        units(&unbounded, &[("x-cost", most.as_str())], 2),
        Ok(u64::MAX)
    );
}

/// The rule for a missing key is about keys: a cost that cannot be read never passes uncounted.
#[test]
fn a_cost_that_cannot_be_read_is_refused_whatever_the_rule_for_keys_is() {
    for rule in [
        OnMissingKey::Skip,
        OnMissingKey::Shared,
        OnMissingKey::ClientIp,
        OnMissingKey::Reject,
    ] {
        let limit = Limit::new("a", quota())
            .cost(HeaderCost::new("x-cost"))
            .on_missing_key(rule);
        let refused = units(&limit, &[("x-cost", "much")], 1).unwrap_err();
        assert_eq!(refused.reason, MissingReason::NotANumber);
    }
}

#[test]
fn a_named_charge_takes_the_fixed_number_and_says_its_own_where_a_header_would() {
    let policy = Policy::new([
        Limit::new("fixed", quota()).cost(5),
        Limit::new("header", quota()).cost(HeaderCost::new("x-cost").default(3)),
    ])
    .unwrap();
    let cost = |name| policy.charge_named(name, &[""], 2).unwrap().unwrap().cost;
    assert_eq!((cost("fixed"), cost("header")), (10, 2));
    let fixed = policy.limit("fixed").unwrap().1;
    assert_eq!(fixed.units_by_name(2), 10);
}

#[test]
fn a_cost_with_which_nothing_or_everything_passes_is_refused() {
    let refused = |limit: Limit| match Policy::new([limit]) {
        Ok(_) => None,
        Err(errors) => Some(errors.to_string()),
    };
    let limit = || Limit::new("a", quota());
    let nothing =
        "limits[0].cost: must be at least 1 (got 0): a request that costs nothing is not limited";
    let never = "limits[0].cost: must be at most 10, all that the limit ever holds (got 11): no request would ever pass";
    assert_eq!(refused(limit().cost(0)).as_deref(), Some(nothing));
    assert_eq!(refused(limit().cost(11)).as_deref(), Some(never));
    assert_eq!(refused(limit().cost(10)), None);
    let header = || HeaderCost::new("x-cost");
    assert_eq!(
        refused(limit().cost(header().default(0))).as_deref(),
        Some(nothing)
    );
    assert_eq!(
        refused(limit().cost(header().default(11))).as_deref(),
        Some(never)
    );
    assert_eq!(
        refused(limit().cost(header().default(5).max(4))).as_deref(),
        Some("limits[0].cost: max must be at least 5, the cost of a request without the header")
    );
    assert_eq!(refused(limit().cost(header().max(1_000))), None);
    // Others may hold more than the limit itself says.
    let factor = FactorRule::new("plan", sluicegate_core::Factor::ONE);
    assert_eq!(refused(limit().cost(11).factor(factor)), None);
    let external = Limit {
        quota_from: QuotaSource::External,
        ..limit()
    };
    assert_eq!(refused(external.cost(11)), None);
}
