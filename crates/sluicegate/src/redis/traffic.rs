//! What goes over one connection: who waits for what, what goes out together, and what an answer means for whom.
//!
//! No I/O here: the driver brings bytes and time.
//!
//! **Invariant:** of one counter at most one decision call is under way; whoever comes meanwhile shares its answer or
//! goes out with the next call.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::call::{Call, CallKind, ScriptForm};
use super::context::StoreContext;
use super::lane::{Lane, LaneCounters};
use super::options::{RedisClock, RedisMode};
use super::request::{RequestError, StoreRequest, StoreResponse};
use super::responses;
use super::server_error::ServerError;
use super::shadow::Prediction;
use super::wire::Reply;

/// Everything under way to one node.
pub(super) struct Traffic {
    context: Arc<StoreContext>,
    lane: Arc<Lane>,
    queued: VecDeque<StoreRequest>,
    /// Asks that wait for the answer to another one's call on the same counter.
    parked: HashMap<u64, Vec<StoreRequest>, RandomState>,
    busy: HashSet<u64, RandomState>,
    /// Asks that will be tried again at an instant.
    delayed: Vec<(Instant, StoreRequest)>,
    in_flight: VecDeque<Call>,
    /// Room for the next call: what the last ones needed.
    spare_request_lists: Vec<Vec<StoreRequest>>,
    spare_body: Vec<u8>,
    batches_sent: u64,
    reloading_script: bool,
    consecutive_timeouts: u32,
}

/// What the driver has to do about an answer.
#[derive(Debug)]
pub(super) enum TrafficEvent {
    /// These asks belong to another node for good.
    Moved {
        slot: u16,
        host: String,
        port: u16,
        requests: Vec<StoreRequest>,
    },
    /// These asks belong to another node for once.
    Redirected {
        host: String,
        port: u16,
        requests: Vec<StoreRequest>,
    },
    /// The node is a replica now; these asks belong to its primary.
    Demoted { requests: Vec<StoreRequest> },
    /// The node cannot serve for the moment.
    Away(String),
}

/// Calls that may be under way at the same time: while Redis works on one, the next is on its way.
const BATCHES_IN_FLIGHT_MAX: u64 = 2;
/// How long a slot that changes hands is given before a node is asked again.
const REDIRECT_PAUSE: Duration = Duration::from_millis(2);
/// Charges that go out together: about a millisecond of Redis' time.
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

    pub(super) fn enqueue(&mut self, request: StoreRequest) {
        self.queued.push_back(request);
    }

    /// Nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Writes everything that waits, as far as not too much is under way already.
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

    fn send(&mut self, call: Call, form: ScriptForm, out: &mut Vec<u8>) {
        call.write(out, &mut self.spare_body, form, self.context.options.clock);
        self.in_flight.push_back(call);
    }

    fn batches_in_flight(&self) -> u64 {
        self.in_flight
            .front()
            .map_or(0, |oldest| self.batches_sent + 1 - oldest.batch)
    }

    /// The asks that go out now: those that are still wanted and whose counters are free.
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
            // An answer may have come since the caller looked.
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

    /// The ask, unless it is answered from what was seen a moment ago, or is too early by no more than a call takes: then
    /// it is sent when it is not.
    fn unless_answered(&mut self, request: StoreRequest, now: Instant) -> Option<StoreRequest> {
        match responses::predict(&request, now, &self.context) {
            Prediction::Denied(outcomes) => {
                request.respond(Ok(StoreResponse::FromMemory(outcomes)))
            }
            // As long as the wait is, the last call took; the next one needs that time too.
            Prediction::TooEarly(wait) if now + 2 * Duration::from(wait) <= request.deadline => {
                self.delayed.push((now + wait.into(), request));
            }
            Prediction::TooEarly(_) | Prediction::Unknown => return Some(request),
        }
        None
    }

    /// One call for all decisions where one node owns all keys; one for each slot on a cluster. What was sent on from
    /// elsewhere goes alone, so that it meets no new trouble in company.
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

    /// Gives the answer to the oldest call to everybody who waits for it.
    pub(super) fn take_reply(
        &mut self,
        reply: &mut Reply,
        out: &mut Vec<u8>,
        now: Instant,
    ) -> Option<TrafficEvent> {
        let Some(mut call) = self.in_flight.pop_front() else {
            return Some(TrafficEvent::Away(
                "the node answered what nobody submitted".to_owned(),
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
                let taken = responses::deliver(&mut call, answer, now, &self.context);
                self.release(&call, now);
                let Err(wrong) = taken else {
                    call.requests.clear();
                    self.spare_request_lists.push(call.requests);
                    return None;
                };
                fail(call.requests, &RequestError::Unavailable(wrong.clone()));
                return Some(TrafficEvent::Away(wrong));
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

    /// The node does not know the script. One call brings it its text; the others wait behind that one.
    fn send_again(&mut self, mut call: Call, out: &mut Vec<u8>) {
        let form = if self.reloading_script && call.noscript_count == 0 {
            ScriptForm::Digest
        } else {
            ScriptForm::Text
        };
        if form == ScriptForm::Text {
            self.reloading_script = true;
            LaneCounters::add(&self.lane.counters.reloads, 1);
        }
        call.noscript_count = call.noscript_count.saturating_add(1);
        self.batches_sent += 1;
        call.batch = self.batches_sent;
        if call.requests.first().is_some_and(|request| request.asking) {
            self.send(
                Call::asking(self.batches_sent, call.sent),
                ScriptForm::Digest,
                out,
            );
        }
        self.send(call, form, out);
    }

    fn handle_server_error(
        &mut self,
        call: Call,
        server_error: ServerError,
        error: String,
        now: Instant,
    ) -> Option<TrafficEvent> {
        let mut requests = call.requests;
        if matches!(
            server_error,
            ServerError::Moved { .. } | ServerError::AskRedirect { .. }
        ) {
            self.delay_redirected(&mut requests, now);
        }
        match server_error {
            ServerError::Moved { slot, host, port } => Some(TrafficEvent::Moved {
                slot,
                host,
                port,
                requests,
            }),
            ServerError::AskRedirect { host, port } => Some(TrafficEvent::Redirected {
                host,
                port,
                requests,
            }),
            ServerError::ReadOnly => Some(TrafficEvent::Demoted { requests }),
            ServerError::TryAgain => {
                requests
                    .into_iter()
                    .for_each(|request| self.try_again(request, now));
                None
            }
            ServerError::Away => {
                fail(requests, &RequestError::Unavailable(error.clone()));
                Some(TrafficEvent::Away(error))
            }
            ServerError::NoScript | ServerError::Other => {
                fail(requests, &RequestError::Unavailable(error));
                None
            }
        }
    }

    /// Asks that were sent on again and again ask here once more, a little later, before they travel on.
    fn delay_redirected(&mut self, requests: &mut Vec<StoreRequest>, now: Instant) {
        let has_bounced = |request: &mut StoreRequest| {
            request.hops >= StoreRequest::HOPS_IN_A_ROW && request.hops % 2 == 1
        };
        let bounced = requests
            .extract_if(.., has_bounced)
            .filter_map(|request| request.redirected(false));
        self.delayed
            .extend(bounced.map(|request| (now + REDIRECT_PAUSE, request)));
    }

    /// Keys of the call are on both ends of a move. Alone and a little later most asks pass; the rest goes key by key.
    fn try_again(&mut self, request: StoreRequest, now: Instant) {
        const TRIES: u8 = 3;
        let is_split =
            request.hops >= TRIES && request.charges().is_some_and(|charges| charges.len() > 1);
        if is_split {
            return request.respond(Err(RequestError::SplitKeys));
        }
        let asking = request.asking;
        let at = if request.hops == 0 {
            now
        } else {
            now + REDIRECT_PAUSE
        };
        self.delayed
            .extend(request.redirected(asking).map(|request| (at, request)));
    }

    /// Frees the counters of a call. Who waited for them is answered from what the call saw, or goes out next.
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

    /// Answers everybody whose time is up, and says when to look again.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let mut expired = 0_u64;
        let mut keep = |request: &mut StoreRequest| {
            if request.deadline <= now
                && let Some(answer) = request.responder.take()
            {
                expired += 1;
                let _ = answer.send(Err(RequestError::TimedOut));
            }
            !request.is_too_late(now)
        };
        self.queued.retain_mut(&mut keep);
        self.delayed.retain_mut(|(_, request)| keep(request));
        self.parked.retain(|_, requests| {
            requests.retain_mut(&mut keep);
            !requests.is_empty()
        });
        // What was sent stays in its place: its answer may still come, and says something about the counter.
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

    /// The instant of the next retry, if any.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.delayed.iter().map(|(at, _)| *at).min()
    }

    /// When the oldest call that is not answered was sent, and how many decisions in a row have timed out since.
    pub(super) fn silence(&self) -> Option<(Instant, u32)> {
        self.in_flight
            .front()
            .map(|call| (call.sent, self.consecutive_timeouts))
    }

    /// The connection is gone: nobody knows whether what was under way was done. What was not sent yet stays.
    pub(super) fn connection_lost(&mut self, why: &str) {
        let lost = RequestError::Unavailable(why.to_owned());
        for call in self.in_flight.drain(..) {
            fail(call.requests, &lost);
        }
        self.busy.clear();
        self.reloading_script = false;
        self.consecutive_timeouts = 0;
        let parked = self.parked.drain().flat_map(|(_, requests)| requests);
        self.queued.extend(parked);
    }

    /// Everything that was not sent.
    pub(super) fn take_unsent(&mut self) -> Vec<StoreRequest> {
        let parked = self.parked.drain().flat_map(|(_, requests)| requests);
        self.queued
            .drain(..)
            .chain(self.delayed.drain(..).map(|(_, request)| request))
            .chain(parked)
            .collect()
    }
}

fn fail(requests: Vec<StoreRequest>, fault: &RequestError) {
    requests
        .into_iter()
        .for_each(|request| request.respond(Err(fault.clone())));
}

#[cfg(test)]
mod tests;
