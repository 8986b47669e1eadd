//! The last result of each caller that the service was called for lately: the evidence on which a
//! service is taken for down.
//!
//! A caller counts once, by its last result, however often it asks: one caller that fails a hundred
//! times says as much about the service as one that fails once. So it takes many different callers
//! to show that the service is down, and one that is served speaks for it.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Callers that failed lately, before the service is taken for down.
pub(super) const FAILED_MIN: usize = 20;
/// Results that are older than this say nothing about now.
const WINDOW: Duration = Duration::from_secs(10);
/// The most callers that are remembered; the oldest go first. Each call searches this list, which
/// takes far less time than the call.
const CALLERS_MAX: usize = 256;

/// The last results, one for each caller, the oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentResults(VecDeque<RecentResult>);

#[derive(Debug)]
struct RecentResult {
    caller: u64,
    at: Instant,
    is_failure: bool,
}

impl RecentResults {
    /// Records the last result of a caller.
    pub(super) fn record(&mut self, caller: u64, is_failure: bool, now: Instant) {
        self.0
            .retain(|result| result.caller != caller && now < result.at + WINDOW);
        if self.0.len() >= CALLERS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(RecentResult {
            caller,
            at: now,
            is_failure,
        });
    }

    /// Returns true when at least [`FAILED_MIN`] callers failed, and no fewer than were served.
    pub(super) fn show_an_outage(&self) -> bool {
        let failed = self.0.iter().filter(|result| result.is_failure).count();
        failed >= FAILED_MIN && 2 * failed >= self.0.len()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
