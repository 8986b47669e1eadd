//! A bounded map beside the table, for counters that no slot can hold: sliding windows, slow
//! quotas, and keys that found their window full of live keys.
//!
//! The idea: a map from hash to index and a dense array of entries, so that a random entry can be
//! picked in constant time. When all maps of one kind together hold as many keys as they may, a new
//! key pushes out the one of eight random entries that is nearest to full. Strict order would need
//! a heap that moves with every charge; one of eight is in the nearest third of all entries 24
//! times in 25, and a caller who has spent everything goes only if all eight have.
//!
//! **Invariant:** `indexes[entries[i].hash] == i` for every entry, and nothing else is in
//! `indexes`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use foldhash::fast::RandomState;
use sluicegate_core::algorithm::State;
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp};

/// The number of keys that the side maps of one kind hold together, and may hold.
///
/// Shared, so that one stripe may hold many keys while others hold few. Two stripes that insert at
/// the same moment may exceed it by a key each: a bound on memory need not be exact.
#[derive(Debug)]
pub(super) struct SharedCapacity {
    /// Keys in all maps; each map adds and subtracts its own.
    taken: AtomicUsize,
    keys_max: usize,
}

impl SharedCapacity {
    pub(super) fn new(keys_max: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: AtomicUsize::new(0),
            keys_max,
        })
    }

    /// Returns true when one more key may be stored.
    fn is_left(&self) -> bool {
        self.taken.load(Relaxed) < self.keys_max
    }
}

/// A bounded map from hash to state, one per stripe and always used under its lock.
#[derive(Debug)]
pub(super) struct SideMap {
    /// The index in `entries` of each hash.
    indexes: HashMap<u64, usize, RandomState>,
    /// In no order: removing swaps the last entry in.
    entries: Vec<SideEntry>,
    capacity: Arc<SharedCapacity>,
    /// Entries that are full are removed no earlier than this.
    next_sweep: Timestamp,
    /// No entry is full before this instant, so a sweep before it would remove nothing. May be
    /// earlier than needed, because removing an entry leaves it.
    earliest_full: Timestamp,
    /// State of the generator in [`SideMap::random_entry`]; never zero.
    random: u64,
}

#[derive(Clone, Copy, Debug)]
struct SideEntry {
    hash: u64,
    state: State,
    lifetime: EntryLifetime,
}

/// How long an entry is of use, and which of several goes first.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryLifetime {
    /// From this instant on the counter is full, and the entry of no more use.
    pub(super) full_at: Timestamp,
    /// The entry with the earliest rank goes first. The same as `full_at`, except for sliding
    /// windows: those of one limit are all full at the same instant, so there the rank depends on
    /// how much was spent.
    pub(super) eviction_rank: Timestamp,
}

impl EntryLifetime {
    /// How long a counter that gave this answer is of use, and how much would be forgiven without
    /// it.
    pub(super) fn of(quota: Quota, outcome: Outcome, now: Timestamp) -> Self {
        let full_at = now.after(outcome.reset_after());
        let eviction_rank = match quota {
            Quota::TokenBucket(_) | Quota::Drip(_) => full_at,
            // The share of the window that was spent: a window with nothing left goes last.
            Quota::SlidingWindow(_) => {
                let spent = quota.limit().saturating_sub(outcome.remaining());
                let share = u128::from(outcome.reset_after().get()) * u128::from(spent)
                    / u128::from(quota.limit());
                now.after(Nanos::new(share as u64))
            }
        };
        Self {
            full_at,
            eviction_rank,
        }
    }
}

impl SideMap {
    pub(super) fn new(capacity: &Arc<SharedCapacity>, seed: u64) -> Self {
        Self {
            indexes: HashMap::default(),
            entries: Vec::new(),
            capacity: Arc::clone(capacity),
            next_sweep: Timestamp::default(),
            earliest_full: Timestamp::from_nanos(u64::MAX),
            random: seed | 1,
        }
    }

    pub(super) fn get(&self, hash: u64) -> Option<State> {
        self.indexes
            .get(&hash)
            .map(|index| self.entries[*index].state)
    }

    pub(super) fn remove(&mut self, hash: u64) {
        let Some(index) = self.indexes.remove(&hash) else {
            return;
        };
        self.entries.swap_remove(index);
        self.capacity.taken.fetch_sub(1, Relaxed);
        if let Some(moved) = self.entries.get(index) {
            self.indexes.insert(moved.hash, index);
        }
    }

    /// Returns true when a new key fits without pushing out a live one.
    pub(super) fn has_room(&mut self, now: Timestamp) -> bool {
        if !self.capacity.is_left() && now >= self.earliest_full {
            self.sweep(now);
        }
        self.capacity.is_left()
    }

    /// Stores a state; at capacity the nearest to full of eight random entries goes.
    pub(super) fn put(&mut self, hash: u64, state: State, lifetime: EntryLifetime, now: Timestamp) {
        let entry = SideEntry {
            hash,
            state,
            lifetime,
        };
        self.earliest_full = self.earliest_full.min(lifetime.full_at);
        if let Some(index) = self.indexes.get(&hash) {
            self.entries[*index] = entry;
            return;
        }
        // An empty stripe may go over by one key: there is nothing in it to push out.
        if !self.has_room(now) && !self.entries.is_empty() {
            let samples = (0..8).map(|_| self.random_entry()).collect::<Vec<_>>();
            if let Some(nearest) = samples
                .iter()
                .min_by_key(|entry| entry.lifetime.eviction_rank)
            {
                self.remove(nearest.hash);
            }
        }
        self.indexes.insert(hash, self.entries.len());
        self.entries.push(entry);
        self.capacity.taken.fetch_add(1, Relaxed);
    }

    /// Removes entries that are full again, if that was not done within the last `interval`.
    pub(super) fn sweep_if_due(&mut self, now: Timestamp, interval: Nanos) {
        if now >= self.next_sweep && !self.entries.is_empty() {
            self.sweep(now);
            self.next_sweep = now.after(interval);
        }
    }

    /// Removes entries that are full again. A full counter equals an absent one, so nothing is
    /// lost.
    pub(super) fn sweep(&mut self, now: Timestamp) {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.lifetime.full_at > now);
        self.capacity
            .taken
            .fetch_sub(before - self.entries.len(), Relaxed);
        self.earliest_full = self
            .entries
            .iter()
            .map(|entry| entry.lifetime.full_at)
            .min()
            .unwrap_or(Timestamp::from_nanos(u64::MAX));
        self.indexes.clear();
        self.indexes.extend(
            self.entries
                .iter()
                .enumerate()
                .map(|(index, entry)| (entry.hash, index)),
        );
    }

    /// Entries that are not full at `now`.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.lifetime.full_at > now)
            .count()
    }

    /// Bytes that array and map have allocated; the map keeps one byte per place beside the pair.
    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<SideEntry>()
            + self.indexes.capacity() * (size_of::<(u64, usize)>() + 1)
    }

    /// An entry picked by a xorshift generator: cheap, and nobody can predict it without the seed.
    fn random_entry(&mut self) -> SideEntry {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.entries[(self.random % self.entries.len() as u64) as usize]
    }
}
