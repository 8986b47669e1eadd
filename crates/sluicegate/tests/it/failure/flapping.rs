//! A store that comes and goes admits nothing that one that stays would not.
//!
//! The proof of the invariant in `fallback.rs`: burst + rate × time, over every interval.

use std::sync::atomic::{AtomicUsize, Ordering};

use sluicegate::{Clock, FailurePolicy, Limit, Nanos, Quota, Timestamp};

use super::{START, SwitchableStore, ann, limiter};
use crate::ready::ready_value;

/// The instants at which a caller was admitted who asks every `step`, while the store goes away or
/// comes back after every `every` requests.
async fn admissions(quota: Quota, step: Nanos, every: usize, starts_away: bool) -> Vec<Timestamp> {
    let store = SwitchableStore::remembering();
    let limiter = limiter(
        [Limit::per_client("per-ip", quota)],
        &store,
        FailurePolicy::Local,
    );
    let mut admitted = Vec::new();
    for number in 0..2_000 {
        store.set_away((number / every % 2 == 1) != starts_away);
        if limiter.check(&ann(), 1).await.is_forwarded() {
            admitted.push(limiter.clock().now());
        }
        // Now and then the caller rests, so that counters fill up and are entered anew.
        let rest = if number % 500 == 499 {
            quota.window().get()
        } else {
            0
        };
        limiter.clock().advance(Nanos::new(step.get() + rest));
    }
    admitted
}
#[tokio::test]
async fn one_replica_admits_burst_and_rate_over_every_interval_however_the_store_flaps() {
    let (burst, interval) = (5, Nanos::from_millis(100));
    let quota = Quota::per_second(10).burst(burst);
    for every in [1, 2, 3, 7, 20, 100, 333] {
        for step in [
            Nanos::new(0),
            Nanos::from_millis(9),
            Nanos::from_millis(40),
            Nanos::from_millis(95),
        ] {
            for starts_away in [false, true] {
                let admitted = admissions(quota.into(), step, every, starts_away).await;
                for (first, from) in admitted.iter().enumerate() {
                    for (last, to) in admitted.iter().enumerate().skip(first) {
                        let count = (last - first + 1) as u64;
                        let bound = u64::from(burst) + to.since(*from).get() / interval.get();
                        assert!(
                            count <= bound,
                            "{count} admitted where {bound} are due: flaps every {every}, {step}"
                        );
                    }
                }
                let whole = admitted.last().unwrap().since(START).get();
                let due = (whole / interval.get()).min(2_000) as usize * 8 / 10;
                assert!(
                    step.get() < 90_000_000 || admitted.len() >= due,
                    "{} of {due}",
                    admitted.len()
                );
            }
        }
    }
}
#[tokio::test]
async fn windows_and_drips_hold_while_the_store_flaps() {
    let window = Nanos::SECOND;
    let aligned = [
        Quota::fixed_window(5, window).unwrap(),
        Quota::sliding_window(5, window).unwrap(),
    ];
    for every in [1, 3, 20, 100] {
        for quota in aligned {
            let admitted = admissions(quota, Nanos::from_millis(30), every, false).await;
            for from in &admitted {
                let of = |at: &Timestamp| at.as_nanos() / window.get();
                let count = admitted.iter().filter(|at| of(at) == of(from)).count();
                assert!(
                    count <= 5,
                    "{count} admitted in one window: {quota:?}, flaps every {every}"
                );
            }
        }
        let leaky = Quota::leaky_bucket(5, Nanos::from_millis(200), 1).unwrap();
        let admitted = admissions(leaky, Nanos::from_millis(30), every, false).await;
        for (first, from) in admitted.iter().enumerate() {
            for (last, to) in admitted.iter().enumerate().skip(first) {
                let drips = to.since(*from).get() / Nanos::from_millis(200).get() + 1;
                assert!(
                    (last - first + 1) as u64 <= 5 + drips,
                    "flaps every {every}"
                );
            }
        }
    }
}
#[test]
fn threads_share_one_bucket_however_the_store_flaps() {
    for round in 0..20 {
        let store = SwitchableStore::remembering();
        let limiter = limiter(
            [Limit::per_client("per-ip", Quota::per_day(100).burst(100))],
            &store,
            FailurePolicy::Local,
        );
        store.set_away(true);
        assert!(ready_value(limiter.check(&ann(), 1)).is_forwarded());
        let admitted = AtomicUsize::new(1);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (limiter, store, admitted) = (&limiter, &store, &admitted);
                scope.spawn(move || {
                    for number in 0..200 {
                        store.set_away((number / 7 + thread + round) % 2 == 0);
                        let passed = ready_value(limiter.check(&ann(), 1)).is_forwarded();
                        admitted.fetch_add(usize::from(passed), Ordering::SeqCst);
                    }
                });
            }
        });
        store.set_away(false);
        while ready_value(limiter.check(&ann(), 1)).is_forwarded() {
            admitted.fetch_add(1, Ordering::SeqCst);
        }
        assert_eq!(admitted.into_inner(), 100, "in round {round}");
    }
}
