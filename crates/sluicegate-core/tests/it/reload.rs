//! Counters whose limit changes between two charges while their pace stays.

use proptest::prelude::*;
use sluicegate_core::algorithm::{self, MAX_CLOCK_STEP, State};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp, TokenBucket};

use crate::cases::cases;
use crate::history::state_after;
use crate::program::{leaky_bucket, log, program, start, token_bucket};

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_lowered_burst_keeps_the_debt_and_caps_the_units(
        rated in token_bucket(), moves in program(1..30), start in start(), lower in log(1 << 20),
    ) {
        let (state, now) = state_after(rated.quota, &moves, start);
        let Some(lowered) = rebursted(rated.quota, rated.quota.limit().min(lower)) else { return Ok(()) };
        let (before, after) = (peek(state, rated.quota, now), peek(state, lowered, now));
        prop_assert!(after.remaining() <= lowered.limit().min(before.remaining()));
        if is_believed(before, lowered) {
            prop_assert_eq!(after.reset_after(), before.reset_after());
        } else {
            prop_assert_eq!(after.reset_after(), lowered.window(), "not believed: an empty bucket");
        }
    }

    #[test]
    fn a_raised_burst_adds_the_difference_at_once(
        rated in token_bucket(), moves in program(1..30), start in start(), more in log(1 << 20),
    ) {
        let (state, now) = state_after(rated.quota, &moves, start);
        let Some(raised) = rebursted(rated.quota, rated.quota.limit() + more) else { return Ok(()) };
        let (before, after) = (peek(state, rated.quota, now), peek(state, raised, now));
        prop_assert_eq!(after.remaining(), before.remaining() + more);
        prop_assert_eq!(after.reset_after(), before.reset_after());
    }

    #[test]
    fn a_resized_leaky_bucket_keeps_its_level(
        quota in leaky_bucket(), moves in program(1..30), start in start(), size in log(1 << 20),
    ) {
        let (state, now) = state_after(quota, &moves, start);
        let Ok(resized) = quota.resized(size) else { return Ok(()) };
        let (before, after) = (peek(state, quota, now), peek(state, resized, now));
        let level = quota.limit() - before.remaining();
        if is_believed(before, resized) {
            prop_assert_eq!(after.remaining(), size.saturating_sub(level));
            prop_assert_eq!(after.reset_after(), before.reset_after());
        } else {
            prop_assert_eq!(after.remaining(), 0);
        }
    }
}

fn peek(state: Option<State>, quota: Quota, now: Timestamp) -> Outcome {
    algorithm::decide(state, quota, 0, now).outcome
}

/// Returns true when this quota believes a debt that another quota left.
fn is_believed(before: Outcome, quota: Quota) -> bool {
    before.reset_after().get() <= quota.window().get() + MAX_CLOCK_STEP.get()
}

fn rebursted(quota: Quota, burst: u64) -> Option<Quota> {
    let Quota::TokenBucket(bucket) = quota else {
        panic!("not a token bucket: {quota:?}")
    };
    TokenBucket::with_interval(Nanos::new(bucket.interval().get()), burst)
        .ok()
        .map(Quota::from)
}
