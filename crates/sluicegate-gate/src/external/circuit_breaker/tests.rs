//! Breakers of callers and of the service, with times that the tests choose.

use super::recent_results::FAILED_MIN;
use super::*;

fn after(start: Instant, seconds: u64) -> Instant {
    start + Duration::from_secs(seconds)
}

/// A caller without an answer in a cache.
fn stranger(hash: u64) -> BreakerCaller {
    BreakerCaller {
        hash,
        has_answer: false,
    }
}

fn call(breakers: &CircuitBreakers, key: u64, result: CallResult, now: Instant) -> bool {
    let permit = breakers.admit(stranger(key), now);
    permit.is_ok_and(|permit| {
        breakers.report(key, permit, result, now);
        true
    })
}

/// A failure of one caller only, so that the breaker of the service stays closed.
fn fail(breakers: &CircuitBreakers, key: u64, now: Instant) -> u64 {
    let permit = breakers.admit(stranger(key), now).unwrap();
    breakers.report(key, permit, CallResult::CallerFailure, now)
}

fn fail_all(breakers: &CircuitBreakers, keys: impl IntoIterator<Item = u64>, now: Instant) {
    for key in keys {
        fail(breakers, key, now);
    }
}
#[test]
fn five_errors_in_a_row_open_for_thirty_seconds_and_then_one_may_try() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    assert_eq!((0..4).map(|_| fail(&breakers, 1, start)).sum::<u64>(), 0);
    assert_eq!(fail(&breakers, 1, start), 1);
    assert_eq!(
        breakers.admit(stranger(1), after(start, 29)).unwrap_err(),
        after(start, 30)
    );
    let probe = breakers.admit(stranger(1), after(start, 30)).unwrap();
    assert!(
        breakers.admit(stranger(1), after(start, 30)).is_err(),
        "a second probe"
    );
    assert_eq!(
        breakers.report(1, probe, CallResult::CallerFailure, after(start, 31)),
        1
    );
    assert!(
        breakers.admit(stranger(1), after(start, 60)).is_err(),
        "open again"
    );
    let probe = breakers.admit(stranger(1), after(start, 61)).unwrap();
    assert_eq!(
        breakers.report(1, probe, CallResult::Success, after(start, 61)),
        0
    );
    assert!(breakers.admit(stranger(1), after(start, 61)).is_ok());
    assert_eq!(breakers.len(), 0, "who is well has none");
}

#[test]
fn an_answer_in_between_starts_the_count_again() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    for _ in 0..10 {
        (0..4).for_each(|_| assert_eq!(fail(&breakers, 1, start), 0));
        let permit = breakers.admit(stranger(1), start).unwrap();
        assert_eq!(breakers.report(1, permit, CallResult::Success, start), 0);
    }
}

#[test]
fn the_callers_of_others_are_not_touched() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    fail_all(&breakers, [1; 5], start);
    assert!(breakers.admit(stranger(1), start).is_err());
    assert!(breakers.admit(stranger(1 + SHARDS as u64), start).is_ok());
    assert!(breakers.admit(stranger(2), start).is_ok());
}
#[test]
fn errors_of_twenty_callers_open_for_all_strangers() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    let mut calls = 0;
    for key in 0..100_000 {
        if let Ok(permit) = breakers.admit(stranger(key), start) {
            calls += 1;
            breakers.report(key, permit, CallResult::ServiceFailure, start);
        }
    }
    assert_eq!(calls, 20);
    assert_eq!(
        breakers.open_until(stranger(7), start),
        Some(after(start, 5))
    );
    let probe = breakers.admit(stranger(7), after(start, 5)).unwrap();
    assert!(
        breakers.admit(stranger(8), after(start, 5)).is_err(),
        "a second probe"
    );
    breakers.report(7, probe, CallResult::Success, after(start, 5));
    assert!(breakers.admit(stranger(8), after(start, 5)).is_ok());
}

#[test]
fn answers_that_make_no_sense_are_a_sign_of_life() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    fail_all(&breakers, 0..1_000, start);
    assert!(breakers.admit(stranger(5_000), start).is_ok());
}

#[test]
fn a_probe_that_came_to_nothing_is_tried_again_at_once() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    fail_all(&breakers, [1; 5], start);
    let probe = breakers.admit(stranger(1), after(start, 30)).unwrap();
    assert_eq!(
        breakers.report(1, probe, CallResult::Inconclusive, after(start, 30)),
        0
    );
    assert!(breakers.admit(stranger(1), after(start, 30)).is_ok());
}

#[test]
fn a_late_error_of_a_call_from_before_does_not_end_a_probe() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    let late = breakers.admit(stranger(1), start).unwrap();
    fail_all(&breakers, [1; 5], start);
    let probe = breakers.admit(stranger(1), after(start, 30)).unwrap();
    breakers.report(1, late, CallResult::CallerFailure, after(start, 30));
    breakers.report(1, probe, CallResult::Success, after(start, 30));
    assert!(breakers.admit(stranger(1), after(start, 30)).is_ok());
}
#[test]
fn idle_breakers_are_forgotten_and_their_number_is_bounded() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    fail_all(&breakers, 0..100_000, start);
    assert!(breakers.len() <= CALLERS_MAX, "{}", breakers.len());
    fail_all(&breakers, 0..SHARDS as u64, after(start, 60));
    assert_eq!(breakers.len(), SHARDS);
    fail_all(&breakers, [3; 4], after(start, 60));
    assert!(breakers.admit(stranger(3), after(start, 61)).is_err());
    assert!(
        breakers.admit(stranger(3), after(start, 121)).is_ok(),
        "nobody asked for a minute"
    );
}

/// Five ids that the service fails on, as often as their own breakers let them.
#[test]
fn bogus_callers_open_their_own_breakers_and_nobody_elses() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    let mut calls = 0;
    for _ in 0..100 {
        for bogus in 0..5 {
            calls += u32::from(call(&breakers, bogus, CallResult::ServiceFailure, start));
        }
    }
    assert_eq!(calls, 25, "five errors open the breaker of each");
    assert!(breakers.admit(stranger(5), start).is_ok());
}

/// Any number of invented ids keep nobody from the service whom it has answered before.
#[test]
fn known_callers_are_not_cut_off_by_strangers() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    assert!(call(&breakers, 7, CallResult::Success, start));
    for bogus in 1_000..2_000 {
        call(&breakers, bogus, CallResult::ServiceFailure, start);
    }
    assert!(breakers.admit(stranger(3_000), start).is_err());
    let cached = BreakerCaller {
        has_answer: true,
        ..stranger(8)
    };
    assert!(breakers.admit(cached, start).is_ok(), "known by a cache");
    assert!(call(&breakers, 7, CallResult::Success, start));
    assert!(
        breakers.admit(stranger(3_000), start).is_ok(),
        "a known caller who is served shows that the service works"
    );
}

#[test]
fn an_outage_cuts_off_known_callers_too() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    for known in 0..1_000 {
        call(&breakers, known, CallResult::Success, start);
    }
    let down = after(start, 60);
    let calls = (0..1_000)
        .filter(|known| call(&breakers, *known, CallResult::ServiceFailure, down))
        .count();
    assert_eq!(calls, FAILED_MIN);
    let probes = (0..1_000)
        .filter(|known| call(&breakers, *known, CallResult::Success, after(down, 5)))
        .count();
    assert_eq!(probes, 1_000, "one success is enough");
}

/// Where more callers are served than fail, the service works.
#[test]
fn the_share_of_failures_decides() {
    for (failing, is_outage) in [(40, false), (60, true)] {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        let result = |key: u64| match key % 100 < failing {
            true => CallResult::ServiceFailure,
            false => CallResult::CallerFailure,
        };
        // Mixed by a step that meets every key once.
        for step in 0..100 {
            let key = step * 37 % 100;
            call(&breakers, key, result(key), start);
        }
        let is_open = breakers.open_until(stranger(999), start).is_some();
        assert_eq!(is_open, is_outage, "{failing} of 100 fail");
    }
}

#[test]
fn old_failures_are_no_evidence() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    for second in 0..60 {
        // One stranger a second: never twenty within ten seconds.
        let now = after(start, second);
        assert!(call(&breakers, second, CallResult::ServiceFailure, now));
    }
}

#[test]
fn the_number_of_known_callers_is_bounded() {
    let start = Instant::now();
    let breakers = CircuitBreakers::new(start);
    for key in 0..100_000 {
        call(&breakers, key, CallResult::Success, start);
    }
    let known = |shard: &Mutex<BreakerShard>| {
        let shard = shard.lock().unwrap();
        (shard.known.len(), shard.known_order.len())
    };
    let sizes: Vec<_> = breakers.shards.iter().map(known).collect();
    assert_eq!(
        sizes,
        vec![(KNOWN_MAX / SHARDS, KNOWN_MAX / SHARDS); SHARDS]
    );
}
