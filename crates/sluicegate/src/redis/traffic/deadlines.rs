//! Deadlines of the requests that one connection holds, and how long its node has been silent.
//!
//! The driver calls `expire` when the earliest deadline has come, and reads here when to call it
//! again.

use tokio::time::Instant;

use super::Traffic;
use crate::redis::lane::LaneCounters;
use crate::redis::request::{RequestError, StoreRequest};

impl Traffic {
    /// Responds to every request whose deadline has come, and returns the next instant to call
    /// this.
    ///
    /// Requests in flight stay in their calls: the reply may still come, and shows the counters.
    pub(in crate::redis) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let mut expired = 0_u64;
        let mut keep = |request: &mut StoreRequest| {
            if request.deadline <= now
                && let Some(responder) = request.responder.take()
            {
                expired += 1;
                let _ = responder.send(Err(RequestError::TimedOut));
            }
            !request.is_too_late(now)
        };
        self.queued.retain_mut(&mut keep);
        self.delayed.retain_mut(|(_, request)| keep(request));
        self.parked.retain(|_, requests| {
            requests.retain_mut(&mut keep);
            !requests.is_empty()
        });
        self.in_flight
            .iter_mut()
            .flat_map(|call| &mut call.requests)
            .for_each(|request| {
                keep(request);
            });
        self.consecutive_timeouts = self.consecutive_timeouts.saturating_add(expired as u32);
        LaneCounters::add(&self.lane.counters.timeouts, expired);
        self.next_deadline()
    }

    /// The earliest deadline of a request that somebody waits for, or the earliest retry.
    fn next_deadline(&self) -> Option<Instant> {
        let sent = self.in_flight.iter().flat_map(|call| &call.requests);
        let waiting = self.queued.iter().chain(self.parked.values().flatten());
        let deadlines = sent
            .chain(waiting)
            .filter(|request| request.responder.is_some())
            .map(|request| request.deadline);
        deadlines
            .chain(
                self.delayed
                    .iter()
                    .map(|(at, request)| request.deadline.min(*at)),
            )
            .min()
    }

    /// The earliest instant at which a delayed request is queued again.
    pub(in crate::redis) fn next_retry(&self) -> Option<Instant> {
        self.delayed.iter().map(|(at, _)| *at).min()
    }

    /// When the oldest call without a reply was sent, and how many requests have timed out since
    /// the last reply; `None` while nothing is in flight.
    pub(in crate::redis) fn silence(&self) -> Option<(Instant, u32)> {
        self.in_flight
            .front()
            .map(|call| (call.sent, self.consecutive_timeouts))
    }
}
