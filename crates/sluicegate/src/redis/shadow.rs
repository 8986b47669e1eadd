//! Shadows: what this replica last saw of a counter. Enough to deny without a call, and to go on when the store is away.
//!
//! A counter's debt only grows by what others spend, so the state seen last, moved on by the time that has passed, is
//! the least that the store would say now. If even that denies a charge, the store would deny it too.

mod low_filter;
mod observation;
mod table;

use sluicegate_core::algorithm::{self, State};
use sluicegate_core::{List, Nanos, Outcome, Quota, Timestamp};

use self::low_filter::LowCounterFilter;
pub(super) use self::observation::Observation;
use self::observation::PackedObservation;
use self::table::ShadowTable;
use crate::tally::Tally;

/// The last sight of many counters, in bounded memory.
pub(super) struct Shadows {
    table: ShadowTable<{ PackedObservation::WORDS }>,
    marks: LowCounterFilter,
    rates: ClockRates,
    denials: Tally,
}

/// How far the server's clock and the caller's may drift apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockRates {
    /// Two clocks: a part in a thousand.
    MayDrift,
    /// The server is excess the caller's time.
    Same,
}

/// What the answer to a charge showed of its counter.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObservedCharge {
    pub(super) hash: u64,
    pub(super) cost: u64,
    pub(super) sight: Observation,
}

/// A charge as shadows see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShadowCharge<'a> {
    pub(super) hash: u64,
    pub(super) quota: &'a Quota,
    pub(super) cost: u64,
    pub(super) enforced: bool,
}

/// What is known of a request before the store is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Prediction {
    /// Nothing that helps: ask.
    Unknown,
    /// The store may deny it now and would not after this wait, if nobody else spends. It is short: as long as it took
    /// to hear from the store. Whoever asks before it may have to ask twice.
    TooEarly(Nanos),
    /// The store would deny it.
    Denied(List<Outcome>),
}

/// Longer than this nobody is denied from memory: somebody may have refunded or reset the counter elsewhere.
const LIFE: Nanos = Nanos::from_secs(2);
const COUNTERS: usize = 65_536;

impl Shadows {
    pub(super) fn new(rates: ClockRates) -> Self {
        Self {
            table: ShadowTable::new(COUNTERS),
            marks: LowCounterFilter::new(),
            rates,
            denials: Tally::default(),
        }
    }

    /// Keeps what the answers to many charges showed.
    pub(super) fn remember_all(&self, seen: &[ObservedCharge]) {
        // A sight is far away in memory: one after the other, each would be waited for.
        self.table.touch_all(
            seen.iter()
                .map(|ObservedCharge { hash, sight, .. }| (*hash, sight.now(), sight.end())),
        );
        seen.iter()
            .for_each(|ObservedCharge { hash, cost, sight }| self.remember(*hash, *cost, sight));
    }

    /// Keeps what the answer to a charge of `cost` showed; the shadow nearest to full makes room for it.
    ///
    /// Charges of at most that cost are denied by it from now on, where it says so. One that asks for more is sent to the
    /// store if this one would still fit.
    fn remember(&self, hash: u64, cost: u64, sight: &Observation) {
        let Some(words) = sight.words(hash) else {
            return;
        };
        self.table.write(words, sight.now(), sight.end());
        if !algorithm::decide(sight.state, sight.quota, cost, sight.server_now)
            .outcome
            .is_allowed()
        {
            self.marks.set(hash, sight.received_at);
        }
    }

    /// Drops a sight: the counter was refunded or reset.
    pub(super) fn forget(&self, hash: u64) {
        self.table.forget(hash);
    }

    /// The answer to a request of one charge that the store would deny for certain; `None` when it has to be asked.
    #[inline]
    pub(super) fn deny_one(&self, charge: ShadowCharge<'_>, now: Timestamp) -> Option<Outcome> {
        let view = self.view(&charge, now)?;
        if !charge.enforced || view.may_fit(&charge) {
            return None;
        }
        self.denials.add(1);
        Some(view.answer(&charge))
    }

    /// What the store would say, as far as that is certain.
    pub(super) fn foresee<'a>(
        &self,
        charges: impl IntoIterator<Item = ShadowCharge<'a>>,
        now: Timestamp,
    ) -> Prediction {
        let mut denied = false;
        let mut not_yet = Nanos::ZERO;
        let mut outcomes = List::Empty;
        for charge in charges {
            let Some(view) = self.view(&charge, now) else {
                return Prediction::Unknown;
            };
            if view.may_fit(&charge) {
                not_yet = not_yet.max(view.answer(&charge).retry_after().unwrap_or(Nanos::ZERO));
                // Not taken when another charge stops the request: it is answered as a look.
                outcomes.push(view.answer(&ShadowCharge { cost: 0, ..charge }));
            } else {
                denied |= charge.enforced;
                outcomes.push(view.answer(&charge));
            }
        }
        match (denied, not_yet) {
            (true, _) => {
                self.denials.add(1);
                Prediction::Denied(outcomes)
            }
            (false, Nanos::ZERO) => Prediction::Unknown,
            (false, wait) => Prediction::TooEarly(wait),
        }
    }

    /// The state that a counter was seen in, as it would be by the caller's clock.
    pub(super) fn remembered(&self, hash: u64, quota: &Quota, now: Timestamp) -> Option<State> {
        let kept = self
            .table
            .read(hash)
            .map(PackedObservation)
            .filter(|kept| now >= kept.received_at())?;
        kept.moved_to(now, quota)
    }

    /// Requests that were denied from memory.
    pub(super) fn denials(&self) -> u64 {
        self.denials.sum()
    }

    #[inline]
    fn view(&self, charge: &ShadowCharge<'_>, now: Timestamp) -> Option<StateEstimate> {
        if !self.marks.is_set(charge.hash, now) {
            return None;
        }
        let kept = PackedObservation(self.table.read(charge.hash)?);
        let is_fresh = now >= kept.received_at() && now.since(kept.received_at()) <= LIFE;
        if !is_fresh || !kept.is_of(charge.quota) {
            return None;
        }
        let (longest, shortest) = (
            now.since(kept.sent_at()).get(),
            now.since(kept.received_at()).get(),
        );
        let drift = |span: u64| match self.rates {
            // 1/1024 and 1/32768 of it, rounded up: a hair more than a thousandth, without a division.
            ClockRates::MayDrift => (span >> 10) + (span >> 15) + 2,
            ClockRates::Same => 0,
        };
        Some(StateEstimate {
            state: kept.state(),
            latest: kept
                .server_now()
                .after(Nanos::new(longest + drift(longest))),
            earliest: kept
                .server_now()
                .after(Nanos::new(shortest - drift(shortest).min(shortest))),
        })
    }
}

/// A state, and the two instants between which the server's clock is now.
struct StateEstimate {
    state: Option<State>,
    latest: Timestamp,
    earliest: Timestamp,
}

impl StateEstimate {
    /// Asked at the latest instant, so that no one is denied whom the store would let pass.
    #[inline]
    fn may_fit(&self, charge: &ShadowCharge<'_>) -> bool {
        algorithm::decide(self.state, *charge.quota, charge.cost, self.latest)
            .outcome
            .is_allowed()
    }

    /// Answered for the earliest instant, so that no one comes back too early.
    #[inline]
    fn answer(&self, charge: &ShadowCharge<'_>) -> Outcome {
        algorithm::decide(self.state, *charge.quota, charge.cost, self.earliest).outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Timestamp = Timestamp::from_millis;

    fn looked(quota: &Quota, cost: u64) -> ShadowCharge<'_> {
        ShadowCharge {
            hash: 1,
            quota,
            cost,
            enforced: true,
        }
    }

    fn deny<const N: usize>(
        shadows: &Shadows,
        charges: [ShadowCharge<'_>; N],
        now: Timestamp,
    ) -> Option<List<Outcome>> {
        let denied = match shadows.foresee(charges, now) {
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
        let sight = Observation {
            quota,
            state,
            server_now: AT(100_000),
            sent_at: AT(5_000),
            received_at: AT(5_010),
        };
        shadows.remember(1, 1, &sight);
        (shadows, quota)
    }

    #[test]
    fn denies_exactly_while_the_store_would() {
        let (shadows, quota) = empty();
        assert!(deny(&shadows, [looked(&quota, 1)], AT(5_099)).is_some());
        assert!(
            deny(&shadows, [looked(&quota, 1)], AT(5_100)).is_none(),
            "the store may have a unit by now"
        );
        assert!(deny(&shadows, [looked(&quota, 2)], AT(5_199)).is_some());
        assert!(deny(&shadows, [looked(&quota, 2)], AT(5_200)).is_none());
        assert!(
            deny(&shadows, [looked(&quota, 3)], AT(5_500)).is_some(),
            "more than it ever holds"
        );
    }

    #[test]
    fn whoever_would_ask_too_early_is_told_to_wait() {
        let (shadows, quota) = empty();
        assert!(matches!(
            shadows.foresee([looked(&quota, 1)], AT(5_099)),
            Prediction::Denied(_)
        ));
        let Prediction::TooEarly(wait) = shadows.foresee([looked(&quota, 1)], AT(5_100)) else {
            panic!("not yet")
        };
        assert!(
            wait >= Nanos::from_millis(10) && wait < Nanos::from_millis(11),
            "received at 5.010: {wait}"
        );
        assert_eq!(
            shadows.foresee([looked(&quota, 1)], AT(5_111)),
            Prediction::Unknown
        );
    }

    #[test]
    fn a_clock_that_may_run_faster_or_slower_is_given_the_benefit_of_the_doubt() {
        let just_before = AT(5_100).before(Nanos::new(50_000));
        for (rates, is_denied) in [(ClockRates::MayDrift, false), (ClockRates::Same, true)] {
            let (shadows, quota) = empty_by(rates);
            assert_eq!(
                deny(&shadows, [looked(&quota, 1)], just_before).is_some(),
                is_denied,
                "{rates:?}"
            );
            let denied = deny(&shadows, [looked(&quota, 1)], AT(5_060)).expect("denied");
            let slack = if rates == ClockRates::MayDrift {
                50_000..=50_500
            } else {
                0..=0
            };
            let excess =
                denied[0].retry_after().expect("a wait helps").get() - Nanos::from_millis(50).get();
            assert!(
                slack.contains(&excess),
                "50 ms after it was received: {excess} ns more"
            );
        }
    }

    #[test]
    fn the_wait_it_tells_is_never_too_short() {
        let (shadows, quota) = empty();
        let denied = deny(&shadows, [looked(&quota, 1)], AT(5_050)).expect("denied");
        let wait = denied[0].retry_after().expect("a wait helps");
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
            ..looked(&quota, 1)
        };
        assert!(deny(&shadows, [looked(&quota, 1), unknown], AT(5_050)).is_none());
        let watched = ShadowCharge {
            enforced: false,
            ..looked(&quota, 1)
        };
        assert!(
            deny(&shadows, [watched], AT(5_050)).is_none(),
            "a limit that only watches stops nobody"
        );
    }

    #[test]
    fn an_old_sight_or_one_of_another_quota_denies_nobody() {
        let quota = Quota::from(Quota::per_minute(1).burst(1));
        let shadows = Shadows::new(ClockRates::MayDrift);
        let state = Some(State::Instant(AT(160_000)));
        let sight = Observation {
            quota,
            state,
            server_now: AT(100_000),
            sent_at: AT(5_000),
            received_at: AT(5_000),
        };
        shadows.remember(1, 1, &sight);
        assert!(deny(&shadows, [looked(&quota, 1)], AT(7_000)).is_some());
        assert!(
            deny(&shadows, [looked(&quota, 1)], AT(7_001)).is_none(),
            "two seconds are its life"
        );
        assert!(
            deny(&shadows, [looked(&quota, 1)], AT(4_999)).is_none(),
            "the clock went back"
        );
        let other = Quota::from(Quota::per_minute(1).burst(2));
        assert!(deny(&shadows, [looked(&other, 1)], AT(5_001)).is_none());
        shadows.forget(1);
        assert!(deny(&shadows, [looked(&quota, 1)], AT(5_001)).is_none());
    }

    #[test]
    fn a_flood_of_other_keys_does_not_wash_out_who_owes_most() {
        let (shadows, quota) = empty();
        for hash in (1..100_u64).map(|times| times * COUNTERS as u64 + 1) {
            let state = Some(State::Instant(AT(100_100)));
            let sight = Observation {
                quota,
                state,
                server_now: AT(100_000),
                sent_at: AT(5_000),
                received_at: AT(5_010),
            };
            shadows.remember(hash, 1, &sight);
        }
        assert!(deny(&shadows, [looked(&quota, 1)], AT(5_050)).is_some());
    }

    #[test]
    fn requests_denied_from_memory_are_counted() {
        let (shadows, quota) = empty();
        assert_eq!(shadows.denials(), 0);
        deny(&shadows, [looked(&quota, 1)], AT(5_050)).expect("denied, twice");
        deny(&shadows, [looked(&quota, 1)], AT(5_300))
            .ok_or(())
            .unwrap_err();
        deny(&shadows, [looked(&quota, 1), looked(&quota, 1)], AT(5_050)).expect("denied");
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
