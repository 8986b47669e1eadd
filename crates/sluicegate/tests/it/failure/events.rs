//! A store that goes away and comes back: noticed at once, logged once.

use sluicegate::{FailurePolicy, FailureStatus, Limit, Quota, Verdict};

use super::{SwitchableStore, ann, caller, limiter, spend};

fn per_ip() -> Limit {
    Limit::per_client("per-ip", Quota::per_minute(10))
}

fn every_policy() -> [FailurePolicy; 4] {
    let teapot = FailurePolicy::Closed(FailureStatus::new(418).unwrap());
    [
        FailurePolicy::Open,
        FailurePolicy::default(),
        teapot,
        FailurePolicy::Local,
    ]
}
#[tokio::test]
async fn under_every_policy_the_first_request_after_the_store_is_back_is_decided_by_it() {
    for policy in every_policy() {
        let store = SwitchableStore::default();
        let limiter = limiter([per_ip()], &store, policy);
        for round in 1..4 {
            assert!(!limiter.is_degraded());
            store.set_away(true);
            limiter.check(&caller("203.0.113.8"), 1).await;
            assert!(limiter.is_degraded());
            store.set_away(false);
            let decisions = store.decisions();
            let Verdict::Forward(decision) = limiter.check(&ann(), 1).await else {
                panic!("{policy:?}")
            };
            assert_eq!(store.decisions(), decisions + 1);
            assert!(
                !decision.is_degraded() && !limiter.is_degraded(),
                "{policy:?}"
            );
            assert_eq!(
                decision.tightest().unwrap().1.outcome.remaining(),
                10 - round,
                "{policy:?}"
            );
        }
    }
}
#[tokio::test]
async fn under_every_policy_the_shared_counter_is_in_force_again() {
    for policy in every_policy() {
        let store = SwitchableStore::default();
        let (one, other) = (
            limiter([per_ip()], &store, policy),
            limiter([per_ip()], &store, policy),
        );
        assert_eq!(spend(&one, &ann(), 4).await, 4);
        store.set_away(true);
        spend(&one, &caller("203.0.113.8"), 5).await;
        store.set_away(false);
        assert_eq!(spend(&other, &ann(), 20).await, 6, "{policy:?}");
        assert_eq!(spend(&one, &ann(), 20).await, 0, "{policy:?}");
    }
}

#[cfg(feature = "tower")]
mod log {
    use sluicegate::{FailurePolicy, Nanos};

    use super::super::{SwitchableStore, ann, limiter, spend};
    use super::per_ip;
    use crate::log::Log;
    #[tokio::test]
    async fn each_change_is_one_line_with_limit_error_and_policy() {
        // Both lines are logged once to nobody: a test on another thread that logs them first could
        // switch them off for the whole process.
        let store = SwitchableStore::default();
        let warm_up = limiter([per_ip()], &store, FailurePolicy::Open);
        for is_away in [true, false] {
            store.set_away(is_away);
            spend(&warm_up, &ann(), 1).await;
        }
        let log = Log::default();
        let _guard = log.start();
        let store = SwitchableStore::default();
        let limiter = limiter(
            [per_ip().on_failure(FailurePolicy::Open)],
            &store,
            FailurePolicy::default(),
        );
        for _ in 0..2 {
            spend(&limiter, &ann(), 3).await;
            store.set_away(true);
            spend(&limiter, &ann(), 50).await;
            limiter.refund(&ann(), 1, Nanos::ZERO).await;
            store.set_away(false);
            spend(&limiter, &ann(), 50).await;
        }
        let away = "WARN sluicegate: store away limit=\"per-ip\" error=the store is unavailable: switched off policy=open";
        let back = "INFO sluicegate: store back limit=\"per-ip\" policy=open";
        assert_eq!(log.lines(), [away, back, away, back]);
    }
}
