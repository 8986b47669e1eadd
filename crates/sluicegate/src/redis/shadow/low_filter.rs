//! Marks: where it is worth looking for a sight that denies.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use sluicegate_core::Timestamp;

/// For each of many groups of counters, when one of them was last seen with too little for the next charge.
///
/// Most requests are of counters that have plenty. They need not touch the large memory in which the sights lie. A mark
/// that is missing costs a call, and one too many costs a search.
pub(super) struct LowCounterFilter {
    seconds: Box<[AtomicU8]>,
}

impl LowCounterFilter {
    const GROUPS: usize = 1 << 16;

    pub(super) fn new() -> Self {
        Self {
            seconds: (0..Self::GROUPS).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    pub(super) fn set(&self, hash: u64, now: Timestamp) {
        self.of(hash).store(second(now), Relaxed);
    }

    /// Whether there was one within the last two seconds; also about once in a hundred times when there was none.
    #[inline]
    pub(super) fn is_set(&self, hash: u64, now: Timestamp) -> bool {
        second(now).wrapping_sub(self.of(hash).load(Relaxed)) <= 2
    }

    #[inline]
    fn of(&self, hash: u64) -> &AtomicU8 {
        // Not the bits that choose a set.
        &self.seconds[(hash >> 32) as usize % Self::GROUPS]
    }
}

/// Seconds of a little more than that, which go round.
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
    fn a_mark_lasts_as_long_as_a_sight_may_deny_and_not_much_longer() {
        let marks = LowCounterFilter::new();
        for start in (0..300).map(|start| Timestamp::from_millis(1_000_000_000 + start * 1_001)) {
            marks.set(7 << 32, start);
            assert!(marks.is_set(7 << 32, start) && marks.is_set(7 << 32, start.after(LIFE)));
            assert!(!marks.is_set(7 << 32, start.after(Nanos::from_secs(4))));
            assert!(marks.is_set(7 << 32 | 1, start), "of the same group");
        }
        let other = (0..300)
            .filter(|second| marks.is_set(8 << 32, Timestamp::from_millis(second * 1_074)))
            .count();
        assert!(other < 10, "of another group: {other} of 300");
    }
}
