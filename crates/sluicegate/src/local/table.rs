//! The table of counters: fixed memory, found and charged without a lock.
//!
//! The idea: open addressing over cache lines. Each line has four slots, each slot the 64-bit hash
//! of a key and one [`SlotWord`]. A key lives in one of the four lines that begin where its hash
//! points (its window), so a search touches one cache line nearly always and four at most. Keys
//! are compared by their hash alone: the hash is seeded per store, so two callers share a counter
//! once in 2^63 pairs, and nobody outside can arrange it.
//!
//! **Invariant:** a key is put into a slot only by the holder of its stripe's lock
//! (`counters.rs`), after a look at its whole window. So a key is in at most one slot.
//!
//! **Invariant:** a slot that was never used ends every search. A new key gets the first such slot
//! of its window, and a slot that was used once is never again as if it were not: when its key is
//! taken out it is marked [`ABANDONED`]. So behind a slot that was never used there is nothing to
//! find.
//!
//! **Invariant:** hash and word of a slot change together only under the word's lock bit, and every
//! such change begins another generation. So a compare-and-swap on the word succeeds only if the
//! slot still belongs to the key that it was read for.
//!
//! Why it is not simpler: a map behind a lock, even one of many, makes every request write to the
//! lock's cache line, and threads wait for that line though they charge different keys. A map also
//! grows with the keys that callers invent. Here a decision writes one line, its own, and a flood
//! of keys only replaces keys.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use sluicegate_core::{Nanos, Timestamp};

use super::slot_word::SlotWord;
use crate::sync::AtomicU64;

/// All slots, in cache lines.
pub(super) struct CounterTable {
    lines: Box<[SlotLine]>,
    /// Lines at which a window can start: all but the last `WINDOW - 1`.
    homes: usize,
}

/// Slots that are read together.
#[repr(align(64))]
struct SlotLine([TableSlot; SLOTS]);

/// Slots in a cache line. The model checker explores every interleaving, so it gets the smallest
/// table that can be full.
const SLOTS: usize = if cfg!(sluicegate_loom) { 1 } else { 4 };
/// Lines in the window of a key.
const WINDOW: usize = if cfg!(sluicegate_loom) { 1 } else { 4 };

impl CounterTable {
    /// A table of which at most three quarters are used when `max_keys` are live: fuller ones find
    /// too many windows full.
    pub(super) fn new(max_keys: usize) -> Self {
        let slots = max_keys.div_ceil(3).saturating_mul(4);
        let homes = if cfg!(sluicegate_loom) {
            1
        } else {
            slots.div_ceil(SLOTS).max(1)
        };
        let lines = (0..homes + WINDOW - 1)
            .map(|_| SlotLine(std::array::from_fn(|_| TableSlot::vacant())))
            .collect();
        Self { lines, homes }
    }

    /// The `max_keys` of the largest table with no more than so many slots.
    pub(super) fn keys_in(slots: usize) -> usize {
        (slots / SLOTS).saturating_sub(WINDOW - 1) * 3
    }

    /// The number of slots.
    #[cfg(test)]
    pub(super) fn places(&self) -> usize {
        self.lines.len() * SLOTS
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// The slot that holds `hash`. It may be given to another key at any moment, so everything that
    /// is read from it is checked against `hash` ([`TableSlot::read`]).
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Option<&TableSlot> {
        let home = self.home(hash);
        match self.lines[home].find(hash) {
            LineSearch::Found(slot) => Some(slot),
            LineSearch::Absent => None,
            LineSearch::Full => self.find_beyond(home, hash),
        }
    }

    /// The rest of the window; not inlined, because few keys live there.
    #[inline(never)]
    fn find_beyond(&self, home: usize, hash: u64) -> Option<&TableSlot> {
        for line in &self.lines[home + 1..home + WINDOW] {
            match line.find(hash) {
                LineSearch::Found(slot) => return Some(slot),
                LineSearch::Absent => return None,
                LineSearch::Full => {}
            }
        }
        None
    }

    /// The slot of the window that a new key may have at the least loss: one never used, else the
    /// one that has been full for longest, else the one nearest to full. `None` when every slot is
    /// just being given to another key.
    pub(super) fn find_candidate(&self, hash: u64, now: Timestamp) -> Option<SlotCandidate<'_>> {
        let mut best: Option<(i64, SlotCandidate<'_>)> = None;
        for slot in self.window(hash).iter().flat_map(|line| &line.0) {
            let word = SlotWord::from_bits(slot.word.load(Acquire));
            if slot.hash.load(Acquire) == VACANT {
                return Some(SlotCandidate {
                    slot,
                    word,
                    debt: Nanos::ZERO,
                });
            }
            let ahead = word.ahead(now);
            if !word.is_locked() && best.as_ref().is_none_or(|(least, _)| ahead < *least) {
                best = Some((
                    ahead,
                    SlotCandidate {
                        slot,
                        word,
                        debt: word.debt(now),
                    },
                ));
            }
        }
        best.map(|(_, candidate)| candidate)
    }

    /// Removes a key and returns the instant that it held. The caller holds the lock of the key's
    /// stripe, so the key does not come back meanwhile.
    pub(super) fn take_out(&self, hash: u64, now: Timestamp) -> Option<Timestamp> {
        loop {
            let slot = self.find(hash)?;
            let word = slot.read(hash)?;
            if slot.abandon(word, now) {
                return Some(word.instant(now));
            }
        }
    }

    /// Keys that are not full now. Reads every slot.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        let slots = self.lines.iter().flat_map(|line| &line.0);
        slots.filter(|slot| slot.is_live(now)).count()
    }

    fn window(&self, hash: u64) -> &[SlotLine] {
        let home = self.home(hash);
        &self.lines[home..home + WINDOW]
    }

    /// The line at which the window of `hash` starts.
    ///
    /// The hash as a fraction of 2^64, times the number of homes: evenly spread like a remainder,
    /// without its division and for any number of homes.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.homes as u128) >> 64) as usize
    }
}

/// The result of looking for a key in one line.
enum LineSearch<'a> {
    Found(&'a TableSlot),
    /// Not in this line, and nothing was ever put behind it.
    Absent,
    /// Not in this line; the search goes on.
    Full,
}

impl SlotLine {
    #[inline(always)]
    fn find(&self, hash: u64) -> LineSearch<'_> {
        // The slot cannot be predicted, so all four are compared without a branch.
        let hashes: [u64; SLOTS] = std::array::from_fn(|slot| self.0[slot].hash.load(Acquire));
        let bits = |wanted: u64| {
            (0..SLOTS).fold(0, |bits, slot| {
                bits | usize::from(hashes[slot] == wanted) << slot
            })
        };
        let found = bits(hash);
        if found != 0 {
            return LineSearch::Found(&self.0[found.trailing_zeros() as usize % SLOTS]);
        }
        if bits(VACANT) != 0 {
            LineSearch::Absent
        } else {
            LineSearch::Full
        }
    }
}

/// A slot that a new key may have, as it was when it was found.
pub(super) struct SlotCandidate<'a> {
    slot: &'a TableSlot,
    word: SlotWord,
    /// The debt that would be forgiven with its present key; zero when nothing is lost.
    pub(super) debt: Nanos,
}

impl SlotCandidate<'_> {
    /// Gives the slot to another key; `false` when it has changed since it was found.
    pub(super) fn give_to(&self, hash: u64, state: Timestamp) -> bool {
        self.slot.give_to(self.word, hash, state)
    }
}

/// One counter: the hash of its key and its state.
pub(super) struct TableSlot {
    /// A [`stored_hash`], [`VACANT`] or [`ABANDONED`]. Written only under the lock bit of `word`.
    hash: AtomicU64,
    /// The bits of a [`SlotWord`]. Written by every charge of the key, without a lock.
    word: AtomicU64,
}

/// In place of a hash: the slot was never used.
const VACANT: u64 = 0;

/// In place of a hash: the slot was used and has no key. Searches go on behind it.
const ABANDONED: u64 = 2;

/// A key's hash as it is stored: odd, so that it is neither [`VACANT`] nor [`ABANDONED`].
#[inline(always)]
pub(super) fn stored_hash(hash: u64) -> u64 {
    hash | 1
}

impl TableSlot {
    fn vacant() -> Self {
        Self {
            hash: AtomicU64::new(VACANT),
            word: AtomicU64::new(0),
        }
    }

    /// The word that the slot holds for `hash`; `None` when the slot is being given, or was given,
    /// to another key.
    ///
    /// The word is loaded first: if it was written for a later key, the hash that is loaded after
    /// it is that key's or a later one. The other way round, a word of an earlier key may be
    /// returned with our hash. That one is stale, and its generation makes every
    /// [`TableSlot::advance`] and [`TableSlot::still_holds`] with it fail.
    #[inline(always)]
    pub(super) fn read(&self, hash: u64) -> Option<SlotWord> {
        let word = SlotWord::from_bits(self.word.load(Acquire));
        let is_ours = self.hash.load(Acquire) == hash && !word.is_locked();
        is_ours.then_some(word)
    }

    /// Returns true when the slot holds `word`, so that an answer computed from it is right now.
    #[inline(always)]
    pub(super) fn still_holds(&self, word: SlotWord) -> bool {
        self.word.load(Acquire) == word.bits()
    }

    /// Writes another state of the same key; `false` when the slot has changed since `word` was
    /// read.
    #[inline(always)]
    pub(super) fn advance(&self, word: SlotWord, next: SlotWord) -> bool {
        self.word
            .compare_exchange(word.bits(), next.bits(), AcqRel, Relaxed)
            .is_ok()
    }

    /// Takes the key out; `false` when the slot has changed since `word` was read.
    pub(super) fn abandon(&self, word: SlotWord, now: Timestamp) -> bool {
        self.give_to(word, ABANDONED, SlotWord::long_before(now))
    }

    /// Gives the slot to another key; `false` when it has changed since `word` was read.
    fn give_to(&self, word: SlotWord, hash: u64, state: Timestamp) -> bool {
        if !self.advance(word, word.locked()) {
            return false;
        }
        // The lock bit keeps every other writer out. A reader that sees either of these stores
        // finds a locked word or the new key.
        self.hash.store(hash, Release);
        self.word.store(word.succeeded_by(state).bits(), Release);
        true
    }

    fn is_live(&self, now: Timestamp) -> bool {
        let word = SlotWord::from_bits(self.word.load(Acquire));
        self.hash.load(Acquire) != VACANT && !word.is_locked() && word.debt(now) > Nanos::ZERO
    }
}
