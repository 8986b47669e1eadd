//! Shadows: the last state of a counter that this replica saw in a reply of Redis.
//!
//! The idea: other replicas can only add to the debt of a counter. So the state seen last, moved on
//! by the time that has passed since, is the smallest debt that Redis can hold now. If even that
//! denies a charge, Redis would deny it too, and no call is needed.
//!
//! **Invariant:** no request is denied from memory that Redis would admit, unless another replica
//! refunded or reset the counter within the last two seconds ([`LIFE`]). This replica forgets a
//! counter that it refunds or resets itself.
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

/// What memory says about a request before Redis is called.
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
    pub(super) fn remember_all(&self, seen: &[ObservedCharge]) {
        // The entries are scattered over 4 MiB, so each write would wait for memory. Reading all of
        // them first makes the processor fetch them at the same time.
        self.table.touch_all(seen.iter().map(
            |ObservedCharge {
                 hash, observation, ..
             }| (*hash, observation.now(), observation.end()),
        ));
        seen.iter().for_each(
            |ObservedCharge {
                 hash,
                 cost,
                 observation,
             }| self.remember(*hash, *cost, observation),
        );
    }

    /// Remembers what the reply to a charge of `cost` showed. In a full set, the counter that is full
    /// again soonest makes room.
    ///
    /// The filter is marked only if another charge of the same cost would be denied now. A charge
    /// that costs more may therefore be sent to Redis once though the shadow would deny it.
    fn remember(&self, hash: u64, cost: u64, observation: &Observation) {
        let Some(words) = observation.packed(hash) else {
            return;
        };
        self.table
            .write(words, observation.now(), observation.end());
        if !algorithm::decide(
            observation.state,
            observation.quota,
            cost,
            observation.server_now,
        )
        .outcome
        .is_allowed()
        {
            self.low_filter.mark(hash, observation.received_at);
        }
    }

    /// Forgets a counter that was refunded or reset, because its debt is smaller now.
    pub(super) fn forget(&self, hash: u64) {
        self.table.forget(hash);
    }

    /// The outcome of a request with one charge that Redis would certainly deny; `None` when Redis has
    /// to be called. The usual request takes this way: it builds no list.
    #[inline]
    pub(super) fn deny_one(&self, charge: ShadowCharge<'_>, now: Timestamp) -> Option<Outcome> {
        let estimate = self.estimate(&charge, now)?;
        if !charge.enforced || estimate.may_be_admitted(&charge) {
            return None;
        }
        self.denials.add(1);
        Some(estimate.outcome(&charge))
    }

    /// The prediction for a request of several charges. All its counters must be known: the outcomes
    /// of a denial tell the state of each.
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
                // If another charge is denied, this one is not spent: its outcome is that of a look.
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

    /// The remembered state of a counter, converted to the caller's clock, for the local fallback. It
    /// may be older than [`LIFE`]: a debt that was seen is better than none.
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

    /// The remembered state and the bounds of the server's clock; `None` without a fresh observation
    /// under the same quota.
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
    latest: Timestamp,
    earliest: Timestamp,
}

impl StateEstimate {
    /// Returns true when Redis may admit the charge: judged at the latest instant, at which most has
    /// flowed back.
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

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Timestamp = Timestamp::from_millis;

    fn charge(quota: &Quota, cost: u64) -> ShadowCharge<'_> {
        ShadowCharge {
            hash: 1,
            quota,
            cost,
            enforced: true,
        }
    }

    fn denied<const N: usize>(
        shadows: &Shadows,
        charges: [ShadowCharge<'_>; N],
        now: Timestamp,
    ) -> Option<List<Outcome>> {
        let denied = match shadows.predict(charges, now) {
            Prediction::Denied(outcomes) => Some(outcomes),
            Prediction::Unknown | Prediction::TooEarly(_) => None,
        };
        if let [charge] = charges[..] {
            let alone = shadows.deny_one(charge, now).map(List::One);
            assert_eq!(
                denied, alone,
                "a charge alone is answered like one among others"
            );
        }
        denied
    }

    fn empty() -> (Shadows, Quota) {
        empty_by(ClockRates::MayDrift)
    }

    /// Ten a second, two at once, empty at the server's second 100, which was between 5.000 and 5.010 here.
    fn empty_by(rates: ClockRates) -> (Shadows, Quota) {
        let quota = Quota::from(Quota::per_second(10).burst(2));
        let shadows = Shadows::new(rates);
        let state = Some(State::Instant(AT(100_200)));
        let observation = Observation {
            quota,
            state,
            server_now: AT(100_000),
            sent_at: AT(5_000),
            received_at: AT(5_010),
        };
        shadows.remember(1, 1, &observation);
        (shadows, quota)
    }

    #[test]
    fn denies_exactly_while_the_store_would() {
        let (shadows, quota) = empty();
        assert!(denied(&shadows, [charge(&quota, 1)], AT(5_099)).is_some());
        assert!(
            denied(&shadows, [charge(&quota, 1)], AT(5_100)).is_none(),
            "the store may have a unit by now"
        );
        assert!(denied(&shadows, [charge(&quota, 2)], AT(5_199)).is_some());
        assert!(denied(&shadows, [charge(&quota, 2)], AT(5_200)).is_none());
        assert!(
            denied(&shadows, [charge(&quota, 3)], AT(5_500)).is_some(),
            "more than it ever holds"
        );
    }

    #[test]
    fn a_call_that_would_come_too_early_is_delayed() {
        let (shadows, quota) = empty();
        assert!(matches!(
            shadows.predict([charge(&quota, 1)], AT(5_099)),
            Prediction::Denied(_)
        ));
        let Prediction::TooEarly(wait) = shadows.predict([charge(&quota, 1)], AT(5_100)) else {
            panic!("too early")
        };
        assert!(
            wait >= Nanos::from_millis(10) && wait < Nanos::from_millis(11),
            "received at 5.010: {wait}"
        );
        assert_eq!(
            shadows.predict([charge(&quota, 1)], AT(5_111)),
            Prediction::Unknown
        );
    }

    #[test]
    fn a_clock_that_may_run_faster_or_slower_is_given_the_benefit_of_the_doubt() {
        let just_before = AT(5_100).before(Nanos::new(50_000));
        for (rates, is_denied) in [(ClockRates::MayDrift, false), (ClockRates::Same, true)] {
            let (shadows, quota) = empty_by(rates);
            assert_eq!(
                denied(&shadows, [charge(&quota, 1)], just_before).is_some(),
                is_denied,
                "{rates:?}"
            );
            let outcomes = denied(&shadows, [charge(&quota, 1)], AT(5_060)).expect("denied");
            let slack = if rates == ClockRates::MayDrift {
                50_000..=50_500
            } else {
                0..=0
            };
            let excess = outcomes[0].retry_after().expect("a wait helps").get()
                - Nanos::from_millis(50).get();
            assert!(
                slack.contains(&excess),
                "50 ms after it was received: {excess} ns more"
            );
        }
    }

    #[test]
    fn the_wait_it_tells_is_never_too_short() {
        let (shadows, quota) = empty();
        let outcomes = denied(&shadows, [charge(&quota, 1)], AT(5_050)).expect("denied");
        let wait = outcomes[0].retry_after().expect("a wait helps");
        assert!(
            wait >= Nanos::from_millis(60),
            "received at 5.010, so the unit comes at 5.110 at the latest: {wait}"
        );
        assert!(wait < Nanos::from_millis(61));
    }

    #[test]
    fn a_request_is_denied_from_memory_only_if_all_its_counters_are_known() {
        let (shadows, quota) = empty();
        let unknown = ShadowCharge {
            hash: 2,
            ..charge(&quota, 1)
        };
        assert!(denied(&shadows, [charge(&quota, 1), unknown], AT(5_050)).is_none());
        let watched = ShadowCharge {
            enforced: false,
            ..charge(&quota, 1)
        };
        assert!(
            denied(&shadows, [watched], AT(5_050)).is_none(),
            "a limit that only watches stops nobody"
        );
    }

    #[test]
    fn an_old_sight_or_one_of_another_quota_denies_nobody() {
        let quota = Quota::from(Quota::per_minute(1).burst(1));
        let shadows = Shadows::new(ClockRates::MayDrift);
        let state = Some(State::Instant(AT(160_000)));
        let observation = Observation {
            quota,
            state,
            server_now: AT(100_000),
            sent_at: AT(5_000),
            received_at: AT(5_000),
        };
        shadows.remember(1, 1, &observation);
        assert!(denied(&shadows, [charge(&quota, 1)], AT(7_000)).is_some());
        assert!(
            denied(&shadows, [charge(&quota, 1)], AT(7_001)).is_none(),
            "two seconds are its life"
        );
        assert!(
            denied(&shadows, [charge(&quota, 1)], AT(4_999)).is_none(),
            "the clock went back"
        );
        let other = Quota::from(Quota::per_minute(1).burst(2));
        assert!(denied(&shadows, [charge(&other, 1)], AT(5_001)).is_none());
        shadows.forget(1);
        assert!(denied(&shadows, [charge(&quota, 1)], AT(5_001)).is_none());
    }

    #[test]
    fn a_flood_of_other_keys_does_not_displace_the_largest_debt() {
        let (shadows, quota) = empty();
        for hash in (1..100_u64).map(|times| times * COUNTERS as u64 + 1) {
            let state = Some(State::Instant(AT(100_100)));
            let observation = Observation {
                quota,
                state,
                server_now: AT(100_000),
                sent_at: AT(5_000),
                received_at: AT(5_010),
            };
            shadows.remember(hash, 1, &observation);
        }
        assert!(denied(&shadows, [charge(&quota, 1)], AT(5_050)).is_some());
    }

    #[test]
    fn requests_denied_from_memory_are_counted() {
        let (shadows, quota) = empty();
        assert_eq!(shadows.denials(), 0);
        denied(&shadows, [charge(&quota, 1)], AT(5_050)).expect("denied, twice");
        denied(&shadows, [charge(&quota, 1)], AT(5_300))
            .ok_or(())
            .unwrap_err();
        denied(&shadows, [charge(&quota, 1), charge(&quota, 1)], AT(5_050)).expect("denied");
        assert_eq!(
            shadows.denials(),
            3,
            "a request counts once, however many of its charges are denied"
        );
    }

    #[test]
    fn a_remembered_debt_stays_one_under_other_numbers() {
        let (shadows, quota) = empty();
        let state = shadows.remembered(1, &quota, AT(5_110));
        assert_eq!(
            state,
            Some(State::Instant(AT(5_210))),
            "100 ms of the debt are left"
        );
        let reloaded = Quota::from(Quota::per_second(5).burst(2));
        assert_eq!(shadows.remembered(1, &reloaded, AT(5_110)), state);
        assert_eq!(
            shadows.remembered(1, &quota, AT(5_009)),
            None,
            "the clock went back"
        );
    }
}
