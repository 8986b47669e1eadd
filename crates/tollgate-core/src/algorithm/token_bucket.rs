//! The token bucket, which is GCRA: one instant per key, the time at which the bucket is full again.

use crate::algorithm::{MAX_CLOCK_STEP, Next, Step};
use crate::decision::Outcome;
use crate::quota::TokenBucket;
use crate::time::{Nanos, Timestamp};

/// Decides one charge against `full_at`, the instant at which the bucket is full again.
#[inline]
pub fn decide(full_at: Option<Timestamp>, bucket: TokenBucket, cost: u64, now: Timestamp) -> Step<Timestamp> {
    let Debt { debt, repaired } = Debt::read(full_at, bucket, now);
    let reset_after = Nanos::new(debt);

    if cost > bucket.burst {
        return Step::same(Outcome::TooLarge { remaining: remaining(bucket, debt), reset_after });
    }
    if cost == 0 {
        return Step::same(Outcome::Allowed { remaining: remaining(bucket, debt), reset_after });
    }
    // No overflow: cost ≤ burst, and burst · interval and the believed debt are far below 2^63.
    let debt_after = debt + cost * bucket.interval;
    if debt_after > bucket.tolerance {
        let retry_after = Nanos::new(debt_after - bucket.tolerance);
        let next = if repaired { Next::Set(now.after(reset_after)) } else { Next::Same };
        return Step {
            next,
            outcome: Outcome::Denied { remaining: remaining(bucket, debt), retry_after, reset_after },
        };
    }
    let reset_after = Nanos::new(debt_after);
    Step {
        next: Next::Set(now.after(reset_after)),
        outcome: Outcome::Allowed { remaining: remaining(bucket, debt_after), reset_after },
    }
}

/// Gives back `cost` units drawn `age` ago: what has already flowed back since then is not given twice.
pub fn refund(
    full_at: Option<Timestamp>,
    bucket: TokenBucket,
    cost: u64,
    age: Nanos,
    now: Timestamp,
) -> Step<Timestamp> {
    let Debt { debt, .. } = Debt::read(full_at, bucket, now);
    let worth = cost.saturating_mul(bucket.interval).saturating_sub(age.get());
    let debt_after = debt.saturating_sub(worth);
    let reset_after = Nanos::new(debt_after);
    Step {
        next: if debt_after == 0 { Next::Clear } else { Next::Set(now.after(reset_after)) },
        outcome: Outcome::Allowed { remaining: remaining(bucket, debt_after), reset_after },
    }
}

/// The time the bucket still needs to be full.
struct Debt {
    debt: u64,
    /// The stored instant was too far ahead to be true; the debt is that of an empty bucket and must be written.
    repaired: bool,
}

impl Debt {
    #[inline]
    fn read(full_at: Option<Timestamp>, bucket: TokenBucket, now: Timestamp) -> Self {
        // A stored time in the past means that the caller is idle: the bucket is full.
        let debt = full_at.map_or(0, |full_at| full_at.since(now).get());
        if debt > bucket.tolerance + MAX_CLOCK_STEP.get() {
            return Self { debt: bucket.tolerance, repaired: true };
        }
        Self { debt, repaired: false }
    }
}

/// Whole units that fit between the debt and an empty bucket. The debt is not clamped: it may exceed a lowered burst.
#[inline]
fn remaining(bucket: TokenBucket, debt: u64) -> u64 {
    bucket.tolerance.saturating_sub(debt) / bucket.interval
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;

    const AT: fn(u64) -> Timestamp = Timestamp::from_nanos;

    #[test]
    fn three_pass_at_one_instant_and_the_fourth_does_not() {
        let bucket = Quota::per_second(1).burst(3);
        let mut state = None;
        let mut admitted = 0;
        for _ in 0..4 {
            let step = decide(state, bucket, 1, AT(0));
            admitted += u64::from(step.outcome.is_allowed());
            state = step.next.apply(state);
        }
        assert_eq!(admitted, 3);
    }

    #[test]
    fn the_next_unit_comes_at_exactly_one_second() {
        let bucket = Quota::per_second(1).burst(1);
        let state = decide(None, bucket, 1, AT(0)).next.apply(None);
        assert!(!decide(state, bucket, 1, AT(999_999_000)).outcome.is_allowed());
        assert!(!decide(state, bucket, 1, AT(999_999_999)).outcome.is_allowed());
        assert!(decide(state, bucket, 1, AT(1_000_000_000)).outcome.is_allowed());
    }

    #[test]
    fn denied_charges_leave_the_counter_unchanged() {
        let bucket = Quota::per_second(1).burst(1);
        let state = decide(None, bucket, 1, AT(0)).next.apply(None);
        for at in 1..1_000 {
            assert_eq!(decide(state, bucket, 1, AT(at)).next, Next::Same);
        }
    }

    #[test]
    fn a_client_that_polls_every_100_us_still_refills() {
        let bucket = Quota::per_second(10).burst(1);
        let mut state = None;
        let mut admitted = 0;
        for tick in 0..=10_000 {
            let step = decide(state, bucket, 1, AT(tick * 100_000));
            admitted += u64::from(step.outcome.is_allowed());
            state = step.next.apply(state);
        }
        assert_eq!(admitted, 11, "one at once and ten over the second");
    }
}
