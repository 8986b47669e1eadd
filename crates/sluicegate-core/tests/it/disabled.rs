//! Limits that are off: checked with the others, and then as if absent.

use sluicegate_core::{Limit, Match, Policy, Quota, Subject};

fn limit(name: &str) -> Limit {
    Limit::new(name, Quota::per_second(1))
}

fn policy(limits: impl IntoIterator<Item = Limit>) -> Policy {
    Policy::new(limits).unwrap()
}

#[test]
fn a_limit_that_is_off_is_checked_and_then_as_if_absent() {
    let below = |path: &str| Match::path(path).unwrap();
    let limits = || {
        [
            limit("all"),
            limit("api").replaces("all").matching(below("/api")),
            limit("v2").replaces("api").matching(below("/api/v2")),
            limit("v2-post")
                .replaces("api")
                .matching(below("/api/v2/post")),
        ]
    };
    let charged = |off: &[usize], path: &str| -> Vec<String> {
        let given = limits().into_iter().enumerate();
        let given = given.map(|(index, limit)| match off.contains(&index) {
            true => limit.disabled(),
            false => limit,
        });
        let policy = policy(given);
        let subject = Subject {
            path,
            ..Subject::ANONYMOUS
        };
        let charges = policy.charges_for(&subject, 1).unwrap();
        charges
            .iter()
            .map(|charge| charge.key.limit().name.clone())
            .collect()
    };
    assert_eq!(charged(&[], "/api"), ["api"]);
    // In the middle of a chain: where it alone took the place of another, that one is back.
    assert_eq!(charged(&[1], "/api"), ["all"]);
    assert_eq!(charged(&[1], "/api/v2"), ["v2"]);
    // At the end of a chain: the limits that replace it still compete, and one of them wins.
    assert_eq!(charged(&[0], "/"), [""; 0]);
    assert_eq!(charged(&[0, 1], "/api/v2/post"), ["v2-post"]);
    assert_eq!(charged(&[0, 1, 3], "/api/v2/post"), ["v2"]);
    // At the beginning: the limit that it replaced is back.
    assert_eq!(charged(&[2, 3], "/api/v2/post"), ["api"]);

    let refused = Policy::new([limit("a b").disabled(), limit("c").replaces("d").disabled()]);
    assert_eq!(refused.unwrap_err().0.len(), 2, "mistakes are mistakes");
    let twice = Policy::new([limit("a").disabled(), limit("a")]);
    assert!(twice.is_err(), "its name is taken");
}

#[test]
fn a_limit_that_is_off_cannot_be_named_and_the_reason_is_told() {
    let policy = policy([limit("a").disabled(), limit("b")]);
    assert_eq!(policy.limits(), [limit("b")]);
    assert_eq!(policy.disabled(), [limit("a").disabled()]);
    assert!(policy.limit("a").is_none());
    assert_eq!(
        policy.why_absent("a"),
        r#"the limit "a" is off (enabled: false)"#
    );
    assert_eq!(policy.why_absent("c"), r#"there is no limit named "c""#);
    let refused = policy.charge_named("a", &[], 1).unwrap_err();
    assert_eq!(refused.to_string(), r#"limit "a": is off (enabled: false)"#);
    let charge = policy.charge_named("b", &["all"], 1).unwrap().unwrap();
    assert_eq!(policy.limit_at(charge.limit_index).name, "b");
}
