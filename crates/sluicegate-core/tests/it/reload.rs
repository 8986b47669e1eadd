//! Counters whose quota changes between two charges.

use proptest::prelude::*;
use sluicegate_core::algorithm::{self, MAX_CLOCK_STEP, State};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp, TokenBucket};

use crate::cases::cases;
use crate::history::{Admission, broken_span, state_after};
use crate::program::{END, leaky_bucket, log, program, start, token_bucket};

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

    /// Debt is kept as time, so replicas with the old and the new rate cannot create units for each
    /// other.
    #[test]
    fn a_changed_rate_keeps_the_time_to_full(
        old in token_bucket(), new in token_bucket(), moves in program(1..30), start in start(),
    ) {
        let (state, now) = state_after(old.quota, &moves, start);
        let (before, after) = (peek(state, old.quota, now), peek(state, new.quota, now));
        if is_believed(before, new.quota) {
            prop_assert_eq!(after.reset_after(), before.reset_after());
        }
        prop_assert!(after.remaining() <= new.quota.limit());
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

    /// From the reload on, the bound is that of the new quota, with any state stored before.
    #[test]
    fn after_a_reload_the_new_bound_holds(
        old in token_bucket(), new in token_bucket(), first in program(1..30), then in program(1..100),
        start in start(),
    ) {
        let (mut state, now) = state_after(old.quota, &first, start);
        let (mut now, mut last) = (now.as_nanos(), None);
        let mut admitted = Vec::new();
        for step in &then {
            now += step.wait(new.quota, last);
            if now > END {
                break;
            }
            let cost = step.cost(new.quota);
            let decided = algorithm::decide(state, new.quota, cost, Timestamp::from_nanos(now));
            state = decided.next.apply(state);
            last = Some(decided.outcome);
            if decided.outcome.is_allowed() && cost > 0 {
                admitted.push(Admission { at: now, cost });
            }
        }
        prop_assert_eq!(broken_span(&admitted, |span| new.most(span)), None);
    }
}

/// The slack of a larger drip cannot be distinguished from garbage: it is read as none, which never
/// admits too much.
#[test]
fn a_lowered_drip_size_counts_the_last_drip_as_whole() {
    let leaky = |drip| Quota::leaky_bucket(20, Nanos::SECOND, drip).unwrap();
    let now = Timestamp::from_millis(0);
    let spent = algorithm::decide(None, leaky(10), 11, now).next.apply(None);
    assert_eq!(peek(spent, leaky(10), now).remaining(), 9);
    assert_eq!(
        peek(spent, leaky(3), now).remaining(),
        20 - 2 * 3,
        "two drips of three are still to fall"
    );
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
