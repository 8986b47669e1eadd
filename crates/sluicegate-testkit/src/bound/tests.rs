use std::time::Instant;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;

fn admission(sent: u64, received: u64, cost: u64) -> Admission {
    Admission {
        sent,
        received,
        key: 7,
        cost,
    }
}

/// The definition, word by word.
fn excess_by_definition(bound: &Bound, history: &[Admission]) -> Option<i128> {
    let pairs = history
        .iter()
        .flat_map(|first| history.iter().map(move |last| (first, last)));
    let of_pair = |(first, last): (&Admission, &Admission)| {
        let inside = history
            .iter()
            .filter(|one| one.sent >= first.sent && one.received <= last.received);
        let spent: u64 = inside.map(|one| one.cost).sum();
        let refilled =
            i128::from(bound.count) * (i128::from(last.received) - i128::from(first.sent));
        i128::from(bound.period)
            * (i128::from(spent) - i128::from(bound.burst * (1 + bound.bursts_lost)))
            - refilled
    };
    pairs
        .filter(|(first, last)| first.sent <= last.sent)
        .map(of_pair)
        .max()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_quick_way_finds_what_the_definition_says(
        history in prop::collection::vec((0_u64..40, 0_u64..20, 0_u64..4), 0..24),
        (count, period, burst, bursts_lost) in (1_u64..5, 1_u64..9, 0_u64..6, 0_u64..2),
    ) {
        let history: Vec<_> = history.into_iter().map(|(sent, took, cost)| admission(sent, sent + took, cost)).collect();
        let bound = Bound::new(count, Duration::from_nanos(period), burst).with_bursts_lost(bursts_lost);
        let worst = bound.worst(&history);
        prop_assert_eq!(worst.map(|worst| worst.excess), excess_by_definition(&bound, &history));
        if let Some(worst) = worst {
            // The interval named is one that has this excess.
            let inside = history.iter().filter(|one| one.sent >= worst.from && one.received <= worst.to);
            let spent: u64 = inside.map(|one| one.cost).sum();
            let allowed = period * burst * (1 + bursts_lost) + count * (worst.to - worst.from);
            prop_assert_eq!(worst.excess, i128::from(spent * period) - i128::from(allowed));
        }
    }
}

/// Ten per second, five at once, used up exactly by answers that take no time.
fn exact_history() -> Vec<Admission> {
    let burst = (0..5).map(|_| admission(SECOND, SECOND, 1));
    burst
        .chain(
            (1..=100)
                .map(|tick| SECOND + tick * SECOND / 10)
                .map(|time| admission(time, time, 1)),
        )
        .collect()
}

#[test]
fn a_limiter_that_gives_exactly_what_it_may_is_within() {
    let report = Bound::new(10, Duration::from_secs(1), 5).check(&exact_history());
    report.assert_holds();
    assert_eq!(report.excess_units(), Some(0.0));
}

#[test]
fn one_admission_too_many_or_a_nanosecond_too_early_is_found() {
    let bound = Bound::new(10, Duration::from_secs(1), 5);
    let mut doctored = exact_history();
    doctored.push(admission(5 * SECOND, 5 * SECOND, 1));
    let report = bound.check(&doctored);
    assert_eq!(report.excess_units(), Some(1.0));
    let text = report.to_string();
    assert!(
        text.contains("0 of 1 keys within") && text.contains("key 7: EXCESS 1.000 units"),
        "{text}"
    );

    let mut early = exact_history();
    early[60] = admission(early[60].sent - 1, early[60].received - 1, 1);
    assert!(!bound.check(&early).holds());
}

#[test]
fn a_lost_burst_is_forgiven_once() {
    let bound = Bound::new(10, Duration::from_secs(1), 5);
    let second_burst = (0..5).map(|_| admission(4 * SECOND, 4 * SECOND, 1));
    let history: Vec<_> = exact_history().into_iter().chain(second_burst).collect();
    assert_eq!(bound.check(&history).excess_units(), Some(5.0));
    assert!(bound.with_bursts_lost(1).check(&history).holds());
}

#[test]
fn keys_have_bounds_of_their_own_and_the_worst_comes_first() {
    let of_key = |key, count| {
        (0..count).map(move |_| Admission {
            key,
            ..admission(0, 1, 1)
        })
    };
    let history: Vec<_> = of_key(1, 5)
        .chain(of_key(2, 8))
        .chain(of_key(3, 4))
        .collect();
    let report = Bound::new(1, Duration::from_secs(1), 5).check(&history);
    assert_eq!(
        report.keys().iter().map(|key| key.key).collect::<Vec<_>>(),
        [2, 1, 3]
    );
    assert_eq!(
        report.keys().iter().filter(|key| key.worst.holds()).count(),
        2
    );
}

#[test]
fn an_answer_that_comes_late_does_not_hide_the_ones_around_it() {
    // The slow request was sent first and answered last; the three in between exceed on their own.
    let history = [
        admission(0, 10 * SECOND, 1),
        admission(10, 20, 1),
        admission(11, 21, 1),
        admission(12, 22, 1),
    ];
    let worst = Bound::new(1, Duration::from_secs(1), 2)
        .worst(&history)
        .unwrap();
    assert_eq!((worst.from, worst.to), (10, 22));
    assert!(!worst.holds());
}

#[test]
fn a_million_admissions_are_checked_in_seconds() {
    let history: Vec<_> = (0..1_000_000)
        .map(|n| admission(n * 1000, n * 1000 + n * 7919 % 100_000, 1))
        .collect();
    let start = Instant::now();
    assert!(
        Bound::new(1_000_000, Duration::from_secs(1), 100)
            .check(&history)
            .holds()
    );
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
}

#[test]
#[should_panic(expected = "nothing was admitted")]
fn an_empty_history_proves_nothing() {
    Bound::new(1, Duration::from_secs(1), 1)
        .check(&[])
        .assert_holds();
}
