//! Buckets that drain in whole drips: the leaky bucket, the fixed window, and limits too slow for
//! the token bucket.
//!
//! The idea: the level of the bucket falls by `drip` units every interval, and a charge passes when
//! it fits on top of the level. As in the token bucket, time is stored instead of the level: `end`,
//! the instant of the drip that empties the bucket. The drips still to fall are `ceil((end − now) /
//! interval)`, and the level follows from their number, except that the last drip may find fewer
//! units than it could take. That difference is the *slack*, and it has to be stored too.
//!
//! The invariant: `level = drips · drip − slack` with `0 ≤ slack < drip`, and `level ≤ size` after
//! every admission. So at most `size + drip − 1 + w · drip / interval` units pass in a span `w`.
//! A fixed window is the same bucket with `drip = size`, whose drips fall on multiples of the
//! interval since the epoch.
//!
//! It is not simpler because drips of several units are discrete: no formula in time alone knows
//! how full the last drip is. With drips of one unit the slack is always zero, and this is a token
//! bucket that counts in milliseconds.
//!
//! End and slack are packed into one [`Timestamp`], `end_ms · 10^6 + slack`, which is the end in
//! nanoseconds but for a fraction of a millisecond. So every store keeps one number for either
//! algorithm, and may treat it as the instant from which the entry is of no more use.

use crate::algorithm::{MAX_CLOCK_STEP, Next, Step, UNITS_MAX, nanos_to};
use crate::decision::Outcome;
use crate::quota::DripBucket;
use crate::time::{Nanos, Timestamp};

/// Decides one charge against the packed end of the bucket.
#[inline(never)]
pub fn decide(
    packed: Option<Timestamp>,
    bucket: DripBucket,
    cost: u64,
    now: Timestamp,
) -> Step<Timestamp> {
    let now_ms = now.as_millis();
    let level = Level::read(packed, bucket, now_ms);
    let remaining = bucket.size.saturating_sub(level.units);
    let reset_after = nanos_to(level.reset_ms(now_ms), now);

    if cost > bucket.size {
        return Step::same(Outcome::TooLarge {
            remaining,
            reset_after,
        });
    }
    if cost == 0 {
        return Step::same(Outcome::Allowed {
            remaining,
            reset_after,
        });
    }
    if level.units + cost > bucket.size {
        // Enough drips must fall to make room; the last of them falls at `passes_at_ms`.
        let drips_needed = (level.units + cost - bucket.size).div_ceil(bucket.drip);
        let passes_at_ms = level.end_ms - (level.drips - drips_needed) * bucket.interval_ms;
        let retry_after = nanos_to(passes_at_ms - now_ms, now);
        let next = if level.repaired {
            Next::Set(pack(level.end_ms, level.slack))
        } else {
            Next::Same
        };
        return Step {
            next,
            outcome: Outcome::Denied {
                remaining,
                retry_after,
                reset_after,
            },
        };
    }
    let (end_ms, slack) = level.raised(bucket, cost, now_ms);
    Step {
        next: Next::Set(pack(end_ms, slack)),
        outcome: Outcome::Allowed {
            remaining: remaining - cost,
            reset_after: nanos_to(end_ms - now_ms, now),
        },
    }
}

/// Gives back `cost` units drawn `age` ago, less what has drained since then.
///
/// A fixed window gives back the units that the window they were drawn in still holds. A leaky
/// bucket measures the drained part by time, `drip` units per interval, and not by the drips that
/// fell: without the charge, the drips might have fallen later.
pub fn refund(
    packed: Option<Timestamp>,
    bucket: DripBucket,
    cost: u64,
    age: Nanos,
    now: Timestamp,
) -> Step<Timestamp> {
    let now_ms = now.as_millis();
    let level = Level::read(packed, bucket, now_ms);
    let drawn_ms = now.before(age).as_millis();
    let refund = match bucket.aligned {
        true => Refund::from_windows(&level, bucket, cost, drawn_ms, now_ms),
        false => Refund::from_time(&level, bucket, cost, now_ms - drawn_ms, now_ms),
    };
    let units = level.units.saturating_sub(refund.units);
    if units == 0 {
        return Step {
            next: Next::Clear,
            outcome: Outcome::Allowed {
                remaining: bucket.size,
                reset_after: Nanos::ZERO,
            },
        };
    }
    let drips = units.div_ceil(bucket.drip);
    let end_ms = level.end_ms - (level.drips - drips) * bucket.interval_ms - refund.early_ms;
    let end = pack(end_ms, drips * bucket.drip - units);
    let remaining = bucket
        .size
        .saturating_sub(Level::read(Some(end), bucket, now_ms).units);
    Step {
        next: Next::Set(end),
        outcome: Outcome::Allowed {
            remaining,
            reset_after: nanos_to(end_ms - now_ms, now),
        },
    }
}

/// The later of two packed ends. Ends within one interval of each other get the smaller slack: with
/// it the bucket is never emptier than either.
pub fn later(one: Timestamp, other: Timestamp, bucket: DripBucket) -> Timestamp {
    let [(early_ms, early_slack), (late_ms, late_slack)] = {
        let mut ends = [unpack(one), unpack(other)];
        ends.sort_unstable();
        ends
    };
    let is_same_drip = late_ms - early_ms < bucket.interval_ms;
    pack(
        late_ms,
        if is_same_drip {
            late_slack.min(early_slack)
        } else {
            late_slack
        },
    )
}

/// The level of a bucket that loses `drip` units every interval.
pub(super) fn units_owed(
    packed: Option<Timestamp>,
    interval_ms: u64,
    drip: u64,
    now: Timestamp,
) -> u64 {
    level_of_any_size(packed, interval_ms, drip, now.as_millis()).1
}

/// The time until the level of a bucket that loses `drip` units every interval is no more than
/// `units`.
pub(super) fn wait_for(
    packed: Option<Timestamp>,
    interval_ms: u64,
    drip: u64,
    units: u64,
    now: Timestamp,
) -> Nanos {
    let now_ms = now.as_millis();
    let (drips, level) = level_of_any_size(packed, interval_ms, drip, now_ms);
    if level <= units {
        return Nanos::ZERO;
    }
    let end_ms = packed.map_or(now_ms, |packed| unpack(packed).0);
    let drips_needed = (level - units).div_ceil(drip).min(drips);
    let wait_ms = end_ms - now_ms - (drips - drips_needed) * interval_ms;
    nanos_to(wait_ms, now)
}

/// The packed end of a bucket that was empty until it took `units`, at most its size, just now.
pub(super) fn owing(units: u64, bucket: DripBucket, now: Timestamp) -> Timestamp {
    let now_ms = now.as_millis();
    let (end_ms, slack) = Level::read(None, bucket, now_ms).raised(bucket, units, now_ms);
    pack(end_ms, slack)
}

/// Drips that must still fall, and the level of a state whose size is not known: any end is
/// believed, and the level is at most what Lua holds.
fn level_of_any_size(
    packed: Option<Timestamp>,
    interval_ms: u64,
    drip: u64,
    now_ms: u64,
) -> (u64, u64) {
    let Some((end_ms, slack)) = packed.map(unpack).filter(|(end_ms, _)| *end_ms > now_ms) else {
        return (0, 0);
    };
    let slack = if slack >= drip { 0 } else { slack };
    let drips = (end_ms - now_ms).div_ceil(interval_ms);
    let level = u128::from(drips) * u128::from(drip) - u128::from(slack);
    (drips, level.min(u128::from(UNITS_MAX)) as u64)
}

/// The worth of a refund, less the part that has drained by itself.
struct Refund {
    /// Units that come off the level.
    units: u64,
    /// Milliseconds by which every later drip falls earlier: the rest of a unit that has drained
    /// in part.
    early_ms: u64,
}

impl Refund {
    /// The worth in a fixed window: each edge since the charge has emptied the window.
    fn from_windows(
        level: &Level,
        bucket: DripBucket,
        cost: u64,
        drawn_ms: u64,
        now_ms: u64,
    ) -> Self {
        let phase = level.end_ms % bucket.interval_ms;
        let drips_by = |at_ms: u64| at_ms.saturating_sub(phase) / bucket.interval_ms;
        let drips_since = drips_by(now_ms) - drips_by(drawn_ms);
        Self {
            units: cost.saturating_sub(drips_since.saturating_mul(bucket.drip)),
            early_ms: 0,
        }
    }

    /// The worth in a leaky bucket of a charge that is `age_ms` old.
    fn from_time(level: &Level, bucket: DripBucket, cost: u64, age_ms: u64, now_ms: u64) -> Self {
        if age_ms == 0 {
            return Self {
                units: cost,
                early_ms: 0,
            };
        }
        let (drip, interval_ms) = (u128::from(bucket.drip), u128::from(bucket.interval_ms));
        let drained = (u128::from(age_ms) * drip).div_ceil(interval_ms);
        if drained > u128::from(cost) {
            return Self {
                units: 0,
                early_ms: 0,
            };
        }
        // The level, as if it fell evenly, is no more than the refund is worth: all of it was this
        // charge.
        let since_drawn_ms = u128::from(level.end_ms - now_ms) + u128::from(age_ms);
        if since_drawn_ms * drip <= (u128::from(cost) + u128::from(level.slack)) * interval_ms {
            return Self {
                units: level.units,
                early_ms: 0,
            };
        }
        // No overflow: drained is at most cost, and its time exceeds the age by less than an
        // interval.
        let early_ms = (drained * interval_ms / drip - u128::from(age_ms)) as u64;
        Self {
            units: cost - drained as u64,
            early_ms,
        }
    }
}

/// The level of a bucket at one instant.
struct Level {
    /// Units in the bucket; may exceed a size that was lowered.
    units: u64,
    /// Drips that must still fall until the bucket is empty.
    drips: u64,
    /// When the last of these drips falls, in milliseconds since the epoch; now when it is empty.
    end_ms: u64,
    /// Units that the last drip could take beyond those that are left; below the drip size.
    slack: u64,
    /// The stored end was too far ahead to be true; the level is that of a full bucket and must be
    /// written.
    repaired: bool,
}

impl Level {
    /// The level that a packed end stands for; an end in the past is an empty bucket.
    fn read(packed: Option<Timestamp>, bucket: DripBucket, now_ms: u64) -> Self {
        let empty = Self {
            units: 0,
            drips: 0,
            end_ms: now_ms,
            slack: 0,
            repaired: false,
        };
        let Some((end_ms, slack)) = packed.map(unpack) else {
            return empty;
        };
        if end_ms <= now_ms {
            return empty;
        }
        let drips_when_full = bucket.drips_when_full();
        let drain_ms = drips_when_full * bucket.interval_ms;
        if end_ms - now_ms > drain_ms + MAX_CLOCK_STEP.get() / Nanos::MILLISECOND.get() {
            return Self {
                units: bucket.size,
                drips: drips_when_full,
                end_ms: now_ms + drain_ms,
                slack: drips_when_full * bucket.drip - bucket.size,
                repaired: true,
            };
        }
        // A slack of a whole drip or more was left by a larger drip size: reading it as none never
        // admits too much.
        let slack = if slack >= bucket.drip { 0 } else { slack };
        let drips = (end_ms - now_ms).div_ceil(bucket.interval_ms);
        Self {
            units: drips * bucket.drip - slack,
            drips,
            end_ms,
            slack,
            repaired: false,
        }
    }

    /// Milliseconds until the bucket is empty.
    fn reset_ms(&self, now_ms: u64) -> u64 {
        self.end_ms - now_ms
    }

    /// End and slack after `cost` more units: first they fill the slack of the last drip, then they
    /// add drips.
    fn raised(&self, bucket: DripBucket, cost: u64, now_ms: u64) -> (u64, u64) {
        if self.units == 0 {
            let start_ms = if bucket.aligned {
                now_ms - now_ms % bucket.interval_ms
            } else {
                now_ms
            };
            let drips = cost.div_ceil(bucket.drip);
            return (
                start_ms + drips * bucket.interval_ms,
                drips * bucket.drip - cost,
            );
        }
        let drips = cost.saturating_sub(self.slack).div_ceil(bucket.drip);
        (
            self.end_ms + drips * bucket.interval_ms,
            self.slack + drips * bucket.drip - cost,
        )
    }
}

/// Units of slack per millisecond of end.
const SLACKS: u64 = 1_000_000;

/// One number for end and slack, saturating in the year 2554.
fn pack(end_ms: u64, slack: u64) -> Timestamp {
    Timestamp::from_nanos(end_ms.saturating_mul(SLACKS).saturating_add(slack))
}

/// End in milliseconds, and slack in units.
fn unpack(packed: Timestamp) -> (u64, u64) {
    (packed.as_nanos() / SLACKS, packed.as_nanos() % SLACKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quota;

    fn bucket(size: u64, drip_rate_ms: u64, drip_size: u64) -> DripBucket {
        match Quota::leaky_bucket(size, Nanos::from_millis(drip_rate_ms), drip_size).unwrap() {
            Quota::Drip(bucket) => bucket,
            other => panic!("not a drip bucket: {other:?}"),
        }
    }

    fn admitted(bucket: DripBucket, times_ms: impl Iterator<Item = u64>) -> u64 {
        let mut state = None;
        times_ms
            .filter(|at| {
                let step = decide(state, bucket, 1, Timestamp::from_millis(*at));
                state = step.next.apply(state);
                step.outcome.is_allowed()
            })
            .count() as u64
    }

    #[test]
    fn an_idle_bucket_of_ten_passes_ten_of_a_flood() {
        let bucket = bucket(10, 1_000, 1);
        assert_eq!(
            admitted(
                bucket,
                std::iter::once(0).chain(std::iter::repeat_n(9_000, 50))
            ),
            11
        );
        assert_eq!(admitted(bucket, std::iter::repeat_n(9_000, 50)), 10);
    }

    #[test]
    fn size_10_with_2_a_second_at_20_a_second_passes_130_in_a_minute() {
        let passed = admitted(bucket(10, 1_000, 2), (0..60_000).step_by(50));
        assert!((128..=130).contains(&passed), "{passed} passed");
    }

    #[test]
    fn a_refund_gives_back_no_drip_twice() {
        let bucket = bucket(10, 1_000, 2);
        let drawn = decide(None, bucket, 10, Timestamp::from_millis(0))
            .next
            .apply(None);
        let at = Timestamp::from_millis(2_500);
        let step = refund(drawn, bucket, 6, Nanos::from_millis(2_500), at);
        assert_eq!(
            step.outcome.remaining(),
            4 + 1,
            "the time of five units of the six has passed"
        );
        let administrative = refund(drawn, bucket, 5, Nanos::ZERO, at);
        assert_eq!(administrative.outcome.remaining(), 9);
    }

    #[test]
    fn a_refund_keeps_the_phase_of_the_drips() {
        let bucket = bucket(10, 1_000, 2);
        let drawn = decide(None, bucket, 10, Timestamp::from_millis(300))
            .next
            .apply(None);
        let back = refund(drawn, bucket, 3, Nanos::ZERO, Timestamp::from_millis(400))
            .next
            .apply(drawn);
        let before = decide(back, bucket, 5, Timestamp::from_millis(1_299));
        let after = decide(back, bucket, 5, Timestamp::from_millis(1_300));
        assert_eq!(before.outcome.retry_after(), Some(Nanos::MILLISECOND));
        assert!(after.outcome.is_allowed());
    }
}
