//! What a slot of the table holds beside a key's hash: one instant and the slot's generation, in 64 bits.

use sluicegate_core::{Nanos, Timestamp};

/// A lock bit and five bits of generation above 58 bits of time.
///
/// The time is an instant modulo 2^58 ns, read as the one nearest to now, so it is exact within 4.5 years of now in
/// both directions. The generation changes whenever the slot gets another key: a decision that was held up between
/// reading and writing a slot cannot charge the key that took it over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotWord(u64);

impl SlotWord {
    const TIME_BITS: u32 = 58;
    const TIME_MASK: u64 = (1 << Self::TIME_BITS) - 1;
    const LOCK: u64 = 1 << 63;
    const GENERATION: u64 = !(Self::TIME_MASK | Self::LOCK);

    /// Instants that lie this far from now still read as themselves, with years to spare.
    pub(super) const SPAN_MAX: Nanos = Nanos::new(1 << 56);

    pub(super) fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    /// Whether the slot is getting another key.
    #[inline(always)]
    pub(super) fn is_locked(self) -> bool {
        self.0 & Self::LOCK != 0
    }

    /// The stored instant.
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

    /// The same key with another state.
    #[inline(always)]
    pub(super) fn with(self, instant: Timestamp) -> Self {
        Self(self.0 & !Self::TIME_MASK | instant.as_nanos() & Self::TIME_MASK)
    }

    /// The same key with a full counter.
    pub(super) fn cleared(self, now: Timestamp) -> Self {
        self.with(Self::long_before(now))
    }

    /// An instant so long ago that no clock step brings it back; not a true time where the clock is near the epoch.
    pub(super) fn long_before(now: Timestamp) -> Timestamp {
        Timestamp::from_nanos(now.as_nanos().wrapping_sub(Self::SPAN_MAX.get()))
    }

    /// Held for another key; nobody else writes the slot until it is released by [`SlotWord::succeeded_by`].
    pub(super) fn locked(self) -> Self {
        Self(self.0 | Self::LOCK)
    }

    /// Another key's state in the next generation.
    pub(super) fn succeeded_by(self, instant: Timestamp) -> Self {
        let generation = self.0.wrapping_add(1 << Self::TIME_BITS) & Self::GENERATION;
        Self(generation).with(instant)
    }

    /// Nanoseconds from now to the stored instant, negative in the past.
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
