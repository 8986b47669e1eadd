//! Answers that came back to a client, counted.

use std::time::Duration;

use sluicegate_testkit::Latencies;

/// Counts of answers, and how long they took.
#[derive(Clone, Debug, Default)]
pub struct AnswerTally {
    /// 200 with the whole body.
    pub allowed: u64,
    /// 429.
    pub rejected: u64,
    /// Anything else.
    pub other: u64,
    pub reconnects: u64,
    pub latencies: Latencies,
    pub wall: Duration,
}

impl AnswerTally {
    pub fn done(&self) -> u64 {
        self.allowed + self.rejected + self.other
    }

    /// Adds what another connection counted.
    pub fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.rejected += other.rejected;
        self.other += other.other;
        self.reconnects += other.reconnects;
        self.latencies.merge(&other.latencies);
    }
}
