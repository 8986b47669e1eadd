//! Circuit breakers: when not to call the service.
//!
//! Idea: there is one breaker for the service as a whole and one for each caller that it fails on.
//! Each counts errors in a row. At its bound it *opens*: nobody calls for a while. Then exactly one
//! call, the *probe*, is let through; a success closes the breaker, a failure opens it again.
//!
//! Two levels are needed, because "the service is down" and "the service cannot answer for this
//! caller" (an unknown tenant, a reply that does not parse) look the same to a single counter: one
//! bad tenant would cut off everybody, or an outage would be found out caller by caller.
//!
//! Invariants:
//! - A call happens only with a [`CallPermit`], and needs both breakers to be closed or probing.
//! - At most one probe per breaker is under way; a probe that is never reported is given up after
//!   the open time, so that a lost task cannot keep a breaker open for ever.
//! - A call that began before a breaker opened cannot close it or end its probe.
//! - Only callers with errors have a breaker, idle ones are dropped, and there are at most
//!   [`CALLERS_MAX`], so that hostile callers cannot fill the memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// The breaker of the service and those of its callers.
///
/// Lock order where both are held: the service first, then the shard of the caller.
#[derive(Debug)]
pub(super) struct CircuitBreakers {
    service: Mutex<Breaker>,
    shards: Vec<Mutex<BreakerShard>>,
}

/// Breakers of callers, by the hash of limit and key. Two callers with the same hash share one,
/// which costs them at worst a pause that the other one earned.
#[derive(Debug, Default)]
struct BreakerShard {
    breakers: HashMap<u64, Breaker>,
    /// The last time that idle breakers were removed.
    swept: Option<Instant>,
}

/// Permission for one call; [`CircuitBreakers::report`] takes it back with the result.
#[derive(Debug)]
#[must_use]
pub(super) struct CallPermit {
    caller: PermitKind,
    service: PermitKind,
}

/// The result of a call, as the breakers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallResult {
    /// A usable reply.
    Success,
    /// An unusable reply for this caller; the service itself works.
    CallerFailure,
    /// The service is away, too slow or overloaded.
    ServiceFailure,
    /// No reply, for a reason that is not the service's, such as too little time left.
    Inconclusive,
}

/// The number of locks that the callers' breakers are spread over.
const SHARDS: usize = 16;
/// The most callers with a breaker; some 80 bytes each.
const CALLERS_MAX: usize = 8_192;
/// A breaker that nobody used for this long is dropped.
const IDLE: Duration = Duration::from_secs(60);
/// One caller: few errors are enough, and it can wait.
const CALLER_RULE: BreakerRule = BreakerRule {
    errors: 5,
    open_for: Duration::from_secs(30),
};
/// All callers: more errors are needed, and recovery is looked for sooner.
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

    /// A permit to call for the caller with this hash, or the time until which there is none.
    ///
    /// Both breakers are asked under their locks, so that a permit which makes one of them probe is
    /// never lost because the other one refuses.
    pub(super) fn admit(&self, caller: u64, now: Instant) -> Result<CallPermit, Instant> {
        let mut service = self.service();
        let mut shard = self.shard(caller);
        if let Some(until) = service.open_until(now) {
            return Err(until);
        }
        let caller_permit = match shard.active(caller, now) {
            None => PermitKind::Normal,
            Some(breaker) => breaker.admit(CALLER_RULE, now)?,
        };
        Ok(CallPermit {
            caller: caller_permit,
            service: service.admit(SERVICE_RULE, now)?,
        })
    }

    /// The time until which there is no permit, without taking one; `None` when one may be had.
    pub(super) fn open_until(&self, caller: u64, now: Instant) -> Option<Instant> {
        let service = self.service().open_until(now);
        service.or_else(|| {
            self.shard(caller)
                .active(caller, now)
                .and_then(|breaker| breaker.open_until(now))
        })
    }

    /// Records the result of a call and returns how many breakers it opened.
    pub(super) fn report(
        &self,
        caller: u64,
        permit: CallPermit,
        result: CallResult,
        now: Instant,
    ) -> u64 {
        let of_breaker = |is_failure: bool| match result {
            _ if is_failure => BreakerResult::Failure,
            CallResult::Inconclusive => BreakerResult::Inconclusive,
            _ => BreakerResult::Success,
        };
        let of_service = of_breaker(result == CallResult::ServiceFailure);
        let service_opened = self
            .service()
            .report(permit.service, of_service, SERVICE_RULE, now);
        let mut shard = self.shard(caller);
        let of_caller = of_breaker(matches!(
            result,
            CallResult::ServiceFailure | CallResult::CallerFailure
        ));
        if of_caller == BreakerResult::Failure {
            shard.make_room(now);
            shard
                .breakers
                .entry(caller)
                .or_insert_with(|| Breaker::new(now));
        }
        let caller_opened = match shard.breakers.get_mut(&caller) {
            None => false,
            Some(breaker) => breaker.report(permit.caller, of_caller, CALLER_RULE, now),
        };
        // A caller without errors needs no breaker.
        if result == CallResult::Success {
            shard.breakers.remove(&caller);
        }
        u64::from(service_opened) + u64::from(caller_opened)
    }

    /// The number of callers with a breaker.
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

    fn shard(&self, caller: u64) -> MutexGuard<'_, BreakerShard> {
        self.shards[caller as usize % SHARDS]
            .lock()
            .expect("no holder of this lock panics")
    }
}

impl BreakerShard {
    /// The caller's breaker, unless it has been idle too long; then it is dropped here.
    fn active(&mut self, caller: u64, now: Instant) -> Option<&mut Breaker> {
        if self.breakers.get(&caller)?.is_idle(now) {
            self.breakers.remove(&caller);
        }
        self.breakers.get_mut(&caller)
    }

    /// Removes idle breakers once a minute, or when the shard is full; if it still is, the one that
    /// was unused longest goes.
    fn make_room(&mut self, now: Instant) {
        let is_full = self.breakers.len() >= CALLERS_MAX / SHARDS;
        if is_full || self.swept.is_none_or(|swept| swept + IDLE <= now) {
            self.breakers.retain(|_, breaker| !breaker.is_idle(now));
            self.swept = Some(now);
        }
        if self.breakers.len() >= CALLERS_MAX / SHARDS {
            let oldest = self
                .breakers
                .iter()
                .min_by_key(|(_, breaker)| breaker.last_used)
                .map(|(caller, _)| *caller);
            oldest.and_then(|caller| self.breakers.remove(&caller));
        }
    }
}

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug)]
struct BreakerRule {
    /// This many in a row open it.
    errors: u32,
    open_for: Duration,
}

/// One breaker.
#[derive(Debug)]
struct Breaker {
    state: BreakerState,
    /// The last time that it was asked or reported to.
    last_used: Instant,
}

#[derive(Debug)]
enum BreakerState {
    /// Calls pass.
    Closed {
        /// Failures since the last success.
        errors: u32,
    },
    /// No calls pass until then; the next one afterwards is the probe.
    Open { until: Instant },
    /// The probe is under way. If it is not reported until then, another one may try.
    Probing { until: Instant },
}

/// How a breaker let a call through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermitKind {
    /// It was closed.
    Normal,
    /// It was open, and this call finds out whether it may close.
    Probe,
}

/// The result of a call for one of its two breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BreakerResult {
    Success,
    Failure,
    /// Says nothing: counts neither way.
    Inconclusive,
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

    /// Returns true when this result opened the breaker. Results of calls that began before it
    /// opened change nothing.
    fn report(
        &mut self,
        permit: PermitKind,
        result: BreakerResult,
        rule: BreakerRule,
        now: Instant,
    ) -> bool {
        self.last_used = now;
        let open = BreakerState::Open {
            until: now + rule.open_for,
        };
        match (&mut self.state, permit, result) {
            (BreakerState::Closed { errors }, _, BreakerResult::Success) => *errors = 0,
            (BreakerState::Closed { errors }, _, BreakerResult::Failure) => {
                *errors += 1;
                if *errors >= rule.errors {
                    self.state = open;
                    return true;
                }
            }
            (BreakerState::Probing { .. }, PermitKind::Probe, BreakerResult::Success) => {
                self.state = BreakerState::Closed { errors: 0 };
            }
            (BreakerState::Probing { .. }, PermitKind::Probe, BreakerResult::Failure) => {
                self.state = open;
                return true;
            }
            // The probe found out nothing, so the next call may be one at once.
            (BreakerState::Probing { .. }, PermitKind::Probe, BreakerResult::Inconclusive) => {
                self.state = BreakerState::Open { until: now };
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

    /// A failure of one caller only, so that the breaker of the service stays closed.
    fn fail(breakers: &CircuitBreakers, key: u64, now: Instant) -> u64 {
        let permit = breakers.admit(key, now).unwrap();
        breakers.report(key, permit, CallResult::CallerFailure, now)
    }

    fn fail_all(breakers: &CircuitBreakers, keys: impl IntoIterator<Item = u64>, now: Instant) {
        for key in keys {
            fail(breakers, key, now);
        }
    }
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
    #[test]
    fn idle_breakers_are_forgotten_and_their_number_is_bounded() {
        let start = Instant::now();
        let breakers = CircuitBreakers::new(start);
        fail_all(&breakers, 0..100_000, start);
        assert!(breakers.len() <= CALLERS_MAX, "{}", breakers.len());
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
