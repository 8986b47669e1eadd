//! The token bucket, which is GCRA: one instant per key, the time at which the bucket is full
//! again.
//!
//! The idea: instead of the number of units in the bucket, store `full_at`, the instant at which it
//! will be full if nobody spends. The time from now to then is the *debt*. A full bucket has no
//! debt, an empty one owes `tolerance = burst · interval`, and a unit that is taken adds one
//! `interval`. Time pays the debt back by passing, so nothing has to be refilled and an idle key
//! needs no state.
//!
//! The invariant: the debt after an admission is at most the tolerance. A charge of `cost` passes
//! exactly when `debt + cost · interval ≤ tolerance`; hence no span of length `w` admits more than
//! `burst + w / interval` units, and `retry_after` is exact to the nanosecond.
//!
//! It is not simpler because of three edges. A debt may exceed the tolerance without being wrong
//! (the burst was lowered, or the clock went back a little): it is kept, for clamping it would
//! forgive units or make `retry_after` false. A debt beyond the tolerance and [`MAX_CLOCK_STEP`] is
//! not believed: it is taken as that of an empty bucket and rewritten. And the common path has no
//! division and no 128-bit number, because every request takes it.

use std::num::NonZeroU32;

use crate::algorithm::{MAX_CLOCK_STEP, Next, Step, UNITS_MAX};
use crate::decision::Outcome;
use crate::quota::TokenBucket;
use crate::time::{Nanos, Timestamp};

/// Decides one charge against `full_at`, the instant at which the bucket is full again.
#[inline(always)]
pub fn decide(
    full_at: Option<Timestamp>,
    bucket: TokenBucket,
    cost: u64,
    now: Timestamp,
) -> Step<Timestamp> {
    // A stored time in the past means that the caller is idle: the bucket is full.
    let debt = full_at.map_or(Nanos::ZERO, |full_at| full_at.since(now));
    decide_debt(debt, &bucket, cost).map(|debt| now.after(debt))
}

/// Decides one charge against the debt: the time that the bucket still needs to be full.
///
/// For stores that keep the debt itself, and for every other caller through [`decide`].
#[inline(always)]
pub fn decide_debt(debt: Nanos, bucket: &TokenBucket, cost: u64) -> Step<Nanos> {
    match take_debt(debt, bucket, cost) {
        Some(Taken {
            remaining,
            reset_after,
        }) => Step {
            next: Next::Set(reset_after),
            outcome: Outcome::Allowed {
                remaining,
                reset_after,
            },
        },
        None => decide_untaken(debt, bucket, cost),
    }
}

/// A charge that fits: what it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Units left for an immediate next charge.
    pub remaining: u64,
    /// The debt after the charge.
    pub reset_after: Nanos,
}

/// The part of [`decide_debt`] for a charge that takes something and fits; `None` for every other.
#[inline(always)]
pub fn take_debt(debt: Nanos, bucket: &TokenBucket, cost: u64) -> Option<Taken> {
    // One comparison for 1 ≤ cost ≤ burst: a cost of 0 wraps to the largest number.
    let fits_some_time = cost.wrapping_sub(1) < bucket.burst;
    if !fits_some_time {
        return None;
    }
    // No overflow: cost ≤ burst, and burst · interval is at most 2^52.
    let time_needed = cost * bucket.interval;
    let time_left = bucket.tolerance.checked_sub(debt.get())?;
    let time_left = time_left.checked_sub(time_needed)?;
    Some(Taken {
        remaining: bucket.units_in(time_left),
        reset_after: Nanos::new(debt.get() + time_needed),
    })
}

/// The rest of [`decide_debt`]: a charge that takes nothing, or does not fit.
#[inline]
fn decide_untaken(debt: Nanos, bucket: &TokenBucket, cost: u64) -> Step<Nanos> {
    if cost == 0 || cost > bucket.burst {
        return peek_or_too_large(debt, bucket, cost);
    }
    deny(debt, bucket, cost)
}

/// The answer to a cost of 0, which is a peek, or to one that no wait makes fit.
#[inline(never)]
fn peek_or_too_large(debt: Nanos, bucket: &TokenBucket, cost: u64) -> Step<Nanos> {
    let Debt { debt, .. } = Debt::believe(debt, bucket);
    let (remaining, reset_after) = (remaining(bucket, debt), Nanos::new(debt));
    Step::same(match cost {
        0 => Outcome::Allowed {
            remaining,
            reset_after,
        },
        _ => Outcome::TooLarge {
            remaining,
            reset_after,
        },
    })
}

/// The answer to a charge that does not fit now. Writes only to repair a stored instant.
#[inline]
fn deny(debt: Nanos, bucket: &TokenBucket, cost: u64) -> Step<Nanos> {
    let Debt { debt, repaired } = Debt::believe(debt, bucket);
    let reset_after = Nanos::new(debt);
    // Positive: the charge was refused because the debt with it exceeds the tolerance.
    let retry_after = Nanos::new(debt + cost * bucket.interval - bucket.tolerance);
    Step {
        next: if repaired {
            Next::Set(reset_after)
        } else {
            Next::Same
        },
        outcome: Outcome::Denied {
            remaining: remaining(bucket, debt),
            retry_after,
            reset_after,
        },
    }
}

/// Gives back `cost` units drawn `age` ago: the part that has come back by itself since then is not
/// given twice.
pub fn refund(
    full_at: Option<Timestamp>,
    bucket: TokenBucket,
    cost: u64,
    age: Nanos,
    now: Timestamp,
) -> Step<Timestamp> {
    let Debt { debt, .. } = Debt::read(full_at, &bucket, now);
    let worth = cost
        .saturating_mul(bucket.interval)
        .saturating_sub(age.get());
    let debt_after = debt.saturating_sub(worth);
    let reset_after = Nanos::new(debt_after);
    Step {
        next: if debt_after == 0 {
            Next::Clear
        } else {
            Next::Set(now.after(reset_after))
        },
        outcome: Outcome::Allowed {
            remaining: remaining(&bucket, debt_after),
            reset_after,
        },
    }
}

/// Hands out up to `want` units at once, for a replica to spend on its own.
///
/// Takes at most `share` of the units that are left, so that other replicas find some too, but
/// never less than `need`, the requests that wait already, and never less than one unit. A lease of
/// zero units says how long to wait for one.
pub fn lease(
    full_at: Option<Timestamp>,
    bucket: TokenBucket,
    want: u64,
    need: u64,
    share: Share,
    now: Timestamp,
) -> Lease {
    let Debt { debt, .. } = Debt::read(full_at, &bucket, now);
    let available = remaining(&bucket, debt);
    let granted = want
        .min(available)
        .min(share.of(available).max(need).max(1));
    // With nothing to grant, the answer is that to a charge of one unit: how long to wait for it.
    Lease {
        granted,
        step: decide(full_at, bucket, granted.max(1).min(want), now),
    }
}

/// Units that a bucket owes which gains one every `interval`: the debt in units, rounded up.
pub(super) fn units_owed(full_at: Option<Timestamp>, interval: u64, now: Timestamp) -> u64 {
    debt_of_any_size(full_at, now).div_ceil(interval)
}

/// The time until a bucket that gains one unit every `interval` owes no more than `units`.
pub(super) fn wait_for(
    full_at: Option<Timestamp>,
    interval: u64,
    units: u64,
    now: Timestamp,
) -> Nanos {
    let debt = debt_of_any_size(full_at, now);
    Nanos::new(debt.saturating_sub(units.saturating_mul(interval)))
}

/// The instant at which a bucket that owes `units`, at most its burst, is full again.
///
/// `full_at` is the state at the old pace that the units were counted from. Of the unit that is
/// just flowing back, the part that has come back already is kept, in 1024ths rounded down: two
/// replicas that convert a counter to and fro would otherwise never let that unit come back.
pub(super) fn owing(
    units: u64,
    bucket: TokenBucket,
    before: Option<(Timestamp, u64)>,
    now: Timestamp,
) -> Timestamp {
    const PARTS: u64 = 1_024;
    let parts_back = before.map_or(0, |(full_at, old_interval)| {
        let debt = debt_of_any_size(Some(full_at), now);
        let back = (old_interval - debt % old_interval) % old_interval;
        back / old_interval.div_ceil(PARTS)
    });
    // No overflow: the units are at most the burst, and burst · interval is at most 2^52.
    let debt = units * bucket.interval - parts_back * (bucket.interval / PARTS);
    now.after(Nanos::new(debt))
}

/// The debt of a state whose burst is not known: any size is believed, up to what Lua holds.
fn debt_of_any_size(full_at: Option<Timestamp>, now: Timestamp) -> u64 {
    let debt = full_at.map_or(Nanos::ZERO, |full_at| full_at.since(now));
    debt.get().min(UNITS_MAX)
}

/// The part of the remaining units that one lease may take: `num / den`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Parts that the lease takes.
    pub num: u32,
    /// Parts that make the whole.
    pub den: NonZeroU32,
}

impl Share {
    /// Half of what is left.
    pub const HALF: Self = Self {
        num: 1,
        den: NonZeroU32::MIN.saturating_add(1),
    };

    /// The share of `available` units, rounded down.
    fn of(self, available: u64) -> u64 {
        let part = u128::from(available) * u128::from(self.num) / u128::from(self.den.get());
        u64::try_from(part).unwrap_or(u64::MAX)
    }
}

/// Units handed out, and the outcome of a charge of as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Units that the replica may spend now; 0 when nothing is left.
    pub granted: u64,
    /// The state to store, and the units that remain for the others.
    pub step: Step<Timestamp>,
}

/// The time the bucket still needs to be full, as far as it is believed.
struct Debt {
    /// Nanoseconds.
    debt: u64,
    /// The stored instant was too far ahead to be true; the debt is that of an empty bucket and
    /// must be written.
    repaired: bool,
}

impl Debt {
    /// The debt of a stored instant; one in the past means that the bucket is full.
    fn read(full_at: Option<Timestamp>, bucket: &TokenBucket, now: Timestamp) -> Self {
        Self::believe(
            full_at.map_or(Nanos::ZERO, |full_at| full_at.since(now)),
            bucket,
        )
    }

    /// Replaces a debt that no clock step of believable size explains by that of an empty bucket.
    fn believe(debt: Nanos, bucket: &TokenBucket) -> Self {
        if debt.get() > bucket.tolerance + MAX_CLOCK_STEP.get() {
            return Self {
                debt: bucket.tolerance,
                repaired: true,
            };
        }
        Self {
            debt: debt.get(),
            repaired: false,
        }
    }
}

/// Whole units that fit between the debt and an empty bucket; none when the debt exceeds a lowered
/// burst.
fn remaining(bucket: &TokenBucket, debt: u64) -> u64 {
    bucket.units_in(bucket.tolerance.saturating_sub(debt))
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
        assert!(
            !decide(state, bucket, 1, AT(999_999_000))
                .outcome
                .is_allowed()
        );
        assert!(
            !decide(state, bucket, 1, AT(999_999_999))
                .outcome
                .is_allowed()
        );
        assert!(
            decide(state, bucket, 1, AT(1_000_000_000))
                .outcome
                .is_allowed()
        );
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
