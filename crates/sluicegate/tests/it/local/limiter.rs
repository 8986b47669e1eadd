//! The limiter around a store: clones, reload, failure, refund and reset.

use sluicegate::{
    FailurePolicy, KeyPart, Limit, Limiter, LocalStore, ManualClock, Nanos, Policy, Quota,
    ResetError, StoreError, Subject, Timestamp, Verdict,
};

use crate::away_store::AwayStore;

const START: Timestamp = Timestamp::from_nanos(1_800_000_000_000_000_000);

fn limiter(limits: impl IntoIterator<Item = Limit>) -> Limiter<LocalStore, ManualClock> {
    Limiter::new(
        Policy::new(limits).expect("well-formed limits"),
        LocalStore::default(),
        ManualClock::new(START),
    )
}

fn caller(address: &str) -> Subject<'static> {
    Subject {
        client_ip: Some(address.parse().expect("an address")),
        ..Subject::ANONYMOUS
    }
}

async fn spend(
    limiter: &Limiter<LocalStore, ManualClock>,
    subject: &Subject<'_>,
    times: usize,
) -> usize {
    let mut passed = 0;
    for _ in 0..times {
        passed += usize::from(limiter.check(subject, 1).await.is_forwarded());
    }
    passed
}

#[tokio::test]
async fn clones_share_the_counters_and_callers_do_not() {
    let limiter = limiter([Limit::per_client("per-ip", Quota::per_minute(5))]);
    let clone = limiter.clone();
    let (ann, bob) = (caller("203.0.113.7"), caller("203.0.113.8"));
    assert_eq!(
        spend(&limiter, &ann, 3).await + spend(&clone, &ann, 3).await,
        5
    );
    assert_eq!(spend(&clone, &bob, 10).await, 5);
}

#[tokio::test]
async fn a_new_policy_keeps_debts_and_never_holds_more_than_its_burst() {
    let limiter = limiter([Limit::per_client("per-ip", Quota::per_minute(60).burst(10))]);
    let ann = caller("203.0.113.7");
    assert_eq!(spend(&limiter, &ann, 20).await, 10);
    limiter.set_policy(
        Policy::new([Limit::per_client("per-ip", Quota::per_minute(600).burst(5))]).unwrap(),
    );
    assert_eq!(spend(&limiter, &ann, 20).await, 0, "the debt is kept");
    limiter.clock().advance(Nanos::HOUR);
    assert_eq!(spend(&limiter, &ann, 20).await, 5);
}

#[tokio::test]
async fn debts_survive_a_change_to_a_quota_of_years_and_back() {
    let year = Nanos::from_secs(365 * 86_400);
    let (fast, slow) = (
        Quota::new(1, Nanos::DAY, 5).unwrap(),
        Quota::new(1, year, 5).unwrap(),
    );
    let policy = |quota: Quota| Policy::new([Limit::per_client("per-ip", quota)]).unwrap();
    let limiter = limiter([Limit::per_client("per-ip", fast)]);
    let ann = caller("203.0.113.7");
    assert_eq!(spend(&limiter, &ann, 3).await, 3);
    // Three units are owed: three years of the other quota, which no slot of the table can hold.
    limiter.set_policy(policy(slow));
    assert_eq!(spend(&limiter, &ann, 9).await, 2);
    limiter.set_policy(policy(fast));
    assert_eq!(spend(&limiter, &ann, 9).await, 0);
    limiter.clock().advance(Nanos::DAY);
    assert_eq!(spend(&limiter, &ann, 9).await, 1);
}

/// Reload, an override that begins and ends, and a new plan of a caller all look like this to a
/// store: the same key under another quota.
#[tokio::test]
async fn a_changed_rate_is_felt_at_the_next_request() {
    let policy = |count, burst| {
        Policy::new([Limit::per_client(
            "per-ip",
            Quota::per_minute(count).burst(burst),
        )])
        .unwrap()
    };
    let limiter = limiter([Limit::per_client("per-ip", Quota::per_minute(60))]);
    let ann = caller("203.0.113.7");
    assert_eq!(spend(&limiter, &ann, 61).await, 60);
    limiter.set_policy(policy(6_000, 6_000));
    assert_eq!(spend(&limiter, &ann, 6_000).await, 5_940, "an upgrade");
    limiter.set_policy(policy(1, 6_000));
    assert_eq!(
        spend(&limiter, &ann, 9).await,
        0,
        "and a rate of one a minute"
    );
    limiter.clock().advance(Nanos::MINUTE);
    assert_eq!(spend(&limiter, &ann, 9).await, 1);
    limiter.set_policy(policy(60, 60));
    assert_eq!(spend(&limiter, &ann, 9).await, 0, "forgiven down to empty");
    limiter.clock().advance(Nanos::SECOND);
    assert_eq!(spend(&limiter, &ann, 9).await, 1);
}

#[tokio::test]
async fn counters_of_several_paces_are_one_counter() {
    let quotas = [
        Quota::from(Quota::per_minute(60).burst(100)),
        Quota::from(Quota::per_second(1_000).burst(100)),
        Quota::leaky_bucket(100, Nanos::MINUTE, 3).unwrap(),
        Quota::fixed_window(100, Nanos::HOUR).unwrap(),
        Quota::sliding_window(100, Nanos::HOUR).unwrap(),
        Quota::new(1, Nanos::from_secs(365 * 86_400), 100).unwrap(),
    ];
    let limiter = limiter([Limit::per_client("per-ip", quotas[0])]);
    let ann = caller("203.0.113.7");
    let mut passed = 0;
    for turn in 0..200 {
        let quota = quotas[turn * 7 % quotas.len()];
        limiter.set_policy(Policy::new([Limit::per_client("per-ip", quota)]).unwrap());
        passed += spend(&limiter, &ann, 1).await;
    }
    assert_eq!(passed, 100);
    assert_eq!(limiter.store().live_keys(START), 1, "in one place");
    limiter.reset(&ann).await.unwrap();
    assert_eq!(limiter.store().live_keys(START), 0);
    assert_eq!(spend(&limiter, &ann, 200).await, 100, "it was reset");
}

#[tokio::test]
async fn peek_refund_and_reset_do_what_they_say() {
    let limiter = limiter([Limit::per_client("per-ip", Quota::per_minute(60).burst(10))]);
    let ann = caller("203.0.113.7");
    let left = async || {
        limiter
            .peek(&ann)
            .await
            .decision()
            .unwrap()
            .tightest()
            .unwrap()
            .1
            .outcome
            .remaining()
    };
    assert_eq!(left().await, 10);
    assert_eq!(spend(&limiter, &ann, 8).await, 8);
    assert_eq!(left().await, 2);
    assert!(limiter.refund(&ann, 3, Nanos::ZERO).await.is_forwarded());
    assert_eq!(left().await, 5);
    limiter.refund(&ann, 100, Nanos::ZERO).await;
    assert_eq!(left().await, 10, "never above full");
    assert_eq!(spend(&limiter, &ann, 20).await, 10);
    limiter.reset(&ann).await.unwrap();
    assert_eq!(left().await, 10);
}

#[tokio::test]
async fn one_counter_is_refunded_and_reset_by_its_name_and_no_other() {
    let quota = Quota::per_minute(60).burst(10);
    let limiter = limiter([
        Limit::per_client("one", quota),
        Limit::per_client("two", quota),
    ]);
    let ann = caller("203.0.113.7");
    assert_eq!(spend(&limiter, &ann, 20).await, 10);
    let left = async |limit: &str, key: &str| {
        let verdict = limiter.check_named(limit, &[key], 0).await;
        verdict
            .decision()
            .unwrap()
            .tightest()
            .unwrap()
            .1
            .outcome
            .remaining()
    };
    limiter
        .refund_named("one", &["203.0.113.7"], 3, Nanos::ZERO)
        .await;
    assert_eq!(
        (
            left("one", "203.0.113.7").await,
            left("two", "203.0.113.7").await
        ),
        (3, 0)
    );
    limiter
        .reset_named("two", &["::ffff:203.0.113.7"])
        .await
        .unwrap();
    assert_eq!(
        (
            left("one", "203.0.113.7").await,
            left("two", "203.0.113.7").await
        ),
        (3, 10)
    );
    for (limit, key) in [
        ("three", &["203.0.113.7"][..]),
        ("one", &["ann"]),
        ("one", &[]),
        ("one", &["::1", "x"]),
    ] {
        assert!(matches!(
            limiter.reset_named(limit, key).await,
            Err(ResetError::Unidentified(_))
        ));
        let verdict = limiter.refund_named(limit, key, 1, Nanos::ZERO).await;
        assert!(
            matches!(verdict, Verdict::Unidentified(_)),
            "{limit} {key:?}"
        );
    }
}

#[tokio::test]
async fn a_denied_check_is_a_value_with_every_number() {
    let limiter = limiter([
        Limit::per_client("per-ip", Quota::per_second(10).burst(2)),
        Limit::new("all", Quota::per_second(1).burst(2)),
    ]);
    let ann = caller("203.0.113.7");
    assert_eq!(spend(&limiter, &ann, 2).await, 2);
    let Verdict::Reject(decision) = limiter.check(&ann, 1).await else {
        panic!("expected a denial")
    };
    let (limit, tightest) = decision.tightest().unwrap();
    assert_eq!(
        (limit.name.as_str(), tightest.quota.limit()),
        ("all", 2),
        "the longest wait is the tightest"
    );
    assert_eq!(decision.retry_after(), Some(Nanos::SECOND));
    assert_eq!(tightest.outcome.reset_after(), Nanos::from_secs(2));
    assert_eq!(decision.denials().count(), 2);
    let Verdict::Reject(decision) = limiter.check(&ann, 3).await else {
        panic!("expected a denial")
    };
    assert_eq!(decision.retry_after(), None, "no wait helps");
}

#[tokio::test]
async fn a_charge_by_name_meets_the_same_counter_as_the_request() {
    let limiter = limiter([Limit::new("tenant", Quota::per_minute(2))
        .key([KeyPart::header("X-Tenant"), KeyPart::ClientIp])]);
    let headers = [("x-tenant", "acme")];
    let subject = Subject {
        headers: &headers,
        ..caller("2001:db8::1")
    };
    assert!(limiter.check(&subject, 1).await.is_forwarded());
    let by_name = limiter
        .check_named("tenant", &["acme", "2001:0DB8::ffff"], 1)
        .await;
    assert!(by_name.is_forwarded());
    assert!(!limiter.check(&subject, 1).await.is_forwarded());
    for (limit, parts) in [
        ("tenant", &["acme"][..]),
        ("tenant", &["acme", "x"]),
        ("tenant", &["a", "::1", "c"]),
        ("other", &[]),
    ] {
        assert!(
            matches!(
                limiter.check_named(limit, parts, 1).await,
                Verdict::Unidentified(_)
            ),
            "{limit} {parts:?}"
        );
    }
}

#[tokio::test]
async fn open_and_closed_are_told_apart_when_the_store_is_away() {
    let limits = || Policy::new([Limit::per_client("per-ip", Quota::per_second(1))]).unwrap();
    let ann = caller("203.0.113.7");
    let closed = Limiter::new(limits(), AwayStore, ManualClock::new(START));
    assert!(matches!(
        closed.check(&ann, 1).await,
        Verdict::Unavailable {
            error: StoreError::TimedOut,
            ..
        }
    ));
    assert!(matches!(
        closed.refund(&ann, 1, Nanos::ZERO).await,
        Verdict::Unavailable { .. }
    ));
    let refused = closed.reset(&ann).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the store is unavailable: down for repair"
    );
    let open = Limiter::with_failure_policy(
        limits(),
        AwayStore,
        ManualClock::new(START),
        FailurePolicy::Open,
    );
    assert!(matches!(
        open.check(&ann, 1).await,
        Verdict::ForwardUnchecked(StoreError::TimedOut)
    ));
}
