//! A clock that runs back, by a little or by years, never creates units.

use proptest::prelude::*;
use sluicegate_core::algorithm::{self, MAX_CLOCK_STEP};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp};

use crate::bounds::most_of_drips;
use crate::cases::cases;
use crate::history::{Admission, broken_span};
use crate::model::Model;
use crate::program::{
    END, ProgramStep, leaky_bucket, log, program, small_leaky_bucket, start, token_bucket,
};

proptest! {
    #![proptest_config(cases(2_000))]

    /// Only time that went forward counts: what was taken fits burst + rate × the sum of all
    /// forward moves.
    #[test]
    fn a_token_bucket_counts_only_forward_time(
        rated in token_bucket(), moves in program(1..100), backs in backs(1 << 62), start in start(),
    ) {
        let admitted = by_forward_time(rated.quota, &moves, &backs, start, Nanos::new(1));
        prop_assert_eq!(broken_span(&admitted, |span| rated.most(span)), None);
    }

    #[test]
    fn a_leaky_bucket_counts_only_forward_time(
        quota in prop_oneof![leaky_bucket(), small_leaky_bucket()], moves in program(1..100), backs in backs(1 << 62),
        start in start(),
    ) {
        let admitted = by_forward_time(quota, &moves, &backs, start, Nanos::MILLISECOND);
        prop_assert_eq!(broken_span(&admitted, |span| most_of_drips(quota, span)), None);
    }

    /// A step back of up to a minute only delays: content goes down by exactly the time that has to
    /// pass again.
    #[test]
    fn steps_back_that_are_believed_take_away_what_they_undo(
        quota in prop_oneof![token_bucket().prop_map(|rated| rated.quota), leaky_bucket()], moves in program(1..100),
        backs in backs(MAX_CLOCK_STEP.get()), start in start(),
    ) {
        let mut model = Model::new(quota);
        let mut latest = 0;
        run_back_and_forth(quota, &moves, &backs, start, |now, cost, outcome| {
            latest = latest.max(now);
            if latest - now > MAX_CLOCK_STEP.get() {
                return Ok(false);
            }
            prop_assert_eq!(outcome, model.decide(cost, now), "at {}", now);
            Ok(true)
        })?;
    }
}

/// The same stored instant, one clock a nanosecond too far back to be believed.
#[test]
fn a_step_back_is_believed_up_to_a_minute_and_repaired_beyond() {
    let bucket = Quota::per_second(10).burst(10);
    let spent_at = Timestamp::from_nanos(1_000 * Nanos::SECOND.get());
    let empty = algorithm::decide(None, bucket.into(), 10, spent_at)
        .next
        .apply(None);
    let ask = |back: u64| {
        let now = Timestamp::from_nanos(spent_at.as_nanos() - back);
        let step = algorithm::decide(empty, bucket.into(), 1, now);
        (step.outcome.retry_after(), step.next.apply(empty) != empty)
    };
    let unit = Nanos::from_millis(100);
    let believed = MAX_CLOCK_STEP.get();
    assert_eq!(
        ask(believed),
        (Some(Nanos::new(believed + unit.get())), false),
        "blocked until the clock catches up"
    );
    assert_eq!(
        ask(believed + 1),
        (Some(unit), true),
        "taken as empty and written"
    );
}

/// For each step, how far the clock goes back before it, if it does.
fn backs(max: u64) -> impl Strategy<Value = Vec<Option<u64>>> {
    proptest::collection::vec(proptest::option::weighted(0.3, log(max)), 100)
}

/// Admissions, with the sum of all forward moves so far for a time, on a clock that ticks once per
/// `tick`.
fn by_forward_time(
    quota: Quota,
    moves: &[ProgramStep],
    backs: &[Option<u64>],
    start: u64,
    tick: Nanos,
) -> Vec<Admission> {
    let (mut forward, mut last_now) = (0, start / tick.get());
    let mut admitted = Vec::new();
    let kept = run_back_and_forth(quota, moves, backs, start, |now, cost, outcome| {
        let now = now / tick.get();
        forward += now.saturating_sub(last_now);
        last_now = now;
        if outcome.is_allowed() && cost > 0 {
            admitted.push(Admission { at: forward, cost });
        }
        Ok(forward <= END)
    });
    kept.expect("looking finds no fault");
    admitted
}

/// Runs a program whose clock also goes back, for as long as `look` wants.
fn run_back_and_forth(
    quota: Quota,
    moves: &[ProgramStep],
    backs: &[Option<u64>],
    start: u64,
    mut look: impl FnMut(u64, u64, Outcome) -> Result<bool, TestCaseError>,
) -> Result<(), TestCaseError> {
    let (mut state, mut now, mut last) = (None, start, None);
    for (step, back) in moves.iter().zip(backs) {
        now = match back {
            Some(back) => now.saturating_sub(*back),
            None => now + step.wait(quota, last),
        };
        let cost = step.cost(quota);
        let decided = algorithm::decide(state, quota, cost, Timestamp::from_nanos(now));
        state = decided.next.apply(state);
        last = Some(decided.outcome);
        if now > END || !look(now, cost, decided.outcome)? {
            break;
        }
    }
    Ok(())
}
