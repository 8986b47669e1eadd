//! How much a connection may do before the others of its thread have their turn.
//!
//! A thread serves its connections one after the other. One that has more to do than its turn
//! allows waits for the next one; and the more of them wait, the shorter is each turn. So a new
//! client gets its answer about as soon beside a thousand busy connections as beside ten. A turn
//! that is long saves system calls, which is why it is long as long as nobody suffers.

use std::cell::Cell;

thread_local! {
    /// Connections of this thread that have more to do and wait for their next turn.
    static WAITING: Cell<usize> = const { Cell::new(0) };
}

/// What all connections that wait may do together before the first of them has its next turn.
const ROUND: usize = 32;

/// The turns of one connection, or of one direction of it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_waiting: bool,
    /// Work of this turn so far.
    done: usize,
}

impl Turns {
    /// Counts a piece of work: a request, or a part of a body.
    pub(crate) fn count(&mut self) {
        self.done += 1;
    }

    /// Returns true when so much was done that others come first; at most `most` pieces.
    pub(crate) fn is_over(&self, most: usize) -> bool {
        self.done >= (ROUND / WAITING.get().max(1)).clamp(1, most)
    }

    /// There is more to do, in the next turn.
    pub(crate) fn wait(&mut self) {
        self.done = 0;
        if !std::mem::replace(&mut self.is_waiting, true) {
            WAITING.set(WAITING.get() + 1);
        }
    }

    /// There is nothing to do for now.
    pub(crate) fn rest(&mut self) {
        self.done = 0;
        if std::mem::take(&mut self.is_waiting) {
            // Never below 0 but where a connection ends on another thread than it lived on.
            WAITING.set(WAITING.get().saturating_sub(1));
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        if self.is_waiting {
            // The number may be gone when a thread ends.
            let _ = WAITING.try_with(|waiting| waiting.set(waiting.get().saturating_sub(1)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of work until the turn of a new connection is over.
    fn length(most: usize) -> usize {
        let mut turns = Turns::default();
        while !turns.is_over(most) {
            turns.count();
        }
        turns.done
    }

    #[test]
    fn turns_are_shorter_the_more_connections_wait() {
        assert_eq!(length(8), 8);
        let mut crowd: Vec<Turns> = (0..1_000).map(|_| Turns::default()).collect();
        for (waiting, expected) in [(1, 8), (4, 8), (8, 4), (20, 1), (1_000, 1)] {
            crowd[..waiting].iter_mut().for_each(Turns::wait);
            // Who waits already does not count twice.
            crowd[..waiting].iter_mut().for_each(Turns::wait);
            assert_eq!(length(8), expected, "{waiting} wait");
        }
        crowd[10..].iter_mut().for_each(Turns::rest);
        assert_eq!(length(8), 3);
        drop(crowd);
        assert_eq!(length(8), 8, "who is gone does not wait");
    }
}
