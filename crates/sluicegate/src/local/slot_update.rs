//! The change of one slot without a lock: read its word, compute, and swap it in if nobody was
//! quicker.

use sluicegate_core::algorithm::{Next, Step, token_bucket};
use sluicegate_core::{Nanos, Outcome, Timestamp, TokenBucket};

use super::slot_word::SlotWord;
use super::table::TableSlot;

/// Runs `step` on the word of a key's slot and stores the result, again until no other thread has
/// changed the word in between. `None` when the slot is another key's by now, or when the step is:
/// then nothing is stored.
///
/// Even a step that writes nothing is confirmed: its answer must be true at one instant, not of a
/// word that was replaced while it was computed.
#[inline(always)]
pub(super) fn update_slot(
    slot: &TableSlot,
    hash: u64,
    now: Timestamp,
    step: impl Fn(SlotWord) -> Option<Step<Timestamp>>,
) -> Option<Outcome> {
    let mut word = slot.read(hash)?;
    loop {
        let Step { next, outcome } = step(word)?;
        let stored = match next {
            Next::Same => slot.still_holds(word),
            Next::Set(instant) => slot.advance(word, word.with(instant)),
            Next::Clear => slot.advance(word, word.cleared(now)),
        };
        if stored {
            return Some(outcome);
        }
        step_aside();
        word = slot.read(hash)?;
    }
}

/// A change of a slot that was computed and not stored yet.
pub(super) struct SlotChange<'a> {
    slot: &'a TableSlot,
    word: SlotWord,
    next: SlotWord,
}

impl<'a> SlotChange<'a> {
    /// The change from the word that was read to another of the same key.
    #[inline(always)]
    pub(super) fn new(slot: &'a TableSlot, word: SlotWord, next: SlotWord) -> Self {
        Self { slot, word, next }
    }

    /// Stores it; false when the slot has changed since its word was read.
    #[inline(always)]
    pub(super) fn store(&self) -> bool {
        self.slot.advance(self.word, self.next)
    }

    /// The instant that the slot held before.
    #[inline(always)]
    pub(super) fn before(&self, now: Timestamp) -> Timestamp {
        self.word.instant(now)
    }
}

/// Waits a third of a microsecond, in which the quicker core does several decisions with the cache
/// line it has: passing the line to and fro for every one of them costs both twice as much.
#[cold]
fn step_aside() {
    for _ in 0..16 {
        std::hint::spin_loop();
    }
}

/// Decides a token bucket from the word of its slot, without the general form of a state.
#[inline(always)]
pub(super) fn decide_word(
    word: SlotWord,
    bucket: &TokenBucket,
    cost: u64,
    now: Timestamp,
) -> Step<Timestamp> {
    // Wrapping, because a slot keeps instants modulo 2^58 anyway.
    let instant = |debt: Nanos| Timestamp::from_nanos(now.as_nanos().wrapping_add(debt.get()));
    token_bucket::decide_debt(word.debt(now), bucket, cost).map(instant)
}
