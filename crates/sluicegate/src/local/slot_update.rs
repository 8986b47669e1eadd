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

/// The slot of a token bucket's counter.
pub(super) struct BucketSlot<'a> {
    pub(super) slot: &'a TableSlot,
    pub(super) hash: u64,
    pub(super) bucket: &'a TokenBucket,
}

impl<'a> BucketSlot<'a> {
    /// The way to take a charge that fits now; nothing is stored yet. `None` for a charge that does
    /// not fit or takes nothing, and when the slot is another key's by now.
    #[inline(always)]
    pub(super) fn plan(&self, cost: u64, now: Timestamp) -> Option<SlotPlan<'a>> {
        let word = self.slot.read(self.hash)?;
        let taken = token_bucket::take_debt(word.debt(now), self.bucket, cost)?;
        let next = word.with(in_slot(now, taken.reset_after));
        Some(SlotPlan {
            change: SlotChange::new(self.slot, word, next),
            outcome: Outcome::Allowed {
                remaining: taken.remaining,
                reset_after: taken.reset_after,
            },
        })
    }
}

/// A charge that fits, and what takes it.
pub(super) struct SlotPlan<'a> {
    change: SlotChange<'a>,
    /// The answer once it is taken.
    pub(super) outcome: Outcome,
}

impl SlotPlan<'_> {
    /// Takes the charge; false when its counter has changed since.
    #[inline(always)]
    pub(super) fn take(&self) -> bool {
        self.change.store()
    }

    /// The instant that the slot held before.
    pub(super) fn before(&self, now: Timestamp) -> Timestamp {
        self.change.before(now)
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
    token_bucket::decide_debt(word.debt(now), bucket, cost).map(|debt| in_slot(now, debt))
}

/// The instant at which a debt is paid. Wrapping, because a slot keeps instants modulo 2^58 anyway.
#[inline(always)]
fn in_slot(now: Timestamp, debt: Nanos) -> Timestamp {
    Timestamp::from_nanos(now.as_nanos().wrapping_add(debt.get()))
}
