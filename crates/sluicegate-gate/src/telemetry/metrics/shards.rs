//! Counts that several threads add to without waiting for each other.
//!
//! Every request adds to a handful of counts. If all threads added to the same ones, each addition
//! would fetch a cache line from another core, which takes longer than everything else about it. So a
//! count has a few shards in lines of their own; a thread adds to one of them, and a scrape adds them
//! up.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use prometheus_client::metrics::counter;

/// Shards of a count. With more threads than this some share a shard, which is slower and as exact.
const SHARDS: usize = 4;

/// A counter of this crate: one of the metrics library, in shards.
pub(super) type Counter = counter::Counter<u64, ShardedSum>;

/// A value for each shard.
#[derive(Debug, Default)]
pub(super) struct Shards<T>([OwnLine<T>; SHARDS]);

/// A value that shares its cache lines with no other. Processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OwnLine<T>(T);

impl<T> Shards<T> {
    /// The shard of this thread.
    pub(super) fn own(&self) -> &T {
        &self.0[own_shard() % SHARDS].0
    }

    /// All shards.
    pub(super) fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }
}

/// A sum in shards.
#[derive(Debug, Default)]
pub(super) struct ShardedSum(Shards<AtomicU64>);

impl counter::Atomic<u64> for ShardedSum {
    fn inc(&self) -> u64 {
        self.inc_by(1)
    }

    /// Returns the part of the sum that this thread's shard had; nobody asks for it.
    fn inc_by(&self, count: u64) -> u64 {
        self.0.own().fetch_add(count, Ordering::Relaxed)
    }

    fn get(&self) -> u64 {
        let shards = self.0.all();
        shards.map(|shard| shard.load(Ordering::Relaxed)).sum()
    }
}

/// The number of this thread among those that have counted something.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    match OWN.get() {
        usize::MAX => {
            let own = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
            OWN.set(own);
            own
        }
        own => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_threads_add_is_in_the_sum() {
        let counter = Counter::default();
        std::thread::scope(|scope| {
            for _ in 0..3 * SHARDS {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counter.inc();
                    }
                });
            }
        });
        assert_eq!(counter.get(), 3_000 * SHARDS as u64);
    }

    #[test]
    fn as_many_threads_as_shards_add_to_lines_of_their_own() {
        let shards = Shards::<AtomicU64>::default();
        let own = |shards: &Shards<AtomicU64>| std::ptr::from_ref(shards.own()) as usize;
        // All at the same time, so that no two of them have the number of one that ended.
        let mut places: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..SHARDS).map(|_| scope.spawn(|| own(&shards))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        places.sort_unstable();
        // Another test may take a number in between, so two of ours may meet.
        places.dedup();
        assert!(places.len() > 1, "one shard for all");
        assert!(
            places.windows(2).all(|two| two[1] - two[0] >= 128),
            "{places:?}"
        );
    }
}
