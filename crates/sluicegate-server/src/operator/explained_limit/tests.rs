//! What is told about spans and charges.

use sluicegate::{Engine, FailurePolicy, LocalStore, ManualClock};
use sluicegate_core::{Limit, Policy, Subject, Timestamp};
use sluicegate_gate::charging::look;

use super::*;

#[test]
fn spans_are_told_as_people_say_them_and_never_too_short() {
    for (nanos, told) in [
        (1, "1 µs"),
        (999_001, "1 ms"),
        (1_000_001, "2 ms"),
        (1_500_000_000, "1.5 s"),
        (58_000_000_000, "58 s"),
        (58_000_000_001, "58.1 s"),
        (130_000_000_000, "2 min 10 s"),
        (7_320_000_000_000, "2 h 3 min"),
    ] {
        assert_eq!(in_words(Nanos::new(nanos)), told);
    }
}

/// The explanation is what then happens, for every kind of quota, and it changes nothing.
#[tokio::test]
async fn a_look_tells_what_a_charge_would_meet_and_takes_nothing() {
    let quotas = [
        Quota::from(Quota::per_second(10).burst(20)),
        Quota::leaky_bucket(20, Nanos::from_millis(300), 3).unwrap(),
        Quota::fixed_window(20, Nanos::SECOND).unwrap(),
        Quota::sliding_window(20, Nanos::SECOND).unwrap(),
    ];
    for quota in quotas {
        let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_100));
        let policy = Policy::new([Limit::per_client("a", quota)]).unwrap();
        let on_failure = FailurePolicy::default();
        let engine = Engine::new(LocalStore::default(), clock.clone(), on_failure);
        let subject = Subject {
            client_ip: Some("203.0.113.7".parse().unwrap()),
            ..Subject::ANONYMOUS
        };
        for cost in [7, 13, 1, 20, 21] {
            for _ in 0..3 {
                let charges = policy.charges_for(&subject, cost).unwrap();
                let looked = look(&engine, charges[0]).await.unwrap();
                let nothing = policy.charges_for(&subject, 0).unwrap();
                let peeked = *engine.decide(&nothing).await.outcome(0).unwrap();
                assert_eq!(looked.remaining(), peeked.remaining(), "{quota:?}");
                let real = *engine.decide(&charges).await.outcome(0).unwrap();
                assert_eq!(looked.is_allowed(), real.is_allowed(), "{quota:?}: {cost}");
                match real {
                    Outcome::Allowed {
                        remaining,
                        reset_after,
                    } => {
                        let told = level_after(quota, &looked, cost);
                        assert_eq!(told.remaining, remaining);
                        assert!(
                            told.reset_after_us
                                .is_none_or(|told| told == reset_after.as_micros_ceil())
                        );
                    }
                    denied => assert_eq!(looked, denied, "{quota:?}: {cost}"),
                }
                clock.advance(Nanos::from_millis(130));
            }
        }
    }
}
