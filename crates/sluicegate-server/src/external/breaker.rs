//! Whom not to ask for a while: a breaker for each caller that the service fails on, and one for the service.
//!
//! Only callers with errors have one, and those are forgotten when nobody asks for them any more.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// All breakers.
#[derive(Debug)]
pub(super) struct Breakers {
    service: Mutex<Breaker>,
    shards: Vec<Mutex<Shard>>,
}

/// Breakers of callers, by the hash of limit and key.
#[derive(Debug, Default)]
struct Shard {
    breakers: HashMap<u64, Breaker>,
    swept: Option<Instant>,
}

/// Leave to call; [`Breakers::report`] takes it back.
#[derive(Debug)]
#[must_use]
pub(super) struct Leave {
    of_key: Pass,
    of_service: Pass,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// An answer.
    Well,
    /// Something wrong with this caller's answer; the service is there.
    WrongForKey,
    /// Nothing that the service should give.
    Wrong,
    /// Nothing, and that is not the service's fault.
    Nothing,
}

const SHARDS: usize = 16;
/// Callers at most: some 80 bytes each.
const KEYS_MAX: usize = 8_192;
const IDLE: Duration = Duration::from_secs(60);
const OF_KEY: Rule = Rule {
    errors: 5,
    open_for: Duration::from_secs(30),
};
/// Many callers at once: more errors are needed, and it is tried again sooner.
const OF_SERVICE: Rule = Rule {
    errors: 20,
    open_for: Duration::from_secs(5),
};

impl Breakers {
    pub(super) fn new(now: Instant) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Self {
            service: Mutex::new(Breaker::new(now)),
            shards,
        }
    }

    /// Leave to call, or until when there is none. While a probe is under way there is no other.
    pub(super) fn admit(&self, key: u64, now: Instant) -> Result<Leave, Instant> {
        let mut service = self.service();
        let mut shard = self.shard(key);
        if let Some(until) = service.is_open(now) {
            return Err(until);
        }
        let of_key = match shard.live(key, now) {
            None => Pass::Usual,
            Some(breaker) => breaker.admit(OF_KEY, now)?,
        };
        Ok(Leave {
            of_key,
            of_service: service.admit(OF_SERVICE, now)?,
        })
    }

    /// Until when there is no leave, without taking it.
    pub(super) fn is_open(&self, key: u64, now: Instant) -> Option<Instant> {
        let of_service = self.service().is_open(now);
        of_service.or_else(|| {
            self.shard(key)
                .live(key, now)
                .and_then(|breaker| breaker.is_open(now))
        })
    }

    /// Notes what came of a call; returns how many breakers opened.
    pub(super) fn report(&self, key: u64, leave: Leave, came: Came, now: Instant) -> u64 {
        let is_well = |is_wrong: bool| {
            if is_wrong {
                Some(false)
            } else {
                (came != Came::Nothing).then_some(true)
            }
        };
        let of_service = self.service().report(
            leave.of_service,
            is_well(came == Came::Wrong),
            OF_SERVICE,
            now,
        );
        let mut shard = self.shard(key);
        let is_wrong = matches!(came, Came::Wrong | Came::WrongForKey);
        if is_wrong {
            shard.make_room(now);
            shard
                .breakers
                .entry(key)
                .or_insert_with(|| Breaker::new(now));
        }
        let of_key = match shard.breakers.get_mut(&key) {
            None => false,
            Some(breaker) => breaker.report(leave.of_key, is_well(is_wrong), OF_KEY, now),
        };
        if came == Came::Well {
            shard.breakers.remove(&key);
        }
        u64::from(of_service) + u64::from(of_key)
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

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        self.shards[key as usize % SHARDS]
            .lock()
            .expect("no holder of this lock panics")
    }
}

impl Shard {
    /// The breaker of a caller who was asked for not long ago.
    fn live(&mut self, key: u64, now: Instant) -> Option<&mut Breaker> {
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
                .min_by_key(|(_, breaker)| breaker.touched)
                .map(|(key, _)| *key);
            oldest.and_then(|key| self.breakers.remove(&key));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    /// In a row.
    errors: u32,
    open_for: Duration,
}

#[derive(Debug)]
struct Breaker {
    state: State,
    touched: Instant,
}

#[derive(Debug)]
enum State {
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
enum Pass {
    Usual,
    Probe,
}

impl Breaker {
    fn new(now: Instant) -> Self {
        Self {
            state: State::Closed { errors: 0 },
            touched: now,
        }
    }

    fn is_open(&self, now: Instant) -> Option<Instant> {
        match self.state {
            State::Open { until } | State::Probing { until } if now < until => Some(until),
            State::Closed { .. } | State::Open { .. } | State::Probing { .. } => None,
        }
    }

    fn admit(&mut self, rule: Rule, now: Instant) -> Result<Pass, Instant> {
        self.touched = now;
        match self.is_open(now) {
            Some(until) => Err(until),
            None if matches!(self.state, State::Closed { .. }) => Ok(Pass::Usual),
            None => {
                self.state = State::Probing {
                    until: now + rule.open_for,
                };
                Ok(Pass::Probe)
            }
        }
    }

    /// Whether it opened. What comes of a call that began before it opened changes nothing.
    fn report(&mut self, pass: Pass, is_well: Option<bool>, rule: Rule, now: Instant) -> bool {
        self.touched = now;
        let open = State::Open {
            until: now + rule.open_for,
        };
        match (&mut self.state, pass, is_well) {
            (State::Closed { errors }, _, Some(true)) => *errors = 0,
            (State::Closed { errors }, _, Some(false)) => {
                *errors += 1;
                if *errors >= rule.errors {
                    self.state = open;
                    return true;
                }
            }
            (State::Probing { .. }, Pass::Probe, Some(true)) => {
                self.state = State::Closed { errors: 0 }
            }
            (State::Probing { .. }, Pass::Probe, Some(false)) => {
                self.state = open;
                return true;
            }
            // The next one may try.
            (State::Probing { .. }, Pass::Probe, None) => self.state = State::Open { until: now },
            (State::Closed { .. } | State::Open { .. } | State::Probing { .. }, _, _) => {}
        }
        false
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.touched + IDLE <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    /// A caller whose answers make no sense, so that the service as a whole is not blamed.
    fn fail(breakers: &Breakers, key: u64, now: Instant) -> u64 {
        let leave = breakers.admit(key, now).unwrap();
        breakers.report(key, leave, Came::WrongForKey, now)
    }

    fn fail_all(breakers: &Breakers, keys: impl IntoIterator<Item = u64>, now: Instant) {
        for key in keys {
            fail(breakers, key, now);
        }
    }

    /// E11
    #[test]
    fn five_errors_in_a_row_open_for_thirty_seconds_and_then_one_may_try() {
        let start = Instant::now();
        let breakers = Breakers::new(start);
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
            breakers.report(1, probe, Came::WrongForKey, after(start, 31)),
            1
        );
        assert!(breakers.admit(1, after(start, 60)).is_err(), "open again");
        let probe = breakers.admit(1, after(start, 61)).unwrap();
        assert_eq!(breakers.report(1, probe, Came::Well, after(start, 61)), 0);
        assert!(breakers.admit(1, after(start, 61)).is_ok());
        assert_eq!(breakers.len(), 0, "who is well has none");
    }

    #[test]
    fn an_answer_in_between_starts_the_count_again() {
        let start = Instant::now();
        let breakers = Breakers::new(start);
        for _ in 0..10 {
            (0..4).for_each(|_| assert_eq!(fail(&breakers, 1, start), 0));
            let leave = breakers.admit(1, start).unwrap();
            assert_eq!(breakers.report(1, leave, Came::Well, start), 0);
        }
    }

    #[test]
    fn the_callers_of_others_are_not_touched() {
        let start = Instant::now();
        let breakers = Breakers::new(start);
        fail_all(&breakers, [1; 5], start);
        assert!(breakers.admit(1, start).is_err());
        assert!(breakers.admit(1 + SHARDS as u64, start).is_ok());
        assert!(breakers.admit(2, start).is_ok());
    }

    /// T-60
    #[test]
    fn twenty_errors_of_any_callers_open_for_all() {
        let start = Instant::now();
        let breakers = Breakers::new(start);
        let mut calls = 0;
        for key in 0..100_000 {
            if let Ok(leave) = breakers.admit(key, start) {
                calls += 1;
                breakers.report(key, leave, Came::Wrong, start);
            }
        }
        assert_eq!(calls, 20);
        assert_eq!(breakers.is_open(7, start), Some(after(start, 5)));
        let probe = breakers.admit(7, after(start, 5)).unwrap();
        assert!(
            breakers.admit(8, after(start, 5)).is_err(),
            "a second probe"
        );
        breakers.report(7, probe, Came::Well, after(start, 5));
        assert!(breakers.admit(8, after(start, 5)).is_ok());
    }

    #[test]
    fn answers_that_make_no_sense_are_a_sign_of_life() {
        let start = Instant::now();
        let breakers = Breakers::new(start);
        fail_all(&breakers, 0..1_000, start);
        assert!(breakers.admit(5_000, start).is_ok());
    }

    #[test]
    fn a_probe_that_came_to_nothing_is_tried_again_at_once() {
        let start = Instant::now();
        let breakers = Breakers::new(start);
        fail_all(&breakers, [1; 5], start);
        let probe = breakers.admit(1, after(start, 30)).unwrap();
        assert_eq!(
            breakers.report(1, probe, Came::Nothing, after(start, 30)),
            0
        );
        assert!(breakers.admit(1, after(start, 30)).is_ok());
    }

    #[test]
    fn a_late_error_of_a_call_from_before_does_not_end_a_probe() {
        let start = Instant::now();
        let breakers = Breakers::new(start);
        let late = breakers.admit(1, start).unwrap();
        fail_all(&breakers, [1; 5], start);
        let probe = breakers.admit(1, after(start, 30)).unwrap();
        breakers.report(1, late, Came::WrongForKey, after(start, 30));
        breakers.report(1, probe, Came::Well, after(start, 30));
        assert!(breakers.admit(1, after(start, 30)).is_ok());
    }

    /// E11, T-60
    #[test]
    fn idle_breakers_are_forgotten_and_their_number_is_bounded() {
        let start = Instant::now();
        let breakers = Breakers::new(start);
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
