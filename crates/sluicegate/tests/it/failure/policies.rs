//! Open, closed and local, alone and mixed.

use sluicegate::{
    FailureCounts, FailurePolicy, FailureStatus, KeyPart, Limit, Nanos, Quota, StoreError, Subject,
    Verdict,
};

use super::{SwitchableStore, TestLimiter, ann, limiter, spend};

fn closed(status: u16) -> FailurePolicy {
    FailurePolicy::Closed(FailureStatus::new(status).unwrap())
}

fn per_ip() -> Limit {
    Limit::per_client("per-ip", Quota::per_minute(3))
}

fn away(limits: impl IntoIterator<Item = Limit>, on_failure: FailurePolicy) -> TestLimiter {
    let store = SwitchableStore::default();
    store.set_away(true);
    limiter(limits, &store, on_failure)
}

/// The status that a front door would answer with; 200 for a request that passes.
async fn status(limiter: &TestLimiter, subject: &Subject<'_>) -> u16 {
    match limiter.check(subject, 1).await {
        Verdict::Forward(_) | Verdict::ForwardUnchecked(_) => 200,
        Verdict::Reject(_) => 429,
        Verdict::Unavailable { status, .. } => status.get(),
        Verdict::Unidentified(_) => 400,
    }
}
#[tokio::test]
async fn open_lets_everything_pass_unchecked() {
    let limiter = away([per_ip()], FailurePolicy::Open);
    assert!(matches!(
        limiter.check(&ann(), 1).await,
        Verdict::ForwardUnchecked(StoreError::Unavailable(_))
    ));
    assert_eq!(spend(&limiter, &ann(), 20).await, 20);
    assert_eq!(
        limiter.failures(),
        FailureCounts {
            unchecked: 21,
            refused: 0,
            local: 0
        }
    );
    assert!(
        limiter.fallback().is_none(),
        "nothing is counted, so nothing is set aside"
    );
}
#[tokio::test]
async fn closed_refuses_everything_with_503_or_the_configured_status() {
    let by_default = away([per_ip()], FailurePolicy::default());
    assert_eq!(status(&by_default, &ann()).await, 503);
    for chosen in [400, 429, 500, 599] {
        assert_eq!(
            status(&away([per_ip()], closed(chosen)), &ann()).await,
            chosen
        );
    }
    assert_eq!(
        by_default.failures(),
        FailureCounts {
            unchecked: 0,
            refused: 1,
            local: 0
        }
    );
}
#[tokio::test]
async fn local_enforces_the_same_quota_and_says_so() {
    let limiter = away([per_ip()], FailurePolicy::Local);
    let Verdict::Forward(decision) = limiter.check(&ann(), 2).await else {
        panic!("three are there")
    };
    assert!(decision.is_degraded());
    let (_, charged) = decision.tightest().unwrap();
    assert_eq!((charged.quota.limit(), charged.outcome.remaining()), (3, 1));
    assert_eq!(spend(&limiter, &ann(), 20).await, 1);
    let Verdict::Reject(decision) = limiter.check(&ann(), 1).await else {
        panic!("it is spent")
    };
    assert!(decision.is_degraded());
    assert_eq!(decision.retry_after(), Some(Nanos::from_secs(20)));
    limiter.clock().advance(Nanos::from_secs(20));
    assert_eq!(spend(&limiter, &ann(), 20).await, 1);
    assert_eq!(limiter.failures().local, 42);
}
#[tokio::test]
async fn the_policy_of_a_limit_wins_over_that_of_the_limiter() {
    let other = || Limit::new("all", Quota::per_minute(100));
    let cases = [
        (FailurePolicy::Open, closed(500), 500),
        (FailurePolicy::Local, closed(502), 502),
        (closed(503), closed(500), 503),
        (closed(503), FailurePolicy::Open, 503),
    ];
    for (by_default, own, expected) in cases {
        let limiter = away([other(), per_ip().on_failure(own)], by_default);
        assert_eq!(
            status(&limiter, &ann()).await,
            expected,
            "{by_default:?} with {own:?}"
        );
    }
    for own in [FailurePolicy::Open, FailurePolicy::Local] {
        assert_eq!(
            status(&away([per_ip().on_failure(own)], closed(503)), &ann()).await,
            200,
            "{own:?}"
        );
    }
    let first = away(
        [
            other().on_failure(closed(501)),
            per_ip().on_failure(closed(502)),
        ],
        FailurePolicy::Open,
    );
    assert_eq!(
        status(&first, &ann()).await,
        501,
        "of several closed limits the first is told"
    );
}
#[tokio::test]
async fn beside_local_limits_open_ones_go_unchecked() {
    let open = Limit::new("all", Quota::per_minute(1)).on_failure(FailurePolicy::Open);
    let limiter = away([open, per_ip()], FailurePolicy::Local);
    let verdict = limiter.check(&ann(), 1).await;
    let decision = verdict.decision().unwrap();
    let names: Vec<&str> = decision
        .outcomes()
        .map(|(limit, _)| limit.name.as_str())
        .collect();
    assert_eq!((names, decision.is_degraded()), (vec!["per-ip"], true));
    assert_eq!(spend(&limiter, &ann(), 20).await, 2);
}

#[tokio::test]
async fn local_limits_are_charged_all_or_nothing() {
    let by_host = Limit::new("by-host", Quota::per_minute(10)).key([KeyPart::Host]);
    let limiter = away([by_host, per_ip()], FailurePolicy::Local);
    let at = |host| Subject {
        host: Some(host),
        ..ann()
    };
    assert_eq!(spend(&limiter, &at("a"), 20).await, 3);
    let Verdict::Reject(decision) = limiter.check(&at("a"), 1).await else {
        panic!("per-ip is spent")
    };
    let left = decision
        .outcomes()
        .find(|(limit, _)| limit.name == "by-host")
        .unwrap()
        .1
        .outcome
        .remaining();
    assert_eq!(left, 7, "denied requests cost by-host nothing");
}
#[tokio::test]
async fn a_limit_that_is_not_enforced_refuses_nobody() {
    let watching = || Limit::new("watching", Quota::per_minute(1)).shadow();
    for own in [closed(503), FailurePolicy::Open] {
        let limiter = away([watching().on_failure(own)], closed(503));
        assert!(
            matches!(limiter.check(&ann(), 1).await, Verdict::ForwardUnchecked(_)),
            "{own:?}"
        );
    }
    let local = away([watching()], FailurePolicy::Local);
    assert_eq!(spend(&local, &ann(), 5).await, 5);
    let verdict = local.check(&ann(), 1).await;
    let (_, charged) = verdict.decision().unwrap().outcomes().next().unwrap();
    assert!(!charged.outcome.is_allowed(), "it is counted all the same");
}

#[tokio::test]
async fn every_question_to_a_limiter_meets_the_same_policy() {
    let refused = away([per_ip()], closed(504));
    let passed = away([per_ip()], FailurePolicy::Open);
    let local = away([per_ip()], FailurePolicy::Local);
    let by_name = ["203.0.113.7"];
    for verdict in [
        refused.check(&ann(), 1).await,
        refused.peek(&ann()).await,
        refused.check_named("per-ip", &by_name, 1).await,
        refused.refund(&ann(), 1, Nanos::ZERO).await,
    ] {
        assert!(
            matches!(verdict, Verdict::Unavailable { status, .. } if status.get() == 504),
            "{verdict:?}"
        );
    }
    for verdict in [
        passed.peek(&ann()).await,
        passed.check_named("per-ip", &by_name, 1).await,
        passed.refund(&ann(), 1, Nanos::ZERO).await,
    ] {
        assert!(
            matches!(verdict, Verdict::ForwardUnchecked(_)),
            "{verdict:?}"
        );
    }
    let left = |verdict: Verdict| {
        verdict
            .decision()
            .unwrap()
            .tightest()
            .unwrap()
            .1
            .outcome
            .remaining()
    };
    assert_eq!(left(local.check_named("per-ip", &by_name, 2).await), 1);
    assert_eq!(left(local.peek(&ann()).await), 1);
    assert_eq!(left(local.refund(&ann(), 1, Nanos::ZERO).await), 2);
    assert_eq!(
        left(local.refund(&ann(), 9, Nanos::ZERO).await),
        3,
        "never above full"
    );
}
