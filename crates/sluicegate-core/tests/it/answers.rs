//! Limits that count by the answer: what they charge when a request comes, and keys that outlive it.

use std::hash::{BuildHasher, RandomState};

use sluicegate_core::{
    AnswerSet, Charge, Draw, KeyPart, Limit, OnMissingKey, Policy, Principal, Quota, Subject,
};

fn failed() -> AnswerSet {
    AnswerSet::of(["401", "5xx"]).unwrap()
}

#[test]
fn a_request_is_looked_at_and_a_limit_that_is_named_is_charged() {
    let quota = || Quota::per_second(1);
    let policy = Policy::new([
        Limit::new("always", quota()),
        Limit::new("when", quota()).count_when(failed()),
        Limit::new("refund", quota()).refund_when(failed()),
    ])
    .unwrap();
    assert!(policy.awaits_answers());
    let charges = policy.charges_for(&Subject::ANONYMOUS, 1).unwrap();
    let draws: Vec<Draw> = charges.iter().map(|charge| charge.draw).collect();
    assert_eq!(draws, [Draw::Take, Draw::Look, Draw::Take]);
    let named = policy.charge_named("when", &[""], 1).unwrap().unwrap();
    assert_eq!(named.draw, Draw::Take);
    let off = Limit::new("when", quota()).count_when(failed()).disabled();
    assert!(!Policy::new([off]).unwrap().awaits_answers());
}

#[test]
fn a_detached_charge_is_on_the_same_counter_whatever_names_it() {
    let limit = |name: &str, parts: &[KeyPart]| {
        Limit::new(name, Quota::per_second(3)).key(parts.iter().cloned())
    };
    let header = KeyPart::header("x-tenant");
    let policy = Policy::new([
        limit("address", &[KeyPart::ClientIp]),
        limit("global", &[KeyPart::Global]),
        limit(
            "parts",
            &[KeyPart::Principal, KeyPart::Path, KeyPart::ClientIp],
        ),
        limit("shared", std::slice::from_ref(&header)).on_missing_key(OnMissingKey::Shared),
        limit("instead", &[header]).on_missing_key(OnMissingKey::ClientIp),
    ])
    .unwrap();
    let principal = Principal::new("a:b");
    let mut detached = Vec::new();
    let mut seen = Vec::new();
    let hasher = RandomState::new();
    let seen_of = |charge: &Charge<'_>| {
        let key = &charge.key;
        (
            key.to_string(),
            hasher.hash_one(key),
            charge.quota,
            charge.cost,
        )
    };
    for address in ["203.0.113.7", "2001:db8::7"] {
        let path = format!("/{}", "x".repeat(address.len()));
        let subject = Subject {
            client_ip: Some(address.parse().unwrap()),
            path: &path,
            principal: Some(&principal),
            ..Subject::ANONYMOUS
        };
        for charge in &policy.charges_for(&subject, 2).unwrap() {
            let tenant = Charge {
                key: charge.key.of_tenant("acme"),
                ..*charge
            };
            for charge in [*charge, tenant] {
                seen.push(seen_of(&charge));
                detached.push(charge.detach());
            }
        }
    }
    assert_eq!(seen.len(), 20);
    // The requests are gone by now.
    let again = detached.iter().map(|charge| {
        let limit = policy.limit_at(charge.limit_index());
        seen_of(&charge.on(limit))
    });
    assert_eq!(again.collect::<Vec<_>>(), seen);
}
