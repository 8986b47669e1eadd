//! Refunds give back what was taken and nothing that has come back by itself.

use proptest::prelude::*;
use sluicegate_core::algorithm::{self, Next, State};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp, TokenBucket};

use crate::bounds::{in_millis, most_of_drips};
use crate::cases::cases;
use crate::history::{Admission, broken_span, state_after};
use crate::program::{
    END, ProgramStep, any_quota, fixed_window, leaky_bucket, log, program, sliding_window,
    small_leaky_bucket, start, token_bucket,
};

proptest! {
    #![proptest_config(cases(2_000))]

    /// A counter that gave units back, with their true age, never passes more over any interval
    /// than one that had not taken them.
    #[test]
    fn aged_refunds_never_break_the_bound_of_a_token_bucket(
        rated in token_bucket(), moves in program(1..100), which in refunded(), start in start(),
    ) {
        let kept = net_admissions(rated.quota, &moves, &which, start);
        prop_assert_eq!(broken_span(&kept, |span| rated.most(span)), None);
        prop_assert_eq!(refused_without_refunds(rated.quota, &kept), None);
    }

    #[test]
    fn aged_refunds_never_break_the_bound_of_a_leaky_bucket(
        quota in prop_oneof![small_leaky_bucket(), leaky_bucket()], moves in program(1..40), which in refunded(),
        start in start(),
    ) {
        let kept = in_millis(net_admissions(quota, &moves, &which, start));
        prop_assert_eq!(broken_span(&kept, |span| most_of_drips(quota, span)), None);
    }

    /// Drips of one unit obey the law of the token bucket, refunds included. Quotas that are
    /// too slow for the token bucket use such drips.
    #[test]
    fn drips_of_one_unit_are_a_token_bucket_in_milliseconds(
        size in log(1_000), millis in log(1 << 31), moves in program(1..60), which in refunded(), start_ms in 0_u64..1 << 40,
    ) {
        let interval = Nanos::from_millis(millis);
        let Ok(bucket) = TokenBucket::with_interval(interval, size) else { return Ok(()) };
        let (bucket, drips) = (Quota::from(bucket), Quota::leaky_bucket(size, interval, 1).unwrap());
        let mut states = (None, None);
        let (mut now_ms, mut drawn, mut last) = (start_ms, Vec::new(), None);
        for (step, refund) in moves.iter().zip(&which) {
            now_ms += step.wait(bucket, last) / Nanos::MILLISECOND.get();
            let (now, cost) = (Timestamp::from_millis(now_ms), step.cost(bucket));
            let steps = match refund {
                Some(index) if !drawn.is_empty() => {
                    let Admission { at, cost } = drawn.swap_remove(index.index(drawn.len()));
                    let age = Nanos::from_millis(now_ms - at);
                    let give_back = |state, quota| algorithm::refund(state, quota, cost, age, now);
                    (give_back(states.0, bucket), give_back(states.1, drips))
                }
                _ => {
                    let decide = |state, quota| algorithm::decide(state, quota, cost, now);
                    (decide(states.0, bucket), decide(states.1, drips))
                }
            };
            prop_assert_eq!(steps.0.outcome, steps.1.outcome);
            if refund.is_none() && steps.0.next != Next::Same {
                drawn.push(Admission { at: now_ms, cost });
            }
            last = Some(steps.0.outcome);
            states = (steps.0.next.apply(states.0), steps.1.next.apply(states.1));
        }
    }

    #[test]
    fn aged_refunds_never_break_the_limit_of_a_window(
        quota in prop_oneof![fixed_window(), sliding_window()], moves in program(1..100), which in refunded(),
        start in start(),
    ) {
        let kept = net_admissions(quota, &moves, &which, start);
        prop_assert_eq!(refused_without_refunds(quota, &kept), None);
    }

    /// After a refund of any size and age the counter is at most full, and at least as free as
    /// before.
    #[test]
    fn a_refund_is_never_above_full_and_never_a_charge(
        quota in any_quota(), moves in program(1..30), cost: u64, age: u64, start in start(),
    ) {
        let (state, now) = state_after(quota, &moves, start);
        let before = algorithm::decide(state, quota, 0, now).outcome;
        let refund = algorithm::refund(state, quota, cost, Nanos::new(age), now);
        let after = algorithm::decide(refund.next.apply(state), quota, 0, now).outcome;
        prop_assert_eq!(refund.outcome, after, "the answer is what a peek sees");
        prop_assert!(after.is_allowed());
        prop_assert!((before.remaining()..=quota.limit()).contains(&after.remaining()));
        prop_assert!(after.reset_after() <= before.reset_after());
        if after.reset_after() == Nanos::ZERO {
            prop_assert_eq!(refund.next, Next::Clear, "a full counter leaves nothing behind");
        }
    }

    /// An administrative refund, or one at the instant of the charge, gives back exactly what was
    /// asked for.
    #[test]
    fn a_refund_without_age_undoes_a_charge_of_the_same_instant(
        quota in any_quota(), moves in program(0..30), start in start(),
    ) {
        let (state, now) = state_after(quota, &moves, start);
        let free = algorithm::decide(state, quota, 0, now).outcome;
        let taken = algorithm::decide(state, quota, free.remaining(), now);
        prop_assume!(free.remaining() > 0);
        let drawn = taken.next.apply(state);
        let back = algorithm::refund(drawn, quota, free.remaining(), Nanos::ZERO, now);
        prop_assert_eq!(back.outcome, free);
    }
}

/// The first of two charges is given back just before its drip: the second takes as long as it
/// would have alone.
#[test]
fn the_refund_of_a_first_charge_does_not_hurry_the_second() {
    let quota = Quota::leaky_bucket(3, Nanos::SECOND, 1).unwrap();
    let at = Timestamp::from_millis;
    let first = algorithm::decide(None, quota, 1, at(0)).next.apply(None);
    let second = algorithm::decide(first, quota, 1, at(900))
        .next
        .apply(first);
    let alone = algorithm::decide(None, quota, 1, at(900)).next.apply(None);
    let left = algorithm::refund(second, quota, 1, Nanos::from_millis(950), at(950))
        .next
        .apply(second);
    for now in (950..3_000).map(at) {
        let [with, without] =
            [left, alone].map(|state| algorithm::decide(state, quota, 0, now).outcome.remaining());
        assert!(
            with <= without,
            "{with} left instead of {without} at {now:?}"
        );
    }
}

/// For each step: true to refund instead of spending, and the charge to refund among those not yet
/// given back.
fn refunded() -> impl Strategy<Value = Vec<Option<prop::sample::Index>>> {
    proptest::collection::vec(
        proptest::option::weighted(0.4, any::<prop::sample::Index>()),
        100,
    )
}

/// Runs a program with refunds of their true age; returns the charges that were never given back.
fn net_admissions(
    quota: Quota,
    moves: &[ProgramStep],
    which: &[Option<prop::sample::Index>],
    start: u64,
) -> Vec<Admission> {
    let (mut state, mut now, mut last) = (None, start, None::<Outcome>);
    let mut out: Vec<Admission> = Vec::new();
    for (step, refund) in moves.iter().zip(which) {
        now += step.wait(quota, last);
        if now > END {
            break;
        }
        let at = Timestamp::from_nanos(now);
        if let (Some(index), false) = (refund, out.is_empty()) {
            let charge = out.remove(index.index(out.len()));
            let age = Nanos::new(now - charge.at);
            state = algorithm::refund(state, quota, charge.cost, age, at)
                .next
                .apply(state);
            continue;
        }
        let cost = step.cost(quota);
        let decided = algorithm::decide(state, quota, cost, at);
        state = decided.next.apply(state);
        last = Some(decided.outcome);
        if decided.outcome.is_allowed() && cost > 0 {
            out.push(Admission { at: now, cost });
        }
    }
    out
}

/// The first of these charges that a counter which never saw a refund would not have taken.
fn refused_without_refunds(quota: Quota, charges: &[Admission]) -> Option<Admission> {
    let mut state: Option<State> = None;
    charges.iter().copied().find(|charge| {
        let decided =
            algorithm::decide(state, quota, charge.cost, Timestamp::from_nanos(charge.at));
        state = decided.next.apply(state);
        !decided.outcome.is_allowed()
    })
}
