//! Shadows: the last state of a counter that this replica saw in a reply of Redis.
//!
//! The idea: other replicas can only add to the debt of a counter. So the state seen last, moved on
//! by the time that has passed since, is the smallest debt that Redis can hold now. If even that
//! denies a charge, Redis would deny it too, and no call is needed.
//!
//! **Invariant:** no request is denied from memory that Redis would admit, unless another replica
//! refunded or reset the counter, or charged it under a faster quota, within the last two seconds
//! ([`LIFE`]). This replica forgets a counter that it refunds or resets itself, and an observation
//! under one quota denies no charge under another.
//!
//! The doubt is about time. A reply carries the server's time of the decision, but the caller only
//! knows that this instant lies between sending and receiving, and the two clocks may run at
//! slightly different rates. So a shadow is judged at two instants: whether to deny at the latest
//! that the server's clock can show, and how long to wait at the earliest. One estimate in the
//! middle would be simpler, and wrong in one of the two directions.
//!
//! Parts: `observation` is what was seen and its packed form, `table` keeps the packed forms,
//! readable without a lock, and `low_filter` spares most requests the search. The local fallback
//! starts from the same memory when Redis goes away.

mod low_filter;
mod observation;
mod table;
#[cfg(test)]
mod tests;

use sluicegate_core::algorithm::{self, State};
use sluicegate_core::{Charge, List, Nanos, Outcome, Quota, Timestamp};

use self::low_filter::LowCounterFilter;
pub(super) use self::observation::Observation;
use self::observation::PackedObservation;
use self::table::ShadowTable;
use crate::tally::Tally;

/// The last observations of up to 65,536 counters, in fixed memory. Written by drivers, read by
/// callers on any thread.
pub(super) struct Shadows {
    table: ShadowTable<{ PackedObservation::WORDS }>,
    low_filter: LowCounterFilter,
    rates: ClockRates,
    /// Requests that were denied without a call.
    denials: Tally,
}

/// How the rates of the server's clock and the caller's compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockRates {
    /// Two clocks, whose rates may differ by a thousandth.
    MayDrift,
    /// One clock: the server uses the caller's time.
    Same,
}

/// The observation of a counter in the reply to a charge of `cost`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservedCharge {
    pub(super) hash: u64,
    pub(super) cost: u64,
    pub(super) observation: Observation,
}

/// The parts of a charge that a prediction needs. It borrows, because most predictions end here.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShadowCharge<'a> {
    pub(super) hash: u64,
    pub(super) quota: &'a Quota,
    pub(super) cost: u64,
    pub(super) enforced: bool,
}

/// The prediction for a request before Redis is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prediction {
    /// Nothing certain: call Redis.
    Unknown,
    /// Redis may deny it now, but would admit it after this wait if nobody else spends. The wait is
    /// at most as long as the doubt about the server's clock: the duration of the last call. A call
    /// before that may have to be made twice.
    TooEarly(Nanos),
    /// Redis would certainly deny it, with these outcomes.
    Denied(List<Outcome>),
}

/// An older observation denies nobody: another replica may have refunded or reset the counter.
const LIFE: Nanos = Nanos::from_secs(2);
/// Counters that the memory is made for: 4 MiB of observations.
const COUNTERS: usize = 65_536;

impl<'a> ShadowCharge<'a> {
    pub(super) fn new(charge: &'a Charge<'_>, hash: u64) -> Self {
        Self {
            hash,
            quota: &charge.quota,
            cost: charge.cost,
            enforced: charge.enforced,
        }
    }
}

impl Shadows {
    pub(super) fn new(rates: ClockRates) -> Self {
        Self {
            table: ShadowTable::new(COUNTERS),
            low_filter: LowCounterFilter::new(),
            rates,
            denials: Tally::default(),
        }
    }

    /// Remembers what the replies to many charges showed.
    pub(super) fn remember_all(&self, observed: &[ObservedCharge]) {
        // The entries are scattered over 4 MiB, so each write would wait for memory. Reading all of
        // them first makes the processor fetch them at the same time.
        let entry = |seen: &ObservedCharge| {
            let ObservedCharge { observation, .. } = seen;
            (seen.hash, observation.now(), observation.end())
        };
        self.table.touch_all(observed.iter().map(entry));
        for seen in observed {
            self.remember(seen.hash, seen.cost, &seen.observation);
        }
    }

    /// Remembers what the reply to a charge of `cost` showed. In a full set, the counter that is
    /// full again soonest makes room.
    ///
    /// The filter is marked only if another charge of the same cost would be denied now. A charge
    /// that costs more may therefore be sent to Redis once though the shadow would deny it.
    fn remember(&self, hash: u64, cost: u64, observation: &Observation) {
        let Some(words) = observation.packed(hash) else {
            return;
        };
        self.table
            .write(words, observation.now(), observation.end());
        let Observation {
            quota,
            state,
            server_now,
            ..
        } = *observation;
        let next = algorithm::decide(state, quota, cost, server_now).outcome;
        if !next.is_allowed() {
            self.low_filter.mark(hash, observation.received_at);
        }
    }

    /// Forgets a counter that was refunded or reset, because its debt is smaller now.
    pub(super) fn forget(&self, hash: u64) {
        self.table.forget(hash);
    }

    /// The outcome of a request with one charge that Redis would certainly deny; `None` when Redis
    /// has to be called. The usual request takes this way: it builds no list.
    #[inline]
    pub(super) fn deny_one(&self, charge: ShadowCharge<'_>, now: Timestamp) -> Option<Outcome> {
        let estimate = self.estimate(&charge, now)?;
        if !charge.enforced || estimate.may_be_admitted(&charge) {
            return None;
        }
        self.denials.add(1);
        Some(estimate.outcome(&charge))
    }

    /// The prediction for a request of several charges. All its counters must be known: the
    /// outcomes of a denial tell the state of each.
    pub(super) fn predict<'a>(
        &self,
        charges: impl IntoIterator<Item = ShadowCharge<'a>>,
        now: Timestamp,
    ) -> Prediction {
        let mut denied = false;
        let mut wait = Nanos::ZERO;
        let mut outcomes = List::Empty;
        for charge in charges {
            let Some(estimate) = self.estimate(&charge, now) else {
                return Prediction::Unknown;
            };
            if estimate.may_be_admitted(&charge) {
                wait = wait.max(
                    estimate
                        .outcome(&charge)
                        .retry_after()
                        .unwrap_or(Nanos::ZERO),
                );
                // If another charge is denied, this one is not spent: it is answered as a look.
                outcomes.push(estimate.outcome(&ShadowCharge { cost: 0, ..charge }));
            } else {
                denied |= charge.enforced;
                outcomes.push(estimate.outcome(&charge));
            }
        }
        match (denied, wait) {
            (true, _) => {
                self.denials.add(1);
                Prediction::Denied(outcomes)
            }
            (false, Nanos::ZERO) => Prediction::Unknown,
            (false, wait) => Prediction::TooEarly(wait),
        }
    }

    /// The remembered state of a counter, converted to the caller's clock, for the local fallback.
    /// It may be older than [`LIFE`]: a debt that was seen is better than none.
    pub(super) fn remembered(&self, hash: u64, quota: &Quota, now: Timestamp) -> Option<State> {
        let packed = self
            .table
            .read(hash)
            .map(PackedObservation)
            .filter(|packed| now >= packed.received_at())?;
        packed.moved_to(now, quota)
    }

    /// Requests that were denied from memory.
    pub(super) fn denials(&self) -> u64 {
        self.denials.sum()
    }

    /// The remembered state and the bounds of the server's clock; `None` without a fresh
    /// observation under the same quota.
    #[inline]
    fn estimate(&self, charge: &ShadowCharge<'_>, now: Timestamp) -> Option<StateEstimate> {
        if !self.low_filter.may_be_low(charge.hash, now) {
            return None;
        }
        let packed = PackedObservation(self.table.read(charge.hash)?);
        let is_fresh = now >= packed.received_at() && now.since(packed.received_at()) <= LIFE;
        if !is_fresh || !packed.is_of(charge.quota) {
            return None;
        }
        let (longest, shortest) = (
            now.since(packed.sent_at()).get(),
            now.since(packed.received_at()).get(),
        );
        let drift = |span: u64| match self.rates {
            // 1/1024 + 1/32768, rounded up, is slightly more than 1/1000 and needs no division.
            ClockRates::MayDrift => (span >> 10) + (span >> 15) + 2,
            ClockRates::Same => 0,
        };
        Some(StateEstimate {
            state: packed.state(),
            latest: packed
                .server_now()
                .after(Nanos::new(longest + drift(longest))),
            earliest: packed
                .server_now()
                .after(Nanos::new(shortest - drift(shortest).min(shortest))),
        })
    }
}

/// A remembered state, and the two instants between which the server's clock is now.
struct StateEstimate {
    state: Option<State>,
    /// The latest that the server's clock can show now.
    latest: Timestamp,
    /// The earliest that it can show.
    earliest: Timestamp,
}

impl StateEstimate {
    /// Returns true when Redis may admit the charge: judged at the latest instant, at which most
    /// has flowed back.
    #[inline]
    fn may_be_admitted(&self, charge: &ShadowCharge<'_>) -> bool {
        algorithm::decide(self.state, *charge.quota, charge.cost, self.latest)
            .outcome
            .is_allowed()
    }

    /// The outcome to tell: judged at the earliest instant, so that no client comes back too early.
    #[inline]
    fn outcome(&self, charge: &ShadowCharge<'_>) -> Outcome {
        algorithm::decide(self.state, *charge.quota, charge.cost, self.earliest).outcome
    }
}
