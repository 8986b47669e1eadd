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
    /// A log without the lines of other tests: these are logged once to nobody first, because a test
    /// on another thread that logs them first could switch them off for the whole process.
    async fn log() -> (Log, tracing::subscriber::DefaultGuard) {
        let store = SwitchableStore::default();
        let warm_up = limiter([per_ip()], &store, FailurePolicy::Open);
        for is_away in [true, false] {
            store.set_away(is_away);
            spend(&warm_up, &ann(), 1).await;
            warm_up.clock().advance(CALM);
        }
        spend(&warm_up, &ann(), 1).await;
        let log = Log::default();
        let guard = log.start();
        (log, guard)
    }

    const CALM: Nanos = Nanos::from_secs(2);
    const AWAY: &str = "WARN sluicegate: store away limit=\"per-ip\" \
                        error=the store is unavailable: switched off policy=open";

    fn back(failed: u32, lasted_ms: u32) -> String {
        format!(
            "INFO sluicegate: store back limit=\"per-ip\" policy=open failed={failed} lasted_ms={lasted_ms}"
        )
    }

    #[tokio::test]
    async fn each_change_is_one_line_with_limit_error_and_policy() {
        let (log, _guard) = log().await;
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
            limiter.clock().advance(Nanos::from_millis(700));
            limiter.refund(&ann(), 1, Nanos::ZERO).await;
            store.set_away(false);
            spend(&limiter, &ann(), 50).await;
            assert!(!limiter.is_degraded(), "that is told at once");
            limiter.clock().advance(CALM);
            spend(&limiter, &ann(), 50).await;
        }
        let back = back(51, 700);
        assert_eq!(log.lines(), [AWAY, &back, AWAY, &back]);
    }

    #[tokio::test]
    async fn a_store_that_fails_again_and_again_is_one_outage() {
        let (log, _guard) = log().await;
        let store = SwitchableStore::default();
        let limiter = limiter([per_ip()], &store, FailurePolicy::Open);
        for _ in 0..10_000 {
            for is_away in [true, false] {
                store.set_away(is_away);
                spend(&limiter, &ann(), 1).await;
                assert_eq!(limiter.is_degraded(), is_away);
                limiter.clock().advance(Nanos::from_millis(5));
            }
        }
        assert_eq!(log.lines(), [AWAY]);
        limiter.clock().advance(CALM);
        spend(&limiter, &ann(), 10).await;
        assert_eq!(log.lines(), [back(10_000, 99_990)]);
    }
}
