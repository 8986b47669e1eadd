//! Refunds give back what was taken and nothing that has come back by itself (A10).

use proptest::prelude::*;
use tollgate_core::algorithm::{self, Next, State};
use tollgate_core::{Nanos, Outcome, Quota, Timestamp};

use crate::bounds::{in_millis, most_of_drips};
use crate::cases::cases;
use crate::history::{Admission, broken_span, state_after};
use crate::program::{
    END, Move, any_quota, fixed_window, leaky_bucket, program, sliding_window, small_leaky_bucket, start, token_bucket,
};

proptest! {
    #![proptest_config(cases(2_000))]

    /// A counter that gave units back, with their true age, never passes more over any interval than one that had not
    /// taken them.
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

    #[test]
    fn aged_refunds_never_break_the_limit_of_a_window(
        quota in prop_oneof![fixed_window(), sliding_window()], moves in program(1..100), which in refunded(),
        start in start(),
    ) {
        let kept = net_admissions(quota, &moves, &which, start);
        prop_assert_eq!(refused_without_refunds(quota, &kept), None);
    }

    /// Whatever is given back, of whatever age: the counter is at most full, and at least as free as before.
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

    /// An administrative refund, or one at the instant of the charge, gives back exactly what was asked for.
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

/// For each step: whether to refund instead of spending, and which of the charges that are still out.
fn refunded() -> impl Strategy<Value = Vec<Option<prop::sample::Index>>> {
    proptest::collection::vec(proptest::option::weighted(0.4, any::<prop::sample::Index>()), 100)
}

/// Runs a program with refunds of their true age; what stays is what was taken and never given back.
fn net_admissions(quota: Quota, moves: &[Move], which: &[Option<prop::sample::Index>], start: u64) -> Vec<Admission> {
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
            state = algorithm::refund(state, quota, charge.cost, age, at).next.apply(state);
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
        let decided = algorithm::decide(state, quota, charge.cost, Timestamp::from_nanos(charge.at));
        state = decided.next.apply(state);
        !decided.outcome.is_allowed()
    })
}
