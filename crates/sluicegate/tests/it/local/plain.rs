//! Requests that go the short way through a limiter are decided as all others are.

use std::net::IpAddr;

use sluicegate::{
    Engine, FailurePolicy, Limit, Limiter, LocalStore, ManualClock, Match, Nanos, Policy, Quota,
    Subject, Timestamp,
};

use crate::ready::ready_value;

fn policies() -> Vec<Policy> {
    let per_ip = || Limit::per_client("per-ip", Quota::per_second(2).burst(9));
    let all = || Limit::new("all", Quota::per_second(5).burst(23));
    let api = || {
        Limit::per_client("api", Quota::per_second(1).burst(7))
            .matching(Match::path("/api").expect("a plain path"))
    };
    let window = Quota::fixed_window(11, Nanos::SECOND).expect("a window of a second");
    [
        vec![per_ip()],
        vec![all()],
        vec![per_ip(), all()],
        vec![all(), api().cost(3)],
        vec![per_ip().shadow(), api()],
        vec![per_ip(), api().shadow()],
        vec![per_ip(), Limit::per_client("window", window)],
        vec![per_ip(), api(), all()],
    ]
    .map(|limits| Policy::new(limits).expect("plain names"))
    .into()
}

/// The same requests are asked of a limiter, and of an engine in the form of charges.
#[test]
fn the_short_way_and_the_long_way_give_the_same_verdicts() {
    let addresses = [
        "203.0.113.7",
        "203.0.113.8",
        "2001:db8::1",
        "::ffff:203.0.113.7",
    ];
    let addresses: [IpAddr; 4] = addresses.map(|text| text.parse().unwrap());
    let paths = [
        "/",
        "/api",
        "/API/users",
        "/api//users/7",
        "/apis",
        "/other/api",
    ];
    for policy in policies() {
        let policy = std::sync::Arc::new(policy);
        let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
        let engine = Engine::new(
            LocalStore::default(),
            clock.clone(),
            FailurePolicy::default(),
        );
        let limits = policy.limits().to_vec();
        let limiter = Limiter::new(
            Policy::new(limits).unwrap(),
            LocalStore::default(),
            clock.clone(),
        );
        let mut denied = 0;
        for number in 0..2_000_u64 {
            let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let subject = Subject {
                client_ip: Some(addresses[scattered as usize % 4]),
                path: paths[(scattered >> 8) as usize % 6],
                ..Subject::ANONYMOUS
            };
            let cost = (scattered >> 16) % 4;
            let charges = policy.charges_for(&subject, cost).unwrap();
            let settlement = ready_value(engine.decide(&charges));
            let expected = settlement.into_verdict(&policy, &charges);
            let verdict = ready_value(limiter.check(&subject, cost));
            let entries = |verdict: &sluicegate::Verdict| {
                verdict
                    .decision()
                    .map(|decision| decision.entries().to_vec())
            };
            assert_eq!(entries(&verdict), entries(&expected), "request {number}");
            assert_eq!(verdict.is_forwarded(), expected.is_forwarded());
            denied += u64::from(!verdict.is_forwarded());
            clock.advance(Nanos::from_millis((scattered >> 20) % 97));
        }
        let names: Vec<&str> = policy.limits().iter().map(|limit| &*limit.name).collect();
        assert!((100..1_990).contains(&denied), "{names:?}: {denied} denied");
    }
}
