//! One line that says how far a run has come, for people who watch it.

use std::io::{IsTerminal, Write, stderr};
use std::time::Instant;

/// Counts steps. Silent unless standard error is a terminal.
pub struct Progress {
    started: Instant,
    done: usize,
    total: usize,
    is_shown: bool,
}

impl Progress {
    pub fn new(total: usize) -> Self {
        Self {
            started: Instant::now(),
            done: 0,
            total,
            is_shown: stderr().is_terminal(),
        }
    }

    /// Begins a step; the one before is done.
    pub fn step(&mut self, what: &str) {
        self.done += 1;
        if self.is_shown {
            let seconds = self.started.elapsed().as_secs();
            // A terminal that went away is no reason to stop measuring.
            let _ = write!(
                stderr(),
                "\r\x1b[K[{}/{}, {seconds} s] {what}",
                self.done,
                self.total
            );
        }
    }

    /// Clears the line.
    pub fn finish(self) {
        if self.is_shown {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
