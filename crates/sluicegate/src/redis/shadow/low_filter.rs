//! A small filter that tells where a search for a denying observation is worth its cost.
//!
//! Most requests are on counters with plenty left. For them a search in the large table would be a
//! cache miss without use. The filter is 64 KiB and stays in the cache: one byte for each group
//! of counters says when one of the group was last seen too low.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use sluicegate_core::Timestamp;

/// For each group of counters, when one of them was last seen too low for another charge.
///
/// It may err in both directions: a mark that is missing costs a call, and one too many costs a
/// search. So relaxed stores of a coarse time are enough.
pub(super) struct LowCounterFilter {
    /// One byte per group: the second of the last mark, modulo 256.
    marked: Box<[AtomicU8]>,
}

impl LowCounterFilter {
    /// Groups of counters; a power of two.
    const GROUPS: usize = 1 << 16;

    pub(super) fn new() -> Self {
        Self {
            marked: (0..Self::GROUPS).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    /// Marks the group of a counter that is too low for another charge.
    pub(super) fn mark(&self, hash: u64, now: Timestamp) {
        self.group_of(hash).store(second(now), Relaxed);
    }

    /// Returns true when the group was marked within the last two or three seconds. The seconds are
    /// kept modulo 256, so an old mark also answers true about once in a hundred times.
    #[inline]
    pub(super) fn may_be_low(&self, hash: u64, now: Timestamp) -> bool {
        second(now).wrapping_sub(self.group_of(hash).load(Relaxed)) <= 2
    }

    #[inline]
    fn group_of(&self, hash: u64) -> &AtomicU8 {
        // Other bits than those that choose a set of the table.
        &self.marked[(hash >> 32) as usize % Self::GROUPS]
    }
}

/// The time in units of 2^30 ns, a little more than a second, modulo 256.
#[inline]
fn second(instant: Timestamp) -> u8 {
    (instant.as_nanos() >> 30) as u8
}

#[cfg(test)]
mod tests {
    use sluicegate_core::Nanos;

    use super::super::LIFE;
    use super::*;

    #[test]
    fn a_mark_lasts_as_long_as_an_observation_may_deny_and_not_much_longer() {
        let filter = LowCounterFilter::new();
        for start in (0..300).map(|start| Timestamp::from_millis(1_000_000_000 + start * 1_001)) {
            filter.mark(7 << 32, start);
            assert!(
                filter.may_be_low(7 << 32, start) && filter.may_be_low(7 << 32, start.after(LIFE))
            );
            assert!(!filter.may_be_low(7 << 32, start.after(Nanos::from_secs(4))));
            assert!(
                filter.may_be_low(7 << 32 | 1, start),
                "another counter of the group"
            );
        }
        let other = (0..300)
            .filter(|second| filter.may_be_low(8 << 32, Timestamp::from_millis(second * 1_074)))
            .count();
        assert!(other < 10, "another group: {other} of 300");
    }
}
