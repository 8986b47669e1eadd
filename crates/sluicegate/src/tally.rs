//! A counter that many threads add to without slowing each other down.
//!
//! Denials from memory are counted here millions of times a second. One shared atomic would move
//! its cache line between cores for each of them.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A sum in shards: each thread adds to its own shard, and a reader adds up all of them.
///
/// **Invariant:** each shard below [`OWNED`] is written by one thread only, ever. So a load and a
/// store are enough there, which cost a fraction of an atomic addition.
#[derive(Default)]
pub(crate) struct Tally {
    shards: [CounterShard; SHARDS],
}

/// One shard, in a cache line of its own.
#[repr(align(64))]
#[derive(Default)]
struct CounterShard(AtomicU64);

/// The first threads each own a shard; later threads share the rest and add atomically.
const OWNED: usize = 16;
const SHARDS: usize = OWNED + 8;

thread_local! {
    /// Index of this thread's shard; `usize::MAX` before its first addition.
    static OWN_SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Tally {
    /// Adds to the shard of this thread.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        let shard = own_shard();
        let CounterShard(sum) = &self.shards[shard];
        if shard < OWNED {
            sum.store(
                sum.load(Ordering::Relaxed).wrapping_add(count),
                Ordering::Relaxed,
            );
        } else {
            sum.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The sum so far. Additions at the same time may or may not be in it.
    pub(crate) fn sum(&self) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard.0.load(Ordering::Relaxed))
            .sum()
    }
}

#[inline]
fn own_shard() -> usize {
    let shard = OWN_SHARD.get();
    if shard < SHARDS {
        shard
    } else {
        choose_shard()
    }
}

#[cold]
fn choose_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let shard = shard_of(NEXT.fetch_add(1, Ordering::Relaxed));
    OWN_SHARD.set(shard);
    shard
}

/// Index of the shard for a thread that came after `earlier` others.
fn shard_of(earlier: usize) -> usize {
    if earlier < OWNED {
        earlier
    } else {
        OWNED + earlier % (SHARDS - OWNED)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn later_threads_never_write_to_an_owned_shard() {
        assert!((0..OWNED).all(|earlier| shard_of(earlier) == earlier));
        assert!((OWNED..1_000).all(|earlier| (OWNED..SHARDS).contains(&shard_of(earlier))));
    }

    #[test]
    fn nothing_is_lost_however_many_add() {
        const EACH: u64 = 20_000;
        const THREADS: usize = 2 * SHARDS;
        let (tally, together) = (Tally::default(), Barrier::new(THREADS));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    together.wait();
                    (0..EACH).for_each(|_| tally.add(2));
                });
            }
        });
        assert_eq!(tally.sum(), THREADS as u64 * EACH * 2);
    }
}
