//! Fixed memory for many instants: open addressing over cache lines, found without a lock.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use sluicegate_core::{Nanos, Timestamp};

use super::slot_word::SlotWord;
use crate::sync::AtomicU64;

/// Slots in lines of four; a key lives in one of the lines of its window, which starts where its hash points.
///
/// **Invariant:** a key is put into a slot only by the holder of its stripe's lock, after a look at the whole window.
/// So a key is in at most one slot. Reading and charging a known key takes no lock.
///
/// **Invariant:** a slot that was never used ends every window search: nothing was ever put behind it.
pub(super) struct CounterTable {
    lines: Box<[CacheLine]>,
    homes: usize,
}

#[repr(align(64))]
struct CacheLine([TableSlot; SLOTS]);

/// The model checker explores every interleaving, so it gets the smallest table that can be full.
const SLOTS: usize = if cfg!(sluicegate_loom) { 1 } else { 4 };
const WINDOW: usize = if cfg!(sluicegate_loom) { 1 } else { 4 };

impl CounterTable {
    /// FixedTime most three quarters of the slots are used when `max_keys` are live.
    pub(super) fn new(max_keys: usize) -> Self {
        let slots = max_keys.div_ceil(3).saturating_mul(4);
        let homes = if cfg!(sluicegate_loom) {
            1
        } else {
            slots.div_ceil(SLOTS).max(1)
        };
        let lines = (0..homes + WINDOW - 1)
            .map(|_| CacheLine(std::array::from_fn(|_| TableSlot::vacant())))
            .collect();
        Self { lines, homes }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// The slot that holds `hash`.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64) -> Option<&TableSlot> {
        let home = self.home(hash);
        match self.lines[home].find(hash) {
            LineSearch::Found(slot) => Some(slot),
            LineSearch::Absent => None,
            LineSearch::Full => self.find_beyond(home, hash),
        }
    }

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

    /// The slot of the window that a new key may have at the least loss: one never used, else the one that has been
    /// full for longest, else the one nearest to full.
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
        best.map(|(_, place)| place)
    }

    /// Removes a key and says what it held. Under its stripe's lock, so that it does not come back meanwhile.
    pub(super) fn take_out(&self, hash: u64, now: Timestamp) -> Option<Timestamp> {
        loop {
            let slot = self.find(hash)?;
            let word = slot.read(hash)?;
            if slot.give_to(word, ABANDONED, SlotWord::long_before(now)) {
                return Some(word.instant(now));
            }
        }
    }

    /// Keys that are not full now.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        let slots = self.lines.iter().flat_map(|line| &line.0);
        slots.filter(|slot| slot.is_live(now)).count()
    }

    fn window(&self, hash: u64) -> &[CacheLine] {
        let home = self.home(hash);
        &self.lines[home..home + WINDOW]
    }

    /// Where the window of `hash` starts; its last line is there too.
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.homes as u128) >> 64) as usize
    }
}

/// What a line says of a key.
enum LineSearch<'a> {
    Found(&'a TableSlot),
    /// Not in this line, and nothing was ever put behind it.
    Absent,
    /// Not in this line.
    Full,
}

impl CacheLine {
    #[inline(always)]
    fn find(&self, hash: u64) -> LineSearch<'_> {
        // Which slot it is cannot be predicted, so all four are compared without a branch.
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

/// A slot for a new key, and what would be lost with its present one.
pub(super) struct SlotCandidate<'a> {
    slot: &'a TableSlot,
    word: SlotWord,
    /// Zero when nothing is lost.
    pub(super) debt: Nanos,
}

impl SlotCandidate<'_> {
    /// Gives the slot to another key, unless it has changed since it was found.
    pub(super) fn give_to(&self, hash: u64, state: Timestamp) -> bool {
        self.slot.give_to(self.word, hash, state)
    }
}

/// One counter: the hash of its key and its state.
pub(super) struct TableSlot {
    hash: AtomicU64,
    word: AtomicU64,
}

/// The hash of no key.
const VACANT: u64 = 0;

/// The hash of no key, in a slot that was used: searches go on behind it.
const ABANDONED: u64 = 2;

/// A key's hash as it is stored: odd, so never that of a vacant or abandoned slot.
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

    /// What the slot holds for `hash`; `None` when it is being given, or was given, to another key.
    #[inline(always)]
    pub(super) fn read(&self, hash: u64) -> Option<SlotWord> {
        // The word first: if it was written for a later key, the hash that is read after it is that key's or a later one.
        let word = SlotWord::from_bits(self.word.load(Acquire));
        let is_ours = self.hash.load(Acquire) == hash && !word.is_locked();
        is_ours.then_some(word)
    }

    /// Whether the slot still holds `word`: then it held it all the time since it was read.
    #[inline(always)]
    pub(super) fn still_holds(&self, word: SlotWord) -> bool {
        self.word.load(Acquire) == word.bits()
    }

    /// Writes another state of the same key, unless the slot has changed since `word` was read.
    #[inline(always)]
    pub(super) fn advance(&self, word: SlotWord, next: SlotWord) -> bool {
        self.word
            .compare_exchange(word.bits(), next.bits(), AcqRel, Relaxed)
            .is_ok()
    }

    fn give_to(&self, word: SlotWord, hash: u64, state: Timestamp) -> bool {
        if !self.advance(word, word.locked()) {
            return false;
        }
        // The lock keeps every other writer out; readers that see either store find a locked word or the new key.
        self.hash.store(hash, Release);
        self.word.store(word.succeeded_by(state).bits(), Release);
        true
    }

    fn is_live(&self, now: Timestamp) -> bool {
        let word = SlotWord::from_bits(self.word.load(Acquire));
        self.hash.load(Acquire) != VACANT && !word.is_locked() && word.debt(now) > Nanos::ZERO
    }
}
