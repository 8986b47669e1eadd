//! Counts that many threads add to.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A sum of which each thread adds to its own part, so that none waits for another's cache.
///
/// **Invariant:** parts below [`OWNED`] are written by one thread each, ever.
#[derive(Default)]
pub(crate) struct Tally {
    parts: [Part; PARTS],
}

#[repr(align(64))]
#[derive(Default)]
struct Part(AtomicU64);

/// The first threads have a part to themselves; those that come later share the rest.
const OWNED: usize = 16;
const PARTS: usize = OWNED + 8;

thread_local! {
    static PART: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Tally {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        let part = own_part();
        let Part(sum) = &self.parts[part];
        if part < OWNED {
            sum.store(
                sum.load(Ordering::Relaxed).wrapping_add(count),
                Ordering::Relaxed,
            );
        } else {
            sum.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.parts
            .iter()
            .map(|part| part.0.load(Ordering::Relaxed))
            .sum()
    }
}

#[inline]
fn own_part() -> usize {
    let part = PART.get();
    if part < PARTS { part } else { choose_part() }
}

#[cold]
fn choose_part() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let part = part_of(NEXT.fetch_add(1, Ordering::Relaxed));
    PART.set(part);
    part
}

/// The part of the thread that came after so many others.
fn part_of(earlier: usize) -> usize {
    if earlier < OWNED {
        earlier
    } else {
        OWNED + earlier % (PARTS - OWNED)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    #[test]
    fn whoever_comes_later_never_writes_to_the_part_of_one_thread() {
        assert!((0..OWNED).all(|earlier| part_of(earlier) == earlier));
        assert!((OWNED..1_000).all(|earlier| (OWNED..PARTS).contains(&part_of(earlier))));
    }

    #[test]
    fn nothing_is_lost_however_many_add() {
        const EACH: u64 = 20_000;
        const THREADS: usize = 2 * PARTS;
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
