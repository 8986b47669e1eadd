//! Counters by hash: a lock-free table in front of striped side maps.

use std::cell::Cell;

use tollgate_core::algorithm::{self, Next, State, Step};
use tollgate_core::{Nanos, Quota, Timestamp};

use super::LocalOptions;
use super::side::SideMap;
use super::sync::{Mutex, MutexGuard};
use super::table::{Table, storable};
use super::word::Word;

/// All counters of a store, by the hash of their key.
pub(super) struct Counters {
    table: Table,
    stripes: Box<[Mutex<SideMap>]>,
    /// Keys a stripe takes over from full windows of the table.
    overflow: usize,
    sweep_interval: Nanos,
}

impl Counters {
    pub(super) fn new(options: LocalOptions, seed: u64) -> Self {
        const STRIPES_MAX: usize = 256;
        let stripes = (options.max_keys / 64).next_power_of_two().clamp(1, STRIPES_MAX);
        let capacity = options.max_keys.div_ceil(stripes);
        let side = |stripe: usize| Mutex::new(SideMap::new(capacity, seed ^ stripe as u64));
        Self {
            table: Table::new(options.max_keys),
            stripes: (0..stripes).map(side).collect(),
            overflow: capacity.div_ceil(32),
            sweep_interval: options.sweep_interval,
        }
    }

    /// Runs `step` on the state at `hash` and stores what it leaves, as one atomic change.
    ///
    /// `step` may run more than once; only the last run counts.
    #[inline]
    pub(super) fn update(&self, hash: u64, quota: Quota, now: Timestamp, step: impl Fn(Option<State>) -> Step) -> Step {
        let hash = storable(hash);
        if fits_in_table(quota)
            && let Some(done) = self.update_known(hash, now, &step)
        {
            return done;
        }
        self.update_locked(hash, quota, now, &step)
    }

    /// The hot path: the key has a slot.
    #[inline]
    fn update_known(&self, hash: u64, now: Timestamp, step: &impl Fn(Option<State>) -> Step) -> Option<Step> {
        let slot = self.table.find(hash)?;
        loop {
            let word = slot.read(hash)?;
            let done = step(word.instant(now).map(State::Instant));
            let stored = match done.next {
                Next::Same => slot.still_holds(word),
                Next::Set(state) => slot.advance(word, word.with(Some(instant(state)))),
                Next::Clear => slot.advance(word, word.with(None)),
            };
            if stored {
                return Some(done);
            }
            std::hint::spin_loop();
        }
    }

    /// A new key, one in the side map, or one whose slot is changing hands.
    #[cold]
    #[inline(never)]
    fn update_locked(&self, hash: u64, quota: Quota, now: Timestamp, step: &dyn Fn(Option<State>) -> Step) -> Step {
        let mut side = self.stripe(hash);
        side.sweep_if_due(now, self.sweep_interval);
        let in_table = fits_in_table(quota);
        loop {
            if in_table && let Some(done) = self.update_known(hash, now, &|state| step(state)) {
                return done;
            }
            let aside = side.get(hash);
            let done = step(aside);
            let state = match done.next {
                Next::Same => return done,
                Next::Clear => {
                    side.remove(hash);
                    return done;
                }
                Next::Set(state) => state,
            };
            if !in_table || aside.is_some() {
                side.put(hash, state, now.after(done.outcome.reset_after()), now);
                return done;
            }
            match self.table.find_free(hash, now) {
                Some((slot, word)) => {
                    if slot.give_to(word, hash, instant(state)) {
                        return done;
                    }
                }
                None if side.has_room(self.overflow, now) => {
                    side.put(hash, state, now.after(done.outcome.reset_after()), now);
                    return done;
                }
                None => {
                    let nearest = self.table.find_nearest_to_full(hash, now);
                    if nearest.is_some_and(|(slot, word)| slot.give_to(word, hash, instant(state))) {
                        return done;
                    }
                }
            }
            // Another key was quicker: look again.
        }
    }

    /// The state at `hash`.
    pub(super) fn read(&self, hash: u64, quota: Quota, now: Timestamp) -> Option<State> {
        let seen = Cell::new(None);
        self.update(hash, quota, now, |state| {
            seen.set(state);
            algorithm::decide(state, quota, 0, now)
        });
        seen.get()
    }

    /// Forgets a counter.
    pub(super) fn reset(&self, hash: u64) {
        let hash = storable(hash);
        let mut side = self.stripe(hash);
        side.remove(hash);
        while let Some((slot, word)) = self.table.find(hash).and_then(|slot| Some((slot, slot.read(hash)?))) {
            if slot.advance(word, word.with(None)) {
                return;
            }
        }
    }

    /// Removes what is full again from the side maps; the table needs no sweeping.
    pub(super) fn sweep(&self, now: Timestamp) {
        for stripe in &self.stripes {
            lock(stripe).sweep(now);
        }
    }

    pub(super) fn live(&self, now: Timestamp) -> usize {
        self.table.live(now) + self.stripes.iter().map(|stripe| lock(stripe).len()).sum::<usize>()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.stripes.iter().map(|stripe| lock(stripe).memory_bytes()).sum::<usize>()
    }

    fn stripe(&self, hash: u64) -> MutexGuard<'_, SideMap> {
        lock(&self.stripes[hash as usize & (self.stripes.len() - 1)])
    }
}

/// A panic while a stripe was held left its map whole: every change to it is a single call.
fn lock(stripe: &Mutex<SideMap>) -> MutexGuard<'_, SideMap> {
    stripe.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A slot keeps one instant not too far from now.
#[inline]
fn fits_in_table(quota: Quota) -> bool {
    match quota {
        Quota::TokenBucket(_) => true,
        Quota::Drip(_) => quota.window() <= Word::SPAN_MAX,
        Quota::SlidingWindow(_) => false,
    }
}

/// The instant to store; only quotas that keep one get here.
#[inline]
fn instant(state: State) -> Timestamp {
    match state {
        State::Instant(instant) => instant,
        State::Windows(_) => Timestamp::default(),
    }
}
