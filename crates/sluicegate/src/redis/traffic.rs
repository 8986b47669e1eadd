//! The requests of one connection: which wait, which go out together, and which are in flight.
//!
//! The idea: a script call costs Redis about as much for one charge as for ten, so everything that
//! waits at one moment goes out as one batch. While Redis works on one batch, the next is on
//! its way, so Redis never idles; a third would only wait there instead of here, where it can still
//! grow, be answered from memory or time out unsent.
//!
//! A request moves through these lists. Each box is a field of [`Traffic`].
//!
//! ```text
//! enqueue ─▶ queued ─▶ in_flight ─▶ response
//!             ▲  ▲ │
//!             │  │ └─▶ parked    its counter is in a call in flight
//!             │  └──── delayed   it would be denied only because it is early, or its slot moves
//!             └─────── connection_lost: what was not sent waits for the next connection
//! ```
//!
//! **Invariant:** at most one decision call per counter is in flight. Requests on the same counter
//! are parked until its reply, which denies most of them from memory or sends them out together.
//! That bounds the calls for a counter that is denied, however many ask, and keeps the shadow of a
//! counter from being overwritten by an older reply.
//!
//! It is not simpler because one queue would need a scan for every reply to find the requests of a
//! counter. There is no I/O and no clock here: the driver brings bytes and time, and the tests run
//! without a server.

mod deadlines;
mod error_replies;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use sluicegate_core::RedisClock;
use tokio::time::Instant;

use super::call::{Call, CallKind, ScriptForm};
use super::context::StoreContext;
use super::lane::{Lane, LaneCounters};
use super::options::RedisMode;
use super::request::{RequestError, StoreRequest, StoreResponse};
use super::responses;
use super::server_error::ServerError;
use super::shadow::Prediction;
use super::wire::Reply;

/// All requests that the driver of one node holds.
pub(super) struct Traffic {
    context: Arc<StoreContext>,
    lane: Arc<Lane>,
    /// Requests to send next, in the order of their arrival.
    queued: VecDeque<StoreRequest>,
    /// Requests that wait for a reply to a call on the same counter, by the hash of that counter.
    parked: HashMap<u64, Vec<StoreRequest>, RandomState>,
    /// Hashes of the counters that a decision call in flight touches.
    busy: HashSet<u64, RandomState>,
    /// Requests to queue again at an instant.
    delayed: Vec<(Instant, StoreRequest)>,
    /// Calls without a reply, oldest first, which is the order of the replies.
    in_flight: VecDeque<Call>,
    /// Empty lists to reuse for the requests of the next calls.
    spare_request_lists: Vec<Vec<StoreRequest>>,
    /// Buffer to reuse for the arguments of the next call.
    spare_body: Vec<u8>,
    /// Number of batches that were written, and the number of the latest one.
    batches_sent: u64,
    /// True while a call with the source of a script is in flight: others need not bring it.
    reloading_script: bool,
    /// Requests that timed out since the last reply.
    consecutive_timeouts: u32,
}

/// An order to the driver after a reply.
#[derive(Debug)]
pub(super) enum TrafficEvent {
    /// `MOVED`: another node owns the slot of these requests.
    Moved {
        slot: u16,
        host: String,
        port: u16,
        requests: Vec<StoreRequest>,
    },
    /// `ASK`: another node takes these requests this time; the slot is still moving.
    Redirected {
        host: String,
        port: u16,
        requests: Vec<StoreRequest>,
    },
    /// `READONLY`: the node is a replica now, and these requests belong to its primary.
    Demoted { requests: Vec<StoreRequest> },
    /// The node cannot serve at the moment, for this reason.
    Away(String),
}

/// Batches in flight at the same time: while Redis works on one, the next is on its way.
const BATCHES_IN_FLIGHT_MAX: u64 = 2;
/// Charges in one batch, which is about a millisecond of Redis' time. A last request of many
/// charges may exceed it.
const CHARGES_MAX: usize = 256;

impl Traffic {
    pub(super) fn new(context: Arc<StoreContext>, lane: Arc<Lane>) -> Self {
        Self {
            context,
            lane,
            queued: VecDeque::new(),
            parked: HashMap::default(),
            busy: HashSet::default(),
            delayed: Vec::new(),
            in_flight: VecDeque::new(),
            spare_request_lists: Vec::new(),
            spare_body: Vec::new(),
            batches_sent: 0,
            reloading_script: false,
            consecutive_timeouts: 0,
        }
    }

    /// Adds a request from the lane.
    pub(super) fn enqueue(&mut self, request: StoreRequest) {
        self.queued.push_back(request);
    }

    /// Returns true while no call is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Appends calls for everything queued to `out`, as far as enough batches are not in flight
    /// yet.
    pub(super) fn send_queued(&mut self, out: &mut Vec<u8>, now: Instant) {
        let due = self
            .delayed
            .extract_if(.., |(at, _)| *at <= now)
            .map(|(_, request)| request);
        self.queued.extend(due);
        while !self.queued.is_empty() && self.batches_in_flight() < BATCHES_IN_FLIGHT_MAX {
            let batch = self.next_batch(now);
            if batch.is_empty() {
                self.spare_request_lists.push(batch);
                continue;
            }
            self.batches_sent += 1;
            for requests in self.group_into_calls(batch) {
                let decisions = requests
                    .iter()
                    .filter(|request| request.charges().is_some())
                    .count() as u64;
                LaneCounters::add(&self.lane.counters.calls, 1);
                LaneCounters::add(&self.lane.counters.decisions, decisions);
                if requests[0].asking {
                    self.send(
                        Call::asking(self.batches_sent, now),
                        ScriptForm::Digest,
                        out,
                    );
                }
                self.send(
                    Call::new(self.batches_sent, requests, now),
                    ScriptForm::Digest,
                    out,
                );
            }
        }
    }

    /// Appends one call to `out`; its reply is the next after those of the calls in flight.
    fn send(&mut self, call: Call, form: ScriptForm, out: &mut Vec<u8>) {
        call.write(out, &mut self.spare_body, form, self.context.options.clock);
        self.in_flight.push_back(call);
    }

    /// Counts from the oldest call without a reply to the latest batch.
    fn batches_in_flight(&self) -> u64 {
        self.in_flight
            .front()
            .map_or(0, |oldest| self.batches_sent + 1 - oldest.batch)
    }

    /// Takes the next batch from the queue: requests that are still wanted, that memory does not
    /// answer, and whose counters are in no call in flight. Marks their counters busy.
    ///
    /// With a given clock, a batch holds requests of one instant only: the script has one time.
    fn next_batch(&mut self, now: Instant) -> Vec<StoreRequest> {
        let clock = self.context.options.clock;
        let mut batch: Vec<StoreRequest> = self.spare_request_lists.pop().unwrap_or_default();
        let mut charge_count = 0;
        while charge_count < CHARGES_MAX {
            let Some(request) = self.queued.pop_front() else {
                break;
            };
            if !request.is_wanted() {
                continue;
            }
            if request.is_too_late(now) {
                self.consecutive_timeouts += u32::from(request.responder.is_some());
                request.respond(Err(RequestError::TimedOut));
                continue;
            }
            let Some(charges) = request.charges() else {
                batch.push(request);
                charge_count += 1;
                continue;
            };
            if let Some(busy) = charges
                .iter()
                .map(|charge| charge.hash)
                .find(|hash| self.busy.contains(hash))
            {
                self.parked.entry(busy).or_default().push(request);
                continue;
            }
            // A reply may have come since the caller looked at the shadows.
            let Some(request) = self.unless_answered(request, now) else {
                continue;
            };
            let charges = request.charges().unwrap_or_default();
            let at_another_time = |first: &StoreRequest| {
                clock == RedisClock::Given && first.submitted_at != request.submitted_at
            };
            if batch.first().is_some_and(at_another_time) {
                self.queued.push_front(request);
                break;
            }
            charge_count += charges.len();
            batch.push(request);
        }
        self.busy.extend(
            batch
                .iter()
                .filter(|request| request.charges().is_some())
                .flat_map(StoreRequest::hashes),
        );
        batch
    }

    /// Returns the request unless it needs no call now: it is denied from memory, or it would be
    /// denied only for being a moment too early and is delayed until then.
    fn unless_answered(&mut self, request: StoreRequest, now: Instant) -> Option<StoreRequest> {
        match responses::predict(&request, now, &self.context) {
            Prediction::Denied(outcomes) => {
                request.respond(Ok(StoreResponse::FromMemory(outcomes)))
            }
            // The wait is at most as long as the last call took, and the next call takes as long
            // again. A request that would miss its deadline by waiting goes out now.
            Prediction::TooEarly(wait) if now + 2 * Duration::from(wait) <= request.deadline => {
                self.delayed.push((now + wait.into(), request));
            }
            Prediction::TooEarly(_) | Prediction::Unknown => return Some(request),
        }
        None
    }

    /// Splits a batch into calls: one for all decisions where one node owns all keys, one per slot
    /// on a cluster, and one for each other operation. A request that was redirected goes alone, so
    /// that the next error concerns no other request.
    fn group_into_calls(&self, batch: Vec<StoreRequest>) -> Vec<Vec<StoreRequest>> {
        let by_slot = matches!(self.context.options.mode, RedisMode::Cluster);
        if !by_slot
            && batch
                .iter()
                .all(|request| request.charges().is_some() && request.hops == 0)
        {
            return vec![batch];
        }
        let mut groups: Vec<Vec<StoreRequest>> = Vec::new();
        let mut group_of_slot: HashMap<u16, usize, RandomState> = HashMap::default();
        for request in batch {
            if request.charges().is_none() || request.hops > 0 {
                groups.push(vec![request]);
                continue;
            }
            let slot = if by_slot { request.slot } else { 0 };
            match group_of_slot.get(&slot) {
                Some(group) => groups[*group].push(request),
                None => {
                    group_of_slot.insert(slot, groups.len());
                    groups.push(vec![request]);
                }
            }
        }
        groups
    }

    /// Takes the reply to the oldest call and responds to its requests. Returns an event when the
    /// driver has to act; its requests are then the driver's to place.
    pub(super) fn take_reply(
        &mut self,
        reply: &mut Reply,
        out: &mut Vec<u8>,
        now: Instant,
    ) -> Option<TrafficEvent> {
        let Some(mut call) = self.in_flight.pop_front() else {
            return Some(TrafficEvent::Away(
                "the node sent a reply that belongs to no call".to_owned(),
            ));
        };
        self.consecutive_timeouts = 0;
        if call.noscript_count > 0
            && self.reloading_script
            && !matches!(reply, Reply::Error(error) if error.starts_with("NOSCRIPT"))
        {
            self.reloading_script = false;
        }
        let error = match reply {
            Reply::Error(error) => std::mem::take(error),
            answer => {
                let delivered = responses::deliver(&mut call, answer, now, &self.context);
                self.release(&call, now);
                let Err(mismatch) = delivered else {
                    call.requests.clear();
                    self.spare_request_lists.push(call.requests);
                    return None;
                };
                fail(call.requests, &RequestError::Unavailable(mismatch.clone()));
                return Some(TrafficEvent::Away(mismatch));
            }
        };
        if call.kind == CallKind::Asking {
            return None;
        }
        let server_error = ServerError::read(&error);
        if server_error == ServerError::NoScript {
            self.send_again(call, out);
            return None;
        }
        LaneCounters::add(&self.lane.counters.errors, 1);
        self.release(&call, now);
        self.handle_server_error(call, server_error, error, now)
    }

    /// Frees the counters of a call. Requests that were parked on them are denied from memory, or
    /// go to the front of the queue in their old order.
    fn release(&mut self, call: &Call, now: Instant) {
        if call.kind != CallKind::Decide {
            return;
        }
        for hash in call.requests.iter().flat_map(StoreRequest::hashes) {
            self.busy.remove(&hash);
            if self.parked.is_empty() {
                continue;
            }
            for request in self.parked.remove(&hash).into_iter().flatten().rev() {
                if let Some(request) = self.unless_answered(request, now) {
                    self.queued.push_front(request);
                }
            }
        }
    }

    /// Fails the calls in flight after the connection was lost: nobody knows whether Redis
    /// performed them. Requests that were not sent wait for the next connection.
    pub(super) fn connection_lost(&mut self, reason: &str) {
        let lost = RequestError::Unavailable(reason.to_owned());
        for call in self.in_flight.drain(..) {
            fail(call.requests, &lost);
        }
        self.busy.clear();
        self.reloading_script = false;
        self.consecutive_timeouts = 0;
        let parked = self.parked.drain().flat_map(|(_, requests)| requests);
        self.queued.extend(parked);
    }

    /// Takes out every request that was not sent.
    pub(super) fn take_unsent(&mut self) -> Vec<StoreRequest> {
        let parked = self.parked.drain().flat_map(|(_, requests)| requests);
        self.queued
            .drain(..)
            .chain(self.delayed.drain(..).map(|(_, request)| request))
            .chain(parked)
            .collect()
    }
}

/// Responds to all of the requests with the same error.
fn fail(requests: Vec<StoreRequest>, error: &RequestError) {
    requests
        .into_iter()
        .for_each(|request| request.respond(Err(error.clone())));
}
