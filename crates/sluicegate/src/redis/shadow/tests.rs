//! Predictions of the shadows: what is denied from memory, when, and with which wait.

use super::*;

const AT: fn(u64) -> Timestamp = Timestamp::from_millis;

fn charge(quota: &Quota, cost: u64) -> ShadowCharge<'_> {
    ShadowCharge {
        hash: 1,
        quota,
        cost,
        enforced: true,
    }
}

fn denied<const N: usize>(
    shadows: &Shadows,
    charges: [ShadowCharge<'_>; N],
    now: Timestamp,
) -> Option<List<Outcome>> {
    let denied = match shadows.predict(charges, now) {
        Prediction::Denied(outcomes) => Some(outcomes),
        Prediction::Unknown | Prediction::TooEarly(_) => None,
    };
    if let [charge] = charges[..] {
        let alone = shadows.deny_one(charge, now).map(List::One);
        assert_eq!(
            denied, alone,
            "a charge alone is answered like one among others"
        );
    }
    denied
}

fn empty() -> (Shadows, Quota) {
    empty_by(ClockRates::MayDrift)
}

/// Ten a second, two at once, empty at the server's second 100, which was between 5.000 and 5.010
/// here.
fn empty_by(rates: ClockRates) -> (Shadows, Quota) {
    let quota = Quota::from(Quota::per_second(10).burst(2));
    let shadows = Shadows::new(rates);
    let state = Some(State::Instant(AT(100_200)));
    let observation = Observation {
        quota,
        state,
        server_now: AT(100_000),
        sent_at: AT(5_000),
        received_at: AT(5_010),
    };
    shadows.remember(1, 1, &observation);
    (shadows, quota)
}

#[test]
fn denies_exactly_while_the_store_would() {
    let (shadows, quota) = empty();
    assert!(denied(&shadows, [charge(&quota, 1)], AT(5_099)).is_some());
    assert!(
        denied(&shadows, [charge(&quota, 1)], AT(5_100)).is_none(),
        "the store may have a unit by now"
    );
    assert!(denied(&shadows, [charge(&quota, 2)], AT(5_199)).is_some());
    assert!(denied(&shadows, [charge(&quota, 2)], AT(5_200)).is_none());
    assert!(
        denied(&shadows, [charge(&quota, 3)], AT(5_500)).is_some(),
        "more than it ever holds"
    );
}

#[test]
fn a_call_that_would_come_too_early_is_delayed() {
    let (shadows, quota) = empty();
    assert!(matches!(
        shadows.predict([charge(&quota, 1)], AT(5_099)),
        Prediction::Denied(_)
    ));
    let Prediction::TooEarly(wait) = shadows.predict([charge(&quota, 1)], AT(5_100)) else {
        panic!("too early")
    };
    assert!(
        wait >= Nanos::from_millis(10) && wait < Nanos::from_millis(11),
        "received at 5.010: {wait}"
    );
    assert_eq!(
        shadows.predict([charge(&quota, 1)], AT(5_111)),
        Prediction::Unknown
    );
}

#[test]
fn a_clock_that_may_run_faster_or_slower_is_given_the_benefit_of_the_doubt() {
    let just_before = AT(5_100).before(Nanos::new(50_000));
    for (rates, is_denied) in [(ClockRates::MayDrift, false), (ClockRates::Same, true)] {
        let (shadows, quota) = empty_by(rates);
        assert_eq!(
            denied(&shadows, [charge(&quota, 1)], just_before).is_some(),
            is_denied,
            "{rates:?}"
        );
        let outcomes = denied(&shadows, [charge(&quota, 1)], AT(5_060)).expect("denied");
        let slack = if rates == ClockRates::MayDrift {
            50_000..=50_500
        } else {
            0..=0
        };
        let excess =
            outcomes[0].retry_after().expect("a wait helps").get() - Nanos::from_millis(50).get();
        assert!(
            slack.contains(&excess),
            "50 ms after it was received: {excess} ns more"
        );
    }
}

#[test]
fn the_wait_it_tells_is_never_too_short() {
    let (shadows, quota) = empty();
    let outcomes = denied(&shadows, [charge(&quota, 1)], AT(5_050)).expect("denied");
    let wait = outcomes[0].retry_after().expect("a wait helps");
    assert!(
        wait >= Nanos::from_millis(60),
        "received at 5.010, so the unit comes at 5.110 at the latest: {wait}"
    );
    assert!(wait < Nanos::from_millis(61));
}

#[test]
fn a_request_is_denied_from_memory_only_if_all_its_counters_are_known() {
    let (shadows, quota) = empty();
    let unknown = ShadowCharge {
        hash: 2,
        ..charge(&quota, 1)
    };
    assert!(denied(&shadows, [charge(&quota, 1), unknown], AT(5_050)).is_none());
    let watched = ShadowCharge {
        enforced: false,
        ..charge(&quota, 1)
    };
    assert!(
        denied(&shadows, [watched], AT(5_050)).is_none(),
        "a limit that only watches stops nobody"
    );
}

#[test]
fn an_old_sight_or_one_of_another_quota_denies_nobody() {
    let quota = Quota::from(Quota::per_minute(1).burst(1));
    let shadows = Shadows::new(ClockRates::MayDrift);
    let state = Some(State::Instant(AT(160_000)));
    let observation = Observation {
        quota,
        state,
        server_now: AT(100_000),
        sent_at: AT(5_000),
        received_at: AT(5_000),
    };
    shadows.remember(1, 1, &observation);
    assert!(denied(&shadows, [charge(&quota, 1)], AT(7_000)).is_some());
    assert!(
        denied(&shadows, [charge(&quota, 1)], AT(7_001)).is_none(),
        "two seconds are its life"
    );
    assert!(
        denied(&shadows, [charge(&quota, 1)], AT(4_999)).is_none(),
        "the clock went back"
    );
    let other = Quota::from(Quota::per_minute(1).burst(2));
    assert!(denied(&shadows, [charge(&other, 1)], AT(5_001)).is_none());
    shadows.forget(1);
    assert!(denied(&shadows, [charge(&quota, 1)], AT(5_001)).is_none());
}

#[test]
fn a_flood_of_other_keys_does_not_displace_the_largest_debt() {
    let (shadows, quota) = empty();
    for hash in (1..100_u64).map(|times| times * COUNTERS as u64 + 1) {
        let state = Some(State::Instant(AT(100_100)));
        let observation = Observation {
            quota,
            state,
            server_now: AT(100_000),
            sent_at: AT(5_000),
            received_at: AT(5_010),
        };
        shadows.remember(hash, 1, &observation);
    }
    assert!(denied(&shadows, [charge(&quota, 1)], AT(5_050)).is_some());
}

#[test]
fn requests_denied_from_memory_are_counted() {
    let (shadows, quota) = empty();
    assert_eq!(shadows.denials(), 0);
    denied(&shadows, [charge(&quota, 1)], AT(5_050)).expect("denied, twice");
    denied(&shadows, [charge(&quota, 1)], AT(5_300))
        .ok_or(())
        .unwrap_err();
    denied(&shadows, [charge(&quota, 1), charge(&quota, 1)], AT(5_050)).expect("denied");
    assert_eq!(
        shadows.denials(),
        3,
        "a request counts once, however many of its charges are denied"
    );
}

#[test]
fn a_remembered_debt_is_as_many_units_under_other_numbers() {
    let (shadows, quota) = empty();
    let state = shadows.remembered(1, &quota, AT(5_110));
    assert_eq!(
        state,
        Some(State::Instant(AT(5_210))),
        "100 ms of the debt are left"
    );
    let reloaded = Quota::from(Quota::per_second(5).burst(2));
    assert_eq!(
        shadows.remembered(1, &reloaded, AT(5_110)),
        Some(State::Instant(AT(5_310))),
        "one unit, which takes 200 ms now"
    );
    assert_eq!(
        shadows.remembered(1, &quota, AT(5_009)),
        None,
        "the clock went back"
    );
}
