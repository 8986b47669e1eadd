//! No interval admits more than the bound of its algorithm, by the clock of the counter.

use proptest::prelude::*;
use sluicegate_core::{Nanos, Quota};

use crate::cases::cases;
use crate::history::{Admission, admissions, broken_span};
use crate::program::{fixed_window, leaky_bucket, program, start, token_bucket};

proptest! {
    #![proptest_config(cases(2_000))]

    /// Burst + rate × Δt over every interval, with the rate as configured and not as rounded; also
    /// across suspends of months.
    #[test]
    fn a_token_bucket_never_passes_more_than_burst_plus_rate_over_any_interval(
        rated in token_bucket(), moves in program(1..150), start in start(),
    ) {
        let admitted = admissions(rated.quota, &moves, start);
        prop_assert_eq!(broken_span(&admitted, |span| rated.most(span)), None);
    }

    /// Size, one drip less one unit, and the drips of the interval, which fall on whole
    /// milliseconds.
    #[test]
    fn a_leaky_bucket_never_passes_more_than_size_and_drips_over_any_interval(
        quota in leaky_bucket(), moves in program(1..150), start in start(),
    ) {
        let admitted = in_millis(admissions(quota, &moves, start));
        prop_assert_eq!(broken_span(&admitted, |span| most_of_drips(quota, span)), None);
    }

    /// The limit in every window of the clock, and twice the limit in any span as long as a
    /// window.
    #[test]
    fn a_fixed_window_passes_its_limit_per_window_and_twice_that_across_an_edge(
        quota in fixed_window(), moves in program(1..150), start in start(),
    ) {
        let window = quota.window().get();
        let admitted = admissions(quota, &moves, start);
        let windows = |span: u64| u128::from(span / window) + 2;
        prop_assert_eq!(broken_span(&admitted, |span| windows(span) * u128::from(quota.limit())), None);
        for in_one in admitted.chunk_by(|a, b| a.at / window == b.at / window) {
            let taken: u64 = in_one.iter().map(|admission| admission.cost).sum();
            prop_assert!(taken <= quota.limit(), "{} in one window: {:?}", taken, in_one);
        }
    }
}

/// Twice the limit around the end of a window is real, and documented.
#[test]
fn twice_the_limit_passes_across_the_edge_of_a_fixed_window() {
    let quota = Quota::fixed_window(100, Nanos::MINUTE).unwrap();
    let flood = |at: u64| (0..150).map(move |_| at);
    let mut state = None;
    let passed = flood(59_999).chain(flood(60_000)).filter(|at| {
        let step = sluicegate_core::algorithm::decide(
            state,
            quota,
            1,
            sluicegate_core::Timestamp::from_millis(*at),
        );
        state = step.next.apply(state);
        step.outcome.is_allowed()
    });
    assert_eq!(passed.count(), 200);
}

/// `S + k − 1 + w · k / D`, with the span in milliseconds.
pub fn most_of_drips(quota: Quota, span_ms: u64) -> u128 {
    let Quota::Drip(bucket) = quota else {
        panic!("not a drip bucket: {quota:?}")
    };
    let (drip, interval_ms) = (
        u128::from(bucket.drip()),
        u128::from(bucket.interval().get() / 1_000_000),
    );
    u128::from(quota.limit()) + drip - 1 + u128::from(span_ms) * drip / interval_ms
}

/// The same admissions on the millisecond clock of drips.
pub fn in_millis(admitted: Vec<Admission>) -> Vec<Admission> {
    let floor = |Admission { at, cost }| Admission {
        at: at / 1_000_000,
        cost,
    };
    admitted.into_iter().map(floor).collect()
}
