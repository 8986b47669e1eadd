//! The word of a slot: one instant and the slot's generation, in 64 bits.
//!
//! ```text
//!  63   62..58      57..0
//! ┌────┬───────────┬──────────────────────────────────────────────────────────┐
//! │lock│ generation│ instant at which the counter is full, modulo 2^58 ns     │
//! └────┴───────────┴──────────────────────────────────────────────────────────┘
//! ```
//!
//! The idea: everything that one decision reads and writes is in one word, so a decision is one
//! load and one compare-and-swap. For that, the instant must leave room for two things that a
//! plain timestamp has not:
//!
//! - The **generation** changes whenever the slot gets another key. A decision that was held up
//!   between its load and its compare-and-swap then fails, although the successor may by chance
//!   hold the same instant: it cannot charge the key that took the slot over. Five bits are enough,
//!   because it would have to sleep through a multiple of 32 changes and meet the same nanosecond.
//! - The **lock** bit is set while hash and word of a slot are being replaced, the only moment at
//!   which they do not belong together.
//!
//! **Invariant:** an instant within 2^57 ns (4.5 years) of now reads as itself. It is stored modulo
//! 2^58 and read as the one nearest to now; quotas with longer windows are kept elsewhere
//! (`side_map.rs`).

use sluicegate_core::{Nanos, Timestamp};

/// A lock bit and five bits of generation above 58 bits of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotWord(u64);

impl SlotWord {
    const TIME_BITS: u32 = 58;
    const TIME_MASK: u64 = (1 << Self::TIME_BITS) - 1;
    const LOCK: u64 = 1 << 63;
    const GENERATION: u64 = !(Self::TIME_MASK | Self::LOCK);

    /// The longest window a slot may serve, 2.3 years. Instants this far from now still read as
    /// themselves, with as much to spare for a clock that steps back.
    pub(super) const SPAN_MAX: Nanos = Nanos::new(1 << 56);

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// Returns true while the slot is being given to another key.
    #[inline(always)]
    pub(super) fn is_locked(self) -> bool {
        self.0 & Self::LOCK != 0
    }

    /// The stored instant; of all that it may stand for, the one nearest to `now`.
    pub(super) fn instant(self, now: Timestamp) -> Timestamp {
        let ahead = self.ahead(now);
        let span = Nanos::new(ahead.unsigned_abs());
        if ahead >= 0 {
            now.after(span)
        } else {
            now.before(span)
        }
    }

    /// The time until the counter is full; zero when it is.
    #[inline(always)]
    pub(super) fn debt(self, now: Timestamp) -> Nanos {
        Nanos::new(self.ahead(now).max(0).unsigned_abs())
    }

    /// The same key with another instant.
    #[inline(always)]
    pub(super) fn with(self, instant: Timestamp) -> Self {
        Self(self.0 & !Self::TIME_MASK | instant.as_nanos() & Self::TIME_MASK)
    }

    /// The same key with a full counter.
    pub(super) fn cleared(self, now: Timestamp) -> Self {
        self.with(Self::long_before(now))
    }

    /// An instant so long ago that no clock step brings it back. Near the epoch it wraps around,
    /// so it is not a true time there, but still one that reads as long past.
    pub(super) fn long_before(now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.as_nanos().wrapping_sub(Self::SPAN_MAX.get()))
    }

    /// The word while the slot is given to another key. Nobody else writes the slot until the lock
    /// is released by storing [`SlotWord::succeeded_by`].
    pub(super) fn locked(self) -> Self {
        Self(self.0 | Self::LOCK)
    }

    /// The word of the next key in this slot: the next generation, unlocked.
    pub(super) fn succeeded_by(self, instant: Timestamp) -> Self {
        let generation = self.0.wrapping_add(1 << Self::TIME_BITS) & Self::GENERATION;
        Self(generation).with(instant)
    }

    /// Nanoseconds from now to the stored instant, negative in the past.
    ///
    /// Shifting the difference up and back down drops lock and generation and extends the sign, so
    /// the modulus needs no branch.
    #[inline(always)]
    pub(super) fn ahead(self, now: Timestamp) -> i64 {
        const OTHER_BITS: u32 = u64::BITS - SlotWord::TIME_BITS;
        let unsigned = self.0.wrapping_sub(now.as_nanos()) << OTHER_BITS;
        unsigned.cast_signed() >> OTHER_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_nanos(1_800_000_000_000_000_000);

    #[test]
    fn instants_around_now_read_as_themselves() {
        let year = Nanos::from_secs(365 * 86_400);
        for instant in [
            NOW,
            NOW.after(Nanos::new(1)),
            NOW.before(Nanos::new(1)),
            NOW.after(year),
            NOW.before(year),
        ] {
            assert_eq!(SlotWord::from_bits(0).with(instant).instant(NOW), instant);
        }
        let early = Timestamp::from_nanos(5);
        assert_eq!(
            SlotWord::from_bits(0)
                .with(early)
                .instant(Timestamp::from_nanos(0)),
            early
        );
    }

    #[test]
    fn a_cleared_word_is_full_within_years_of_now() {
        let year = Nanos::from_secs(365 * 86_400);
        for (cleared_at, read_at) in [(NOW, NOW), (NOW, NOW.before(year)), (NOW, NOW.after(year))] {
            let word = SlotWord::from_bits(0).cleared(cleared_at);
            assert_eq!((word.debt(read_at), word.is_locked()), (Nanos::ZERO, false));
        }
        assert_eq!(
            SlotWord::from_bits(0)
                .cleared(Timestamp::from_nanos(3))
                .debt(Timestamp::from_nanos(0)),
            Nanos::ZERO
        );
    }

    #[test]
    fn no_instant_reads_as_locked() {
        for instant in [0, 1 << 57, (1 << 58) - 1, 1 << 63, u64::MAX].map(Timestamp::from_nanos) {
            let word = SlotWord::from_bits(0).with(instant);
            assert!(!word.is_locked() && word.locked().is_locked());
            assert_eq!(word.instant(instant), instant);
        }
    }

    #[test]
    fn every_successor_differs_from_what_came_before() {
        let mut word = SlotWord::from_bits(0);
        let mut seen = Vec::new();
        for _ in 0..32 {
            word = word.succeeded_by(NOW);
            assert!(!seen.contains(&word));
            seen.push(word);
            assert_eq!(
                word.locked().succeeded_by(NOW),
                word.succeeded_by(NOW),
                "a new key's word is not locked"
            );
        }
    }
}
