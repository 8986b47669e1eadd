//! What the table cannot hold: sliding windows, slow quotas, and keys that found their window full.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use foldhash::fast::RandomState;
use sluicegate_core::algorithm::State;
use sluicegate_core::{Nanos, Timestamp};

/// How many keys the side maps of one kind hold together, and may hold.
#[derive(Debug)]
pub(super) struct SharedCapacity {
    taken: AtomicUsize,
    capacity: usize,
}

impl SharedCapacity {
    pub(super) fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: AtomicUsize::new(0),
            capacity,
        })
    }

    fn is_left(&self) -> bool {
        self.taken.load(Relaxed) < self.capacity
    }
}

/// A bounded map from hash to state, one per stripe and always used under its lock.
#[derive(Debug)]
pub(super) struct SideMap {
    places: HashMap<u64, usize, RandomState>,
    entries: Vec<SideEntry>,
    capacity_left: Arc<SharedCapacity>,
    next_sweep: Timestamp,
    /// No entry is full before then.
    earliest_full: Timestamp,
    random: u64,
}

#[derive(Clone, Copy, Debug)]
struct SideEntry {
    hash: u64,
    state: State,
    lifetime: EntryLifetime,
}

/// What would be lost with an entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryLifetime {
    /// From then on the counter is full, and the entry of no more use.
    pub(super) full_at: Timestamp,
    /// Of several that must go, the earliest goes. All sliding windows end alike, so there it depends on what was spent.
    pub(super) eviction_rank: Timestamp,
}

impl SideMap {
    pub(super) fn new(capacity_left: &Arc<SharedCapacity>, seed: u64) -> Self {
        Self {
            places: HashMap::default(),
            entries: Vec::new(),
            capacity_left: Arc::clone(capacity_left),
            next_sweep: Timestamp::default(),
            earliest_full: Timestamp::from_nanos(u64::MAX),
            random: seed | 1,
        }
    }

    pub(super) fn get(&self, hash: u64) -> Option<State> {
        self.places
            .get(&hash)
            .map(|place| self.entries[*place].state)
    }

    pub(super) fn remove(&mut self, hash: u64) {
        let Some(place) = self.places.remove(&hash) else {
            return;
        };
        self.entries.swap_remove(place);
        self.capacity_left.taken.fetch_sub(1, Relaxed);
        if let Some(moved) = self.entries.get(place) {
            self.places.insert(moved.hash, place);
        }
    }

    /// Whether a new key fits without pushing out a live one.
    pub(super) fn has_room(&mut self, now: Timestamp) -> bool {
        if !self.capacity_left.is_left() && now >= self.earliest_full {
            self.sweep(now);
        }
        self.capacity_left.is_left()
    }

    /// Stores a state; at capacity the nearest to full of eight goes.
    pub(super) fn put(&mut self, hash: u64, state: State, lifetime: EntryLifetime, now: Timestamp) {
        let entry = SideEntry {
            hash,
            state,
            lifetime,
        };
        self.earliest_full = self.earliest_full.min(lifetime.full_at);
        if let Some(place) = self.places.get(&hash) {
            self.entries[*place] = entry;
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
        self.places.insert(hash, self.entries.len());
        self.entries.push(entry);
        self.capacity_left.taken.fetch_add(1, Relaxed);
    }

    /// Removes what is full again, when it has not been done for a while.
    pub(super) fn sweep_if_due(&mut self, now: Timestamp, interval: Nanos) {
        if now >= self.next_sweep && !self.entries.is_empty() {
            self.sweep(now);
            self.next_sweep = now.after(interval);
        }
    }

    pub(super) fn sweep(&mut self, now: Timestamp) {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.lifetime.full_at > now);
        self.capacity_left
            .taken
            .fetch_sub(before - self.entries.len(), Relaxed);
        self.earliest_full = self
            .entries
            .iter()
            .map(|entry| entry.lifetime.full_at)
            .min()
            .unwrap_or(Timestamp::from_nanos(u64::MAX));
        self.places.clear();
        self.places.extend(
            self.entries
                .iter()
                .enumerate()
                .map(|(place, entry)| (entry.hash, place)),
        );
    }

    pub(super) fn live(&self, now: Timestamp) -> usize {
        self.entries
            .iter()
            .filter(|entry| entry.lifetime.full_at > now)
            .count()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<SideEntry>()
            + self.places.capacity() * (size_of::<(u64, usize)>() + 1)
    }

    fn random_entry(&mut self) -> SideEntry {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.entries[(self.random % self.entries.len() as u64) as usize]
    }
}
