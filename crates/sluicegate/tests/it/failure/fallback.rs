//! The counters of a replica on its own: bounded, and never fuller than what it has seen of the
//! store.

use std::net::{IpAddr, Ipv4Addr};

use sluicegate::{Clock, FailurePolicy, KeyPart, Limit, Nanos, Quota, Subject, Verdict};

use super::{SwitchableStore, ann, caller, left, limiter, spend};

fn quotas() -> [Quota; 4] {
    [
        Quota::per_minute(60).burst(10).into(),
        Quota::leaky_bucket(10, Nanos::SECOND, 1).unwrap(),
        Quota::fixed_window(10, Nanos::MINUTE).unwrap(),
        Quota::sliding_window(10, Nanos::MINUTE).unwrap(),
    ]
}
#[tokio::test]
async fn a_flood_of_keys_neither_grows_the_fallback_nor_refills_a_drained_key() {
    let store = SwitchableStore::default();
    store.set_away(true);
    let limiter = limiter(
        [Limit::per_client("per-ip", Quota::per_hour(100).burst(20))],
        &store,
        FailurePolicy::Local,
    );
    assert_eq!(spend(&limiter, &ann(), 30).await, 20);
    let flood = async |from: u32, to: u32| {
        for number in from..to {
            let client_ip = Some(IpAddr::V4(Ipv4Addr::from_bits(number)));
            limiter
                .check(
                    &Subject {
                        client_ip,
                        ..Subject::ANONYMOUS
                    },
                    1,
                )
                .await;
        }
    };
    flood(0, 100_000).await;
    let counters = limiter.fallback().unwrap();
    let memory = counters.memory_bytes();
    assert!(memory < 65_536 * 24, "{memory} bytes");
    flood(100_000, 200_000).await;
    assert!(
        counters.memory_bytes() <= memory + memory / 10,
        "{} bytes after {memory}",
        counters.memory_bytes()
    );
    let live = counters.live_keys(limiter.clock().now());
    assert!((45_000..=65_536).contains(&live), "{live} keys");
    assert_eq!(
        spend(&limiter, &ann(), 30).await,
        0,
        "the drained key got a fresh bucket"
    );
}
/// Keys of every kind at once, from several threads: in slots, in the overflow, beside the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_fallback_never_holds_more_than_65_536_keys() {
    let store = SwitchableStore::default();
    store.set_away(true);
    let window = Quota::sliding_window(100, Nanos::HOUR).unwrap();
    let limits = [
        Limit::per_client("bucket", Quota::per_hour(100).burst(20)),
        Limit::per_client("window", window),
    ];
    let limiter = std::sync::Arc::new(limiter(limits, &store, FailurePolicy::Local));
    let flood = |thread: u32| {
        let limiter = std::sync::Arc::clone(&limiter);
        tokio::spawn(async move {
            for number in 0..50_000 {
                let client_ip = Some(IpAddr::V4(Ipv4Addr::from_bits(thread << 24 | number)));
                let subject = Subject {
                    client_ip,
                    ..Subject::ANONYMOUS
                };
                limiter.check(&subject, 1).await;
            }
        })
    };
    let floods: Vec<_> = (1..5).map(flood).collect();
    for flood in floods {
        flood.await.unwrap();
    }
    let live = limiter.fallback().unwrap().live_keys(limiter.clock().now());
    assert!((60_000..=65_536).contains(&live), "{live} keys");
}

#[tokio::test]
async fn an_outage_hands_nobody_a_fresh_bucket() {
    for quota in quotas() {
        let store = SwitchableStore::remembering();
        let limiter = limiter(
            [Limit::per_client("per-ip", quota)],
            &store,
            FailurePolicy::Local,
        );
        assert_eq!(spend(&limiter, &ann(), 7).await, 7);
        store.set_away(true);
        assert_eq!(left(&limiter, &ann()).await, 3, "{quota:?}");
        assert_eq!(spend(&limiter, &ann(), 20).await, 3, "{quota:?}");
        assert_eq!(
            left(&limiter, &caller("203.0.113.8")).await,
            10,
            "others owe nothing"
        );
    }
}
#[tokio::test]
async fn what_is_remembered_counts_once_however_often_it_is_read() {
    for quota in quotas() {
        let store = SwitchableStore::remembering();
        let limiter = limiter(
            [Limit::per_client("per-ip", quota)],
            &store,
            FailurePolicy::Local,
        );
        assert_eq!(spend(&limiter, &ann(), 4).await, 4);
        store.set_away(true);
        for expected in (0..6).rev() {
            assert!(limiter.check(&ann(), 1).await.is_forwarded());
            assert_eq!(left(&limiter, &ann()).await, expected, "{quota:?}");
        }
        limiter.clock().advance(Nanos::HOUR);
        assert_eq!(
            left(&limiter, &ann()).await,
            10,
            "an old memory is no debt: {quota:?}"
        );
    }
}

#[tokio::test]
async fn once_the_store_is_back_both_counters_are_charged_and_the_tighter_is_told() {
    for quota in quotas() {
        let store = SwitchableStore::default();
        let limiter = limiter(
            [Limit::per_client("per-ip", quota)],
            &store,
            FailurePolicy::Local,
        );
        store.set_away(true);
        assert_eq!(spend(&limiter, &ann(), 6).await, 6);
        store.set_away(false);
        let verdict = limiter.check(&ann(), 1).await;
        let decision = verdict.decision().unwrap();
        assert!(!decision.is_degraded(), "the store decided");
        assert_eq!(
            decision.tightest().unwrap().1.outcome.remaining(),
            3,
            "the store alone would say 9: {quota:?}"
        );
        assert_eq!(spend(&limiter, &ann(), 20).await, 3);
        let decisions = store.decisions();
        let Verdict::Reject(decision) = limiter.check(&ann(), 1).await else {
            panic!("it is spent here")
        };
        assert!(
            !decision.is_degraded() && store.decisions() == decisions,
            "the store is back, and need not be asked"
        );
    }
}

#[tokio::test]
async fn a_denial_by_a_debt_is_degraded_while_the_store_is_away_and_not_once_it_is_back() {
    for quota in quotas() {
        let store = SwitchableStore::default();
        let all = Limit::new("all", Quota::per_day(100)).on_failure(FailurePolicy::Open);
        let limiter = limiter(
            [Limit::per_client("per-ip", quota), all],
            &store,
            FailurePolicy::Local,
        );
        store.set_away(true);
        assert_eq!(spend(&limiter, &ann(), 20).await, 10);
        let denied = async || match limiter.check(&ann(), 1).await {
            Verdict::Reject(decision) => decision,
            other => panic!("it is spent here: {other:?}"),
        };
        assert!(denied().await.is_degraded());
        let failures = limiter.failures();
        store.set_away(false);
        let (decisions, decision) = (store.decisions(), denied().await);
        assert!(!decision.is_degraded(), "the first one finds out");
        assert_eq!(store.decisions(), decisions + 1);
        assert!(!limiter.is_degraded());
        let names: Vec<_> = decision
            .outcomes()
            .map(|(limit, entry)| (limit.name.as_str(), entry.outcome.remaining()))
            .collect();
        assert_eq!(names, [("per-ip", 0), ("all", 100)], "a look takes nothing");
        for _ in 0..20 {
            assert!(!denied().await.is_degraded());
        }
        assert_eq!(store.decisions(), decisions + 1, "nobody else has to ask");
        assert_eq!(limiter.failures(), failures, "the store failed nobody");
        store.set_away(true);
        limiter.check(&caller("203.0.113.8"), 1).await;
        assert!(denied().await.is_degraded());
    }
}

#[tokio::test]
async fn what_the_store_denies_is_given_back_to_the_fallback() {
    for quota in quotas() {
        let store = SwitchableStore::default();
        let all = Limit::new("all", Quota::per_day(4)).on_failure(FailurePolicy::Open);
        let limiter = limiter(
            [Limit::per_client("per-ip", quota), all],
            &store,
            FailurePolicy::Local,
        );
        store.set_away(true);
        assert_eq!(spend(&limiter, &ann(), 2).await, 2);
        store.set_away(false);
        assert_eq!(
            spend(&limiter, &caller("203.0.113.8"), 9).await,
            4,
            "the limit on all is spent"
        );
        assert_eq!(spend(&limiter, &ann(), 20).await, 0);
        store.set_away(true);
        assert_eq!(
            left(&limiter, &ann()).await,
            8,
            "twenty denied requests cost nothing: {quota:?}"
        );
    }
}

#[tokio::test]
async fn what_is_held_when_the_store_fails_is_charged_once_or_given_back() {
    let closed = Limit::new("by-host", Quota::per_day(100))
        .key([KeyPart::Host])
        .on_failure(FailurePolicy::default());
    let store = SwitchableStore::default();
    let per_ip = Limit::per_client("per-ip", Quota::per_minute(10));
    let limiter = limiter(
        [
            per_ip,
            closed.on_missing_key(sluicegate::OnMissingKey::Skip),
        ],
        &store,
        FailurePolicy::Local,
    );
    store.set_away(true);
    assert_eq!(spend(&limiter, &ann(), 2).await, 2);
    assert_eq!(left(&limiter, &ann()).await, 8, "each was charged once");
    let with_host = Subject {
        host: Some("a"),
        ..ann()
    };
    assert!(matches!(
        limiter.check(&with_host, 1).await,
        Verdict::Unavailable { .. }
    ));
    assert_eq!(
        left(&limiter, &ann()).await,
        8,
        "a refused request costs nothing"
    );
}

#[tokio::test]
async fn only_keys_that_owe_are_touched_once_the_store_is_back() {
    let store = SwitchableStore::default();
    let limiter = limiter(
        [Limit::per_client("per-ip", Quota::per_minute(10))],
        &store,
        FailurePolicy::Local,
    );
    store.set_away(true);
    assert_eq!(spend(&limiter, &ann(), 1).await, 1);
    store.set_away(false);
    for number in 0..100 {
        limiter
            .check(&caller(&format!("198.51.100.{number}")), 1)
            .await;
    }
    assert_eq!(
        limiter.fallback().unwrap().live_keys(limiter.clock().now()),
        1
    );
}

#[tokio::test]
async fn a_reset_forgets_both_counters() {
    let store = SwitchableStore::default();
    let limiter = limiter(
        [Limit::per_client("per-ip", Quota::per_minute(10))],
        &store,
        FailurePolicy::Local,
    );
    store.set_away(true);
    assert_eq!(spend(&limiter, &ann(), 20).await, 10);
    store.set_away(false);
    limiter.reset(&ann()).await.unwrap();
    assert_eq!(spend(&limiter, &ann(), 20).await, 10);
}
