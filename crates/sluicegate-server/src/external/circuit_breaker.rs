//! Whom not to ask for a while: a breaker for each caller that the service fails on, and one for the service.
//!
//! Only callers with errors have one, and those are forgotten when nobody asks for them any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// All breakers.
#[derive(Debug)]
pub(super) struct CircuitBreakers {
    service: Mutex<Breaker>,
    shards: Vec<Mutex<BreakerShard>>,
}

/// Breakers of callers, by the hash of limit and key.
#[derive(Debug, Default)]
struct BreakerShard {
    breakers: HashMap<u64, Breaker>,
    swept: Option<Instant>,
}

/// Leave to call; [`CircuitBreakers::report`] takes it back.
#[derive(Debug)]
#[must_use]
pub(super) struct CallPermit {
    caller: PermitKind,
    service_kind: PermitKind,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallResult {
    /// An answer.
    Success,
    /// Something wrong with this caller's answer; the service is there.
    CallerFailure,
    /// Nothing that the service should give.
    ServiceFailure,
    /// Nothing, and that is not the service's fault.
    Inconclusive,
}

const SHARDS: usize = 16;
/// Callers at most: some 80 bytes each.
const KEYS_MAX: usize = 8_192;
const IDLE: Duration = Duration::from_secs(60);
const CALLER_RULE: BreakerRule = BreakerRule {
    errors: 5,
    open_for: Duration::from_secs(30),
};
/// Many callers at once: more errors are needed, and it is tried again sooner.
const SERVICE_RULE: BreakerRule = BreakerRule {
    errors: 20,
    open_for: Duration::from_secs(5),
};

impl CircuitBreakers {
    pub(super) fn new(now: Instant) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            service: Mutex::new(Breaker::new(now)),
            shards,
        }
    }

    /// Leave to call, or until when there is none. While a probe is under way there is no other.
    pub(super) fn admit(&self, key: u64, now: Instant) -> Result<CallPermit, Instant> {
        let mut service = self.service();
        let mut shard = self.shard(key);
        if let Some(until) = service.open_until(now) {
            return Err(until);
        }
        let caller = match shard.active(key, now) {
            None => PermitKind::Normal,
            Some(breaker) => breaker.admit(CALLER_RULE, now)?,
        };
        Ok(CallPermit {
            caller,
            service_kind: service.admit(SERVICE_RULE, now)?,
        })
    }

    /// Until when there is no leave, without taking it.
    pub(super) fn open_until(&self, key: u64, now: Instant) -> Option<Instant> {
        let service_kind = self.service().open_until(now);
        service_kind.or_else(|| {
            self.shard(key)
                .active(key, now)
                .and_then(|breaker| breaker.open_until(now))
        })
    }

    /// Notes what came of a call; returns how many breakers opened.
    pub(super) fn report(
        &self,
        key: u64,
        permit: CallPermit,
        result: CallResult,
        now: Instant,
    ) -> u64 {
        let is_well = |is_wrong: bool| {
            if is_wrong {
                Some(false)
            } else {
                (result != CallResult::Inconclusive).then_some(true)
            }
        };
        let service_kind = self.service().report(
            permit.service_kind,
            is_well(result == CallResult::ServiceFailure),
            SERVICE_RULE,
            now,
        );
        let mut shard = self.shard(key);
        let is_wrong = matches!(
            result,
            CallResult::ServiceFailure | CallResult::CallerFailure
        );
        if is_wrong {
            shard.make_room(now);
            shard
                .breakers
                .entry(key)
                .or_insert_with(|| Breaker::new(now));
        }
        let caller = match shard.breakers.get_mut(&key) {
            None => false,
            Some(breaker) => breaker.report(permit.caller, is_well(is_wrong), CALLER_RULE, now),
        };
        if result == CallResult::Success {
            shard.breakers.remove(&key);
        }
        u64::from(service_kind) + u64::from(caller)
    }

    /// Callers that have a breaker.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| {
                shard
                    .lock()
                    .expect("no holder of this lock panics")
                    .breakers
                    .len()
            })
            .sum()
    }

    fn service(&self) -> MutexGuard<'_, Breaker> {
        self.service.lock().expect("no holder of this lock panics")
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, BreakerShard> {
        self.shards[key as usize % SHARDS]
            .lock()
            .expect("no holder of this lock panics")
    }
}

impl BreakerShard {
    /// The breaker of a caller who was asked for not long ago.
    fn active(&mut self, key: u64, now: Instant) -> Option<&mut Breaker> {
        if self.breakers.get(&key)?.is_idle(now) {
            self.breakers.remove(&key);
        }
        self.breakers.get_mut(&key)
    }

    fn make_room(&mut self, now: Instant) {
        let is_full = self.breakers.len() >= KEYS_MAX / SHARDS;
        if is_full || self.swept.is_none_or(|swept| swept + IDLE <= now) {
            self.breakers.retain(|_, breaker| !breaker.is_idle(now));
            self.swept = Some(now);
        }
        if self.breakers.len() >= KEYS_MAX / SHARDS {
            let oldest = self
                .breakers
                .iter()
                .min_by_key(|(_, breaker)| breaker.last_used)
                .map(|(key, _)| *key);
            oldest.and_then(|key| self.breakers.remove(&key));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct BreakerRule {
    /// In a row.
    errors: u32,
    open_for: Duration,
}

#[derive(Debug)]
struct Breaker {
    state: BreakerState,
    last_used: Instant,
}

#[derive(Debug)]
enum BreakerState {
    Closed {
        errors: u32,
    },
    Open {
        until: Instant,
    },
    /// One call finds out whether all is well again. If nothing is ever heard of it, another one may later.
    Probing {
        until: Instant,
    },
}

/// How a call was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermitKind {
    Normal,
    Probe,
}

impl Breaker {
    fn new(now: Instant) -> Self {
        Self {
            state: BreakerState::Closed { errors: 0 },
            last_used: now,
        }
    }

    fn open_until(&self, now: Instant) -> Option<Instant> {
        match self.state {
            BreakerState::Open { until } | BreakerState::Probing { until } if now < until => {
                Some(until)
            }
            BreakerState::Closed { .. }
            | BreakerState::Open { .. }
            | BreakerState::Probing { .. } => None,
        }
    }

    fn admit(&mut self, rule: BreakerRule, now: Instant) -> Result<PermitKind, Instant> {
        self.last_used = now;
        match self.open_until(now) {
            Some(until) => Err(until),
            None if matches!(self.state, BreakerState::Closed { .. }) => Ok(PermitKind::Normal),
            None => {
                self.state = BreakerState::Probing {
                    until: now + rule.open_for,
                };
                Ok(PermitKind::Probe)
            }
        }
    }

    /// Whether it opened. What comes of a call that began before it opened changes nothing.
    fn report(
        &mut self,
        pass: PermitKind,
        is_well: Option<bool>,
        rule: BreakerRule,
        now: Instant,
    ) -> bool {
        self.last_used = now;
        let open = BreakerState::Open {
            until: now + rule.open_for,
        };
        match (&mut self.state, pass, is_well) {
            (BreakerState::Closed { errors }, _, Some(true)) => *errors = 0,
            (BreakerState::Closed { errors }, _, Some(false)) => {
                *errors += 1;
                if *errors >= rule.errors {
                    self.state = open;
                    return true;
                }
            }
            (BreakerState::Probing { .. }, PermitKind::Probe, Some(true)) => {
                self.state = BreakerState::Closed { errors: 0 }
            }
            (BreakerState::Probing { .. }, PermitKind::Probe, Some(false)) => {
                self.state = open;
                return true;
            }
            // The next one may try.
            (BreakerState::Probing { .. }, PermitKind::Probe, None) => {
                self.state = BreakerState::Open { until: now }
            }
            (
                BreakerState::Closed { .. }
                | BreakerState::Open { .. }
                | BreakerState::Probing { .. },
                _,
                _,
            ) => {}
        }
        false
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.last_used + IDLE <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    /// A caller whose answers make no sense, so that the service as a whole is not blamed.
    fn fail(breakers: &CircuitBreakers, key: u64, now: Instant) -> u64 {
        let permit = breakers.admit(key, now).unwrap();
        breakers.report(key, permit, CallResult::CallerFailure, now)
    }

    fn fail_all(breakers: &CircuitBreakers, keys: impl IntoIterator<Item = u64>, now: Instant) {
        for key in keys {
            fail(breakers, key, now);
        }
    }

    /// E11
    #[test]
    fn five_errors_in_a_row_open_for_thirty_seconds_and_then_one_may_try() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        assert_eq!((0..4).map(|_| fail(&breakers, 1, start)).sum::<u64>(), 0);
        assert_eq!(fail(&breakers, 1, start), 1);
        assert_eq!(
            breakers.admit(1, after(start, 29)).unwrap_err(),
            after(start, 30)
        );
        let probe = breakers.admit(1, after(start, 30)).unwrap();
        assert!(
            breakers.admit(1, after(start, 30)).is_err(),
            "a second probe"
        );
        assert_eq!(
            breakers.report(1, probe, CallResult::CallerFailure, after(start, 31)),
            1
        );
        assert!(breakers.admit(1, after(start, 60)).is_err(), "open again");
        let probe = breakers.admit(1, after(start, 61)).unwrap();
        assert_eq!(
            breakers.report(1, probe, CallResult::Success, after(start, 61)),
            0
        );
        assert!(breakers.admit(1, after(start, 61)).is_ok());
        assert_eq!(breakers.len(), 0, "who is well has none");
    }

    #[test]
    fn an_answer_in_between_starts_the_count_again() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        for _ in 0..10 {
            (0..4).for_each(|_| assert_eq!(fail(&breakers, 1, start), 0));
            let permit = breakers.admit(1, start).unwrap();
            assert_eq!(breakers.report(1, permit, CallResult::Success, start), 0);
        }
    }

    #[test]
    fn the_callers_of_others_are_not_touched() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        fail_all(&breakers, [1; 5], start);
        assert!(breakers.admit(1, start).is_err());
        assert!(breakers.admit(1 + SHARDS as u64, start).is_ok());
        assert!(breakers.admit(2, start).is_ok());
    }

    /// T-60
    #[test]
    fn twenty_errors_of_any_callers_open_for_all() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        let mut calls = 0;
        for key in 0..100_000 {
            if let Ok(permit) = breakers.admit(key, start) {
                calls += 1;
                breakers.report(key, permit, CallResult::ServiceFailure, start);
            }
        }
        assert_eq!(calls, 20);
        assert_eq!(breakers.open_until(7, start), Some(after(start, 5)));
        let probe = breakers.admit(7, after(start, 5)).unwrap();
        assert!(
            breakers.admit(8, after(start, 5)).is_err(),
            "a second probe"
        );
        breakers.report(7, probe, CallResult::Success, after(start, 5));
        assert!(breakers.admit(8, after(start, 5)).is_ok());
    }

    #[test]
    fn answers_that_make_no_sense_are_a_sign_of_life() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        fail_all(&breakers, 0..1_000, start);
        assert!(breakers.admit(5_000, start).is_ok());
    }

    #[test]
    fn a_probe_that_came_to_nothing_is_tried_again_at_once() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        fail_all(&breakers, [1; 5], start);
        let probe = breakers.admit(1, after(start, 30)).unwrap();
        assert_eq!(
            breakers.report(1, probe, CallResult::Inconclusive, after(start, 30)),
            0
        );
        assert!(breakers.admit(1, after(start, 30)).is_ok());
    }

    #[test]
    fn a_late_error_of_a_call_from_before_does_not_end_a_probe() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        let late = breakers.admit(1, start).unwrap();
        fail_all(&breakers, [1; 5], start);
        let probe = breakers.admit(1, after(start, 30)).unwrap();
        breakers.report(1, late, CallResult::CallerFailure, after(start, 30));
        breakers.report(1, probe, CallResult::Success, after(start, 30));
        assert!(breakers.admit(1, after(start, 30)).is_ok());
    }

    /// E11, T-60
    #[test]
    fn idle_breakers_are_forgotten_and_their_number_is_bounded() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        fail_all(&breakers, 0..100_000, start);
        assert!(breakers.len() <= KEYS_MAX, "{}", breakers.len());
        fail_all(&breakers, 0..SHARDS as u64, after(start, 60));
        assert_eq!(breakers.len(), SHARDS);
        fail_all(&breakers, [3; 4], after(start, 60));
        assert!(breakers.admit(3, after(start, 61)).is_err());
        assert!(
            breakers.admit(3, after(start, 121)).is_ok(),
            "nobody asked for a minute"
        );
    }
}
