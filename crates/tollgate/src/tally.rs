//! Counts that many threads add to.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A sum of which each thread adds to its own part, so that none waits for another's cache.
#[derive(Default)]
pub(crate) struct Tally {
    parts: [Part; PARTS],
}

#[repr(align(64))]
#[derive(Default)]
struct Part(AtomicU64);

/// Threads beyond so many share parts.
const PARTS: usize = 16;

thread_local! {
    static PART: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Tally {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.parts[own_part()].0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn sum(&self) -> u64 {
        self.parts.iter().map(|part| part.0.load(Ordering::Relaxed)).sum()
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
    let part = NEXT.fetch_add(1, Ordering::Relaxed) % PARTS;
    PART.set(part);
    part
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn nothing_is_lost_however_many_add() {
        let tally = Tally::default();
        thread::scope(|scope| {
            for _ in 0..2 * PARTS {
                scope.spawn(|| (0..1_000).for_each(|_| tally.add(2)));
            }
        });
        assert_eq!(tally.sum(), 2 * PARTS as u64 * 2_000);
    }
}
