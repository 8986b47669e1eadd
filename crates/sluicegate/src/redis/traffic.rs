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
use sluicegate_core::RedisClock;
use tokio::time::Instant;

use super::answers;
use super::ask::{Ask, Fault, Told};
use super::call::{Call, CallKind, Form};
use super::complaint::Complaint;
use super::context::Context;
use super::lane::{Counters, Lane};
use super::options::RedisMode;
use super::shadow::Foresight;
use super::wire::Reply;

/// Everything under way to one node.
pub(super) struct Traffic {
    context: Arc<Context>,
    lane: Arc<Lane>,
    pending: VecDeque<Ask>,
    /// Asks that wait for the answer to another one's call on the same counter.
    parked: HashMap<u64, Vec<Ask>, RandomState>,
    busy: HashSet<u64, RandomState>,
    /// Asks that will be tried again at an instant.
    later: Vec<(Instant, Ask)>,
    outstanding: VecDeque<Call>,
    /// Room for the next call: what the last ones needed.
    spare_asks: Vec<Vec<Ask>>,
    spare_body: Vec<u8>,
    launched: u64,
    reloading: bool,
    timeouts_in_row: u32,
}

/// What the driver has to do about an answer.
#[derive(Debug)]
pub(super) enum Event {
    /// These asks belong to another node for good.
    Moved {
        slot: u16,
        host: String,
        port: u16,
        asks: Vec<Ask>,
    },
    /// These asks belong to another node for once.
    Elsewhere {
        host: String,
        port: u16,
        asks: Vec<Ask>,
    },
    /// The node is a replica now; these asks belong to its primary.
    Demoted { asks: Vec<Ask> },
    /// The node cannot serve for the moment.
    Away(String),
}

/// Calls that may be under way at the same time: while Redis works on one, the next is on its way.
const LAUNCHES_MAX: u64 = 2;
/// How long a slot that changes hands is given before a node is asked again.
const PAUSE: Duration = Duration::from_millis(2);
/// Charges that go out together: about a millisecond of Redis' time.
const CHARGES_MAX: usize = 256;

impl Traffic {
    pub(super) fn new(context: Arc<Context>, lane: Arc<Lane>) -> Self {
        Self {
            context,
            lane,
            pending: VecDeque::new(),
            parked: HashMap::default(),
            busy: HashSet::default(),
            later: Vec::new(),
            outstanding: VecDeque::new(),
            spare_asks: Vec::new(),
            spare_body: Vec::new(),
            launched: 0,
            reloading: false,
            timeouts_in_row: 0,
        }
    }

    pub(super) fn accept(&mut self, ask: Ask) {
        self.pending.push_back(ask);
    }

    /// Nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Writes everything that waits, as far as not too much is under way already.
    pub(super) fn launch(&mut self, out: &mut Vec<u8>, now: Instant) {
        let due = self
            .later
            .extract_if(.., |(at, _)| *at <= now)
            .map(|(_, ask)| ask);
        self.pending.extend(due);
        while !self.pending.is_empty() && self.launches_under_way() < LAUNCHES_MAX {
            let load = self.next_load(now);
            if load.is_empty() {
                self.spare_asks.push(load);
                continue;
            }
            self.launched += 1;
            for asks in self.grouped(load) {
                let decisions = asks.iter().filter(|ask| ask.items().is_some()).count() as u64;
                Counters::add(&self.lane.counters.calls, 1);
                Counters::add(&self.lane.counters.decisions, decisions);
                if asks[0].asking {
                    self.send(Call::asking(self.launched, now), Form::Digest, out);
                }
                self.send(Call::new(self.launched, asks, now), Form::Digest, out);
            }
        }
    }

    fn send(&mut self, call: Call, form: Form, out: &mut Vec<u8>) {
        call.write(out, &mut self.spare_body, form, self.context.options.clock);
        self.outstanding.push_back(call);
    }

    fn launches_under_way(&self) -> u64 {
        self.outstanding
            .front()
            .map_or(0, |oldest| self.launched + 1 - oldest.launch)
    }

    /// The asks that go out now: those that are still wanted and whose counters are free.
    fn next_load(&mut self, now: Instant) -> Vec<Ask> {
        let clock = self.context.options.clock;
        let mut load: Vec<Ask> = self.spare_asks.pop().unwrap_or_default();
        let mut charges = 0;
        while charges < CHARGES_MAX {
            let Some(ask) = self.pending.pop_front() else {
                break;
            };
            if !ask.is_wanted() {
                continue;
            }
            if ask.is_over(now) {
                self.timeouts_in_row += u32::from(ask.answer.is_some());
                ask.tell(Err(Fault::TimedOut));
                continue;
            }
            let Some(items) = ask.items() else {
                load.push(ask);
                charges += 1;
                continue;
            };
            if let Some(busy) = items
                .iter()
                .map(|item| item.hash)
                .find(|hash| self.busy.contains(hash))
            {
                self.parked.entry(busy).or_default().push(ask);
                continue;
            }
            // An answer may have come since the caller looked.
            let Some(ask) = self.unless_known(ask, now) else {
                continue;
            };
            let items = ask.items().unwrap_or_default();
            let at_another_time =
                |first: &Ask| clock == RedisClock::Given && first.asked_at != ask.asked_at;
            if load.first().is_some_and(at_another_time) {
                self.pending.push_front(ask);
                break;
            }
            charges += items.len();
            load.push(ask);
        }
        self.busy.extend(
            load.iter()
                .filter(|ask| ask.items().is_some())
                .flat_map(Ask::hashes),
        );
        load
    }

    /// The ask, unless it is answered from what was seen a moment ago, or is too early by no more than a call takes: then
    /// it is sent when it is not.
    fn unless_known(&mut self, ask: Ask, now: Instant) -> Option<Ask> {
        match answers::from_memory(&ask, now, &self.context) {
            Foresight::Denied(outcomes) => ask.tell(Ok(Told::Remembered(outcomes))),
            // As long as the wait is, the last call took; the next one needs that time too.
            Foresight::NotYet(wait) if now + 2 * Duration::from(wait) <= ask.deadline => {
                self.later.push((now + wait.into(), ask));
            }
            Foresight::NotYet(_) | Foresight::Unsure => return Some(ask),
        }
        None
    }

    /// One call for all decisions where one node owns all keys; one for each slot on a cluster. What was sent on from
    /// elsewhere goes alone, so that it meets no new trouble in company.
    fn grouped(&self, load: Vec<Ask>) -> Vec<Vec<Ask>> {
        let by_slot = matches!(self.context.options.mode, RedisMode::Cluster);
        if !by_slot
            && load
                .iter()
                .all(|ask| ask.items().is_some() && ask.hops == 0)
        {
            return vec![load];
        }
        let mut groups: Vec<Vec<Ask>> = Vec::new();
        let mut group_of_slot: HashMap<u16, usize, RandomState> = HashMap::default();
        for ask in load {
            if ask.items().is_none() || ask.hops > 0 {
                groups.push(vec![ask]);
                continue;
            }
            let slot = if by_slot { ask.slot } else { 0 };
            match group_of_slot.get(&slot) {
                Some(group) => groups[*group].push(ask),
                None => {
                    group_of_slot.insert(slot, groups.len());
                    groups.push(vec![ask]);
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
    ) -> Option<Event> {
        let Some(mut call) = self.outstanding.pop_front() else {
            return Some(Event::Away(
                "the node answered what nobody asked".to_owned(),
            ));
        };
        self.timeouts_in_row = 0;
        if call.unknown > 0
            && self.reloading
            && !matches!(reply, Reply::Error(error) if error.starts_with("NOSCRIPT"))
        {
            self.reloading = false;
        }
        let error = match reply {
            Reply::Error(error) => std::mem::take(error),
            answer => {
                let taken = answers::hand_out(&mut call, answer, now, &self.context);
                self.release(&call, now);
                let Err(wrong) = taken else {
                    call.asks.clear();
                    self.spare_asks.push(call.asks);
                    return None;
                };
                fail(call.asks, &Fault::Away(wrong.clone()));
                return Some(Event::Away(wrong));
            }
        };
        if call.kind == CallKind::Asking {
            return None;
        }
        let complaint = Complaint::read(&error);
        if complaint == Complaint::NoScript {
            self.send_again(call, out);
            return None;
        }
        Counters::add(&self.lane.counters.errors, 1);
        self.release(&call, now);
        self.complained(call, complaint, error, now)
    }

    /// The node does not know the script. One call brings it its text; the others wait behind that one.
    fn send_again(&mut self, mut call: Call, out: &mut Vec<u8>) {
        let form = if self.reloading && call.unknown == 0 {
            Form::Digest
        } else {
            Form::Text
        };
        if form == Form::Text {
            self.reloading = true;
            Counters::add(&self.lane.counters.reloads, 1);
        }
        call.unknown = call.unknown.saturating_add(1);
        self.launched += 1;
        call.launch = self.launched;
        if call.asks.first().is_some_and(|ask| ask.asking) {
            self.send(Call::asking(self.launched, call.sent), Form::Digest, out);
        }
        self.send(call, form, out);
    }

    fn complained(
        &mut self,
        call: Call,
        complaint: Complaint,
        error: String,
        now: Instant,
    ) -> Option<Event> {
        let mut asks = call.asks;
        if matches!(complaint, Complaint::Moved { .. } | Complaint::Ask { .. }) {
            self.pause_travellers(&mut asks, now);
        }
        match complaint {
            Complaint::Moved { slot, host, port } => Some(Event::Moved {
                slot,
                host,
                port,
                asks,
            }),
            Complaint::Ask { host, port } => Some(Event::Elsewhere { host, port, asks }),
            Complaint::ReadOnly => Some(Event::Demoted { asks }),
            Complaint::TryAgain => {
                asks.into_iter().for_each(|ask| self.try_again(ask, now));
                None
            }
            Complaint::Away => {
                fail(asks, &Fault::Away(error.clone()));
                Some(Event::Away(error))
            }
            Complaint::NoScript | Complaint::Other => {
                fail(asks, &Fault::Away(error));
                None
            }
        }
    }

    /// Asks that were sent on again and again ask here once more, a little later, before they travel on.
    fn pause_travellers(&mut self, asks: &mut Vec<Ask>, now: Instant) {
        let is_tired = |ask: &mut Ask| ask.hops >= Ask::HOPS_IN_A_ROW && ask.hops % 2 == 1;
        let tired = asks
            .extract_if(.., is_tired)
            .filter_map(|ask| ask.sent_on(false));
        self.later.extend(tired.map(|ask| (now + PAUSE, ask)));
    }

    /// Keys of the call are on both ends of a move. Alone and a little later most asks pass; the rest goes key by key.
    fn try_again(&mut self, ask: Ask, now: Instant) {
        const TRIES: u8 = 3;
        let is_split = ask.hops >= TRIES && ask.items().is_some_and(|items| items.len() > 1);
        if is_split {
            return ask.tell(Err(Fault::Split));
        }
        let asking = ask.asking;
        let at = if ask.hops == 0 { now } else { now + PAUSE };
        self.later.extend(ask.sent_on(asking).map(|ask| (at, ask)));
    }

    /// Frees the counters of a call. Who waited for them is answered from what the call saw, or goes out next.
    fn release(&mut self, call: &Call, now: Instant) {
        if call.kind != CallKind::Decide {
            return;
        }
        for hash in call.asks.iter().flat_map(Ask::hashes) {
            self.busy.remove(&hash);
            if self.parked.is_empty() {
                continue;
            }
            for ask in self.parked.remove(&hash).into_iter().flatten().rev() {
                if let Some(ask) = self.unless_known(ask, now) {
                    self.pending.push_front(ask);
                }
            }
        }
    }

    /// Answers everybody whose time is up, and says when to look again.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let mut expired = 0_u64;
        let mut keep = |ask: &mut Ask| {
            if ask.deadline <= now
                && let Some(answer) = ask.answer.take()
            {
                expired += 1;
                let _ = answer.send(Err(Fault::TimedOut));
            }
            !ask.is_over(now)
        };
        self.pending.retain_mut(&mut keep);
        self.later.retain_mut(|(_, ask)| keep(ask));
        self.parked.retain(|_, asks| {
            asks.retain_mut(&mut keep);
            !asks.is_empty()
        });
        // What was sent stays in its place: its answer may still come, and says something about the counter.
        self.outstanding
            .iter_mut()
            .flat_map(|call| &mut call.asks)
            .for_each(|ask| {
                keep(ask);
            });
        self.timeouts_in_row = self.timeouts_in_row.saturating_add(expired as u32);
        Counters::add(&self.lane.counters.timeouts, expired);
        self.next_deadline()
    }

    fn next_deadline(&self) -> Option<Instant> {
        let sent = self.outstanding.iter().flat_map(|call| &call.asks);
        let waiting = self.pending.iter().chain(self.parked.values().flatten());
        let deadlines = sent
            .chain(waiting)
            .filter(|ask| ask.answer.is_some())
            .map(|ask| ask.deadline);
        deadlines
            .chain(self.later.iter().map(|(at, ask)| ask.deadline.min(*at)))
            .min()
    }

    /// The instant of the next retry, if any.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.later.iter().map(|(at, _)| *at).min()
    }

    /// When the oldest call that is not answered was sent, and how many decisions in a row have timed out since.
    pub(super) fn silence(&self) -> Option<(Instant, u32)> {
        self.outstanding
            .front()
            .map(|call| (call.sent, self.timeouts_in_row))
    }

    /// The connection is gone: nobody knows whether what was under way was done. What was not sent yet stays.
    pub(super) fn lose(&mut self, why: &str) {
        let lost = Fault::Away(why.to_owned());
        for call in self.outstanding.drain(..) {
            fail(call.asks, &lost);
        }
        self.busy.clear();
        self.reloading = false;
        self.timeouts_in_row = 0;
        let parked = self.parked.drain().flat_map(|(_, asks)| asks);
        self.pending.extend(parked);
    }

    /// Everything that was not sent.
    pub(super) fn take_unsent(&mut self) -> Vec<Ask> {
        let parked = self.parked.drain().flat_map(|(_, asks)| asks);
        self.pending
            .drain(..)
            .chain(self.later.drain(..).map(|(_, ask)| ask))
            .chain(parked)
            .collect()
    }
}

fn fail(asks: Vec<Ask>, fault: &Fault) {
    asks.into_iter()
        .for_each(|ask| ask.tell(Err(fault.clone())));
}

#[cfg(test)]
mod tests;
