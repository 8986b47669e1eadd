//! Answers to one read that takes several turns.
//!
//! A read can bring more requests than a turn may answer. Their answers leave in one write all the
//! same: a write for each turn would cost more than the turn. They do not wait long, and only while
//! there is little of them.

/// Counts the turns whose answers were not written yet.
#[derive(Debug, Default)]
pub(super) struct HeldAnswers {
    turns: u8,
}

impl HeldAnswers {
    /// Turns for which answers wait.
    const TURNS_MAX: u8 = 4;
    /// Bytes that do not wait.
    const BYTES_MAX: usize = 16 * 1024;

    /// Returns true while answers of earlier turns wait.
    pub(super) fn are_waiting(&self) -> bool {
        self.turns > 0
    }

    /// At the end of a turn: returns true when its answers wait for those of the next one, in which
    /// more of the read is answered if there `is_more`.
    pub(super) fn wait(&mut self, is_more: bool, unsent: usize) -> bool {
        if is_more && self.turns < Self::TURNS_MAX && unsent < Self::BYTES_MAX {
            self.turns += 1;
            return true;
        }
        self.turns = 0;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_wait_for_a_few_turns_and_while_there_is_little_of_them() {
        let mut held = HeldAnswers::default();
        let waits = [(); 6].map(|()| held.wait(true, 100));
        assert_eq!(waits, [true, true, true, true, false, true]);
        assert!(held.are_waiting() && !held.wait(false, 100) && !held.are_waiting());
        assert!(!held.wait(true, HeldAnswers::BYTES_MAX));
    }
}
