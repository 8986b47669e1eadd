//! What several outcomes mean together (B11, F6).

use std::sync::Arc;

use sluicegate_core::{Decision, Limit, LimitOutcome, Nanos, Outcome, Policy, Quota};

const SECOND: Nanos = Nanos::SECOND;

fn allowed(remaining: u64, reset_after: Nanos) -> Outcome {
    Outcome::Allowed {
        remaining,
        reset_after,
    }
}

fn denied(retry_after: Nanos) -> Outcome {
    Outcome::Denied {
        remaining: 0,
        retry_after,
        reset_after: retry_after,
    }
}

const TOO_LARGE: Outcome = Outcome::TooLarge {
    remaining: 9,
    reset_after: Nanos::ZERO,
};

/// A decision of limits named `a`, `b` and so on; the ones in `shadow` are only watched.
fn decision(outcomes: &[Outcome], shadow: &[usize]) -> Decision {
    let limit = |place: usize| {
        let name = char::from(b'a' + place as u8).to_string();
        let limit = Limit::new(name, Quota::per_second(9));
        if shadow.contains(&place) {
            limit.shadow()
        } else {
            limit
        }
    };
    let policy = Policy::new((0..outcomes.len()).map(limit)).unwrap();
    let charged = outcomes
        .iter()
        .enumerate()
        .map(|(limit_index, outcome)| LimitOutcome {
            limit_index,
            quota: Quota::per_second(9).into(),
            outcome: *outcome,
            enforced: !shadow.contains(&limit_index),
        });
    Decision::new(Arc::new(policy), charged.map(Some).collect())
}

fn tightest(decision: &Decision) -> Option<&str> {
    decision.tightest().map(|(limit, _)| limit.name.as_str())
}

#[test]
fn a_request_goes_on_when_no_enforced_limit_denies_it() {
    let goes_on = |outcomes: &[Outcome], shadow: &[usize]| decision(outcomes, shadow).is_allowed();
    assert!(goes_on(&[], &[]));
    assert!(goes_on(&[allowed(1, SECOND), allowed(0, SECOND)], &[]));
    assert!(!goes_on(&[allowed(1, SECOND), denied(SECOND)], &[]));
    assert!(!goes_on(&[TOO_LARGE], &[]));
    assert!(
        goes_on(&[allowed(1, SECOND), denied(SECOND)], &[1]),
        "a shadow limit never stops a request"
    );
    assert!(goes_on(&[TOO_LARGE], &[0]));
}

#[test]
fn the_wait_is_the_longest_of_all_denials() {
    let wait = |outcomes: &[Outcome], shadow: &[usize]| decision(outcomes, shadow).retry_after();
    assert_eq!(wait(&[allowed(0, SECOND)], &[]), Some(Nanos::ZERO));
    assert_eq!(
        wait(
            &[denied(SECOND), denied(Nanos::MINUTE), allowed(1, SECOND)],
            &[]
        ),
        Some(Nanos::MINUTE)
    );
    assert_eq!(
        wait(&[denied(SECOND), denied(Nanos::MINUTE)], &[1]),
        Some(SECOND),
        "a shadow is not waited for"
    );
    assert_eq!(
        wait(&[denied(SECOND), TOO_LARGE], &[]),
        None,
        "no wait helps one of them"
    );
}

#[test]
fn the_tightest_limit_is_the_longest_denial_or_else_the_least_left() {
    assert_eq!(tightest(&decision(&[], &[])), None);
    assert_eq!(
        tightest(&decision(&[allowed(5, SECOND), allowed(2, SECOND)], &[])),
        Some("b")
    );
    assert_eq!(
        tightest(&decision(
            &[allowed(2, SECOND), allowed(2, Nanos::MINUTE)],
            &[]
        )),
        Some("b"),
        "slower to refill"
    );
    assert_eq!(
        tightest(&decision(&[allowed(0, SECOND), denied(SECOND)], &[])),
        Some("b")
    );
    assert_eq!(
        tightest(&decision(&[denied(Nanos::MINUTE), denied(SECOND)], &[])),
        Some("a")
    );
    assert_eq!(
        tightest(&decision(&[denied(Nanos::MINUTE), TOO_LARGE], &[])),
        Some("b"),
        "never is the longest wait"
    );
    assert_eq!(
        tightest(&decision(&[allowed(5, SECOND), allowed(0, SECOND)], &[1])),
        Some("a"),
        "shadows are not told"
    );
}
