//! Automatic bans, on the path of a denial: counts the denials of callers, and asks for a ban.
//!
//! A denial of a limit with a `ban` adds to a counter of this replica (`denials.rs`), which has a
//! fixed size. The denial that makes it full puts a request into a bounded queue, and that is all:
//! the operator takes it from there, off the path of requests. While the queue is full the counter
//! stays as it is, so the caller's next denial asks again.

mod denials;

use std::sync::Mutex;

use sluicegate_core::{BanRule, Limit, Timestamp};
use tokio::sync::mpsc;

use self::denials::DenialCounters;
use crate::overrides::{BanRequest, BanTarget};

/// Counts denials, and hands over the callers that are to be banned.
pub struct AutomaticBans {
    denials: DenialCounters,
    requests: mpsc::Sender<BanRequest>,
    /// The other end of the queue, until the operator takes it.
    queue: Mutex<Option<mpsc::Receiver<BanRequest>>>,
}

/// What became of a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DenialEffect {
    /// It was counted.
    Counted,
    /// The caller is to be banned, and the queue has the request.
    Requested,
    /// The caller is to be banned, and the queue is full.
    QueueFull,
}

/// Requests that wait for the operator.
const QUEUE_MAX: usize = 1_024;

impl AutomaticBans {
    /// Nobody was denied yet.
    pub(crate) fn new() -> Self {
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        Self {
            denials: DenialCounters::new(),
            requests,
            queue: Mutex::new(Some(queue)),
        }
    }

    /// The requests for bans, for the one who takes them first.
    pub fn take_queue(&self) -> Option<mpsc::Receiver<BanRequest>> {
        let mut queue = self.queue.lock().expect("no holder of this lock panics");
        queue.take()
    }

    /// Counts a denial of a caller by a limit with this rule.
    pub(crate) fn denied(
        &self,
        target: BanTarget,
        limit: &Limit,
        rule: &BanRule,
        now: Timestamp,
    ) -> DenialEffect {
        let caller = self.denials.caller(&limit.name, &target);
        self.denials.add(caller, rule, now, || {
            let request = BanRequest {
                target,
                limit: limit.name.clone(),
                rule: *rule,
            };
            self.requests.try_send(request).is_ok()
        })
    }
}

#[cfg(test)]
mod tests;
