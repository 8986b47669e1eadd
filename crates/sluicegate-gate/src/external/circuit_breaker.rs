//! Circuit breakers: when not to call the service.
//!
//! Idea: there is a breaker for each caller that the service fails on, which counts errors in a
//! row, and there are two for the service as a whole, which look at the share of callers that fail
//! (`recent_results.rs`). At its bound a breaker *opens*: nobody calls for a while. Then exactly one
//! call, the *probe*, is let through; a success closes the breaker, a failure opens it again.
//!
//! Two levels are needed, because "the service is down" and "the service cannot answer for this
//! caller" (an unknown tenant, a reply that does not parse) look the same to a single counter: one
//! bad tenant would cut off everybody, or an outage would be found out caller by caller.
//!
//! The service has two breakers, because anybody can invent callers that it fails on. *Known*
//! callers are those that it has answered before; the others are *strangers*. Strangers who fail
//! open the breaker of strangers only, and a known caller who is served closes it: it shows that
//! the service works. Known callers are cut off only when known callers fail.
//!
//! Invariants:
//! - A call happens only with a [`CallPermit`], and needs its caller's breaker and that of the
//!   service for such callers to be closed or probing.
//! - Results of strangers never open the breaker of known callers.
//! - At most one probe per breaker is under way; a probe that is never reported is given up after
//!   the open time, so that a lost task cannot keep a breaker open for ever.
//! - A call that began before a breaker opened cannot close it or end its probe.
//! - Only callers with errors have a breaker, idle ones are dropped, and there are at most
//!   [`CALLERS_MAX`], so that hostile callers cannot fill the memory. Of known callers there are
//!   at most [`KNOWN_MAX`]; strangers cannot push them out.

mod breaker;
mod recent_results;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use self::breaker::{Breaker, BreakerResult, BreakerRule, PermitKind};
use self::recent_results::RecentResults;

/// The breakers of the service and those of its callers.
///
/// Lock order where both are held: the service first, then the shard of the caller.
#[derive(Debug)]
pub(super) struct CircuitBreakers {
    service: Mutex<ServiceBreakers>,
    shards: Vec<Mutex<BreakerShard>>,
}

/// The breakers of the service as a whole.
#[derive(Debug)]
struct ServiceBreakers {
    for_known: ServiceBreaker,
    for_strangers: ServiceBreaker,
}

/// One breaker of the service, with the results that it opens on.
#[derive(Debug)]
struct ServiceBreaker {
    breaker: Breaker,
    results: RecentResults,
}

/// A caller as the breakers see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BreakerCaller {
    /// The hash of limit and key.
    pub(super) hash: u64,
    /// True when a cache has an answer of the service for it, fresh or expired.
    pub(super) has_answer: bool,
}

/// Breakers of callers, by the hash of limit and key. Two callers with the same hash share one,
/// which costs them at worst a pause that the other one earned.
#[derive(Debug, Default)]
struct BreakerShard {
    breakers: HashMap<u64, Breaker>,
    /// Callers that the service has answered, the earliest first; a set and the order it was filled
    /// in.
    known: HashSet<u64>,
    known_order: VecDeque<u64>,
    /// The last time that idle breakers were removed.
    swept: Option<Instant>,
}

/// Permission for one call; [`CircuitBreakers::report`] takes it back with the result.
#[derive(Debug)]
#[must_use]
pub(super) struct CallPermit {
    caller: PermitKind,
    service: PermitKind,
    /// The breaker of the service that let it through.
    is_known: bool,
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
/// Many callers: recovery is looked for sooner. The results of many callers decide that it opens,
/// so the one failure that completes them is enough.
const SERVICE_RULE: BreakerRule = BreakerRule {
    errors: 1,
    open_for: Duration::from_secs(5),
};
/// The most callers that are remembered as known; some 30 bytes each.
const KNOWN_MAX: usize = 16_384;

impl CircuitBreakers {
    pub(super) fn new(now: Instant) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let service = ServiceBreakers {
            for_known: ServiceBreaker::new(now),
            for_strangers: ServiceBreaker::new(now),
        };
        Self {
            service: Mutex::new(service),
            shards,
        }
    }

    /// A permit to call for a caller, or the time until which there is none.
    ///
    /// Both breakers are asked under their locks, so that a permit which makes one of them probe is
    /// never lost because the other one refuses.
    pub(super) fn admit(&self, caller: BreakerCaller, now: Instant) -> Result<CallPermit, Instant> {
        let mut service = self.service();
        let mut shard = self.shard(caller.hash);
        let is_known = shard.knows(caller);
        let service = service.for_caller(is_known);
        if let Some(until) = service.breaker.open_until(now) {
            return Err(until);
        }
        let caller_permit = match shard.active(caller.hash, now) {
            None => PermitKind::Normal,
            Some(breaker) => breaker.admit(CALLER_RULE, now)?,
        };
        Ok(CallPermit {
            caller: caller_permit,
            service: service.breaker.admit(SERVICE_RULE, now)?,
            is_known,
        })
    }

    /// The time until which there is no permit, without taking one; `None` when one may be had.
    pub(super) fn open_until(&self, caller: BreakerCaller, now: Instant) -> Option<Instant> {
        let mut service = self.service();
        let mut shard = self.shard(caller.hash);
        let service = service.for_caller(shard.knows(caller));
        service.breaker.open_until(now).or_else(|| {
            shard
                .active(caller.hash, now)
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
        let service_opened = self.service().report(caller, &permit, of_service, now);
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
            shard.remember(caller);
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

    fn service(&self) -> MutexGuard<'_, ServiceBreakers> {
        self.service.lock().expect("no holder of this lock panics")
    }

    fn shard(&self, caller: u64) -> MutexGuard<'_, BreakerShard> {
        self.shards[caller as usize % SHARDS]
            .lock()
            .expect("no holder of this lock panics")
    }
}

impl ServiceBreakers {
    fn for_caller(&mut self, is_known: bool) -> &mut ServiceBreaker {
        if is_known {
            &mut self.for_known
        } else {
            &mut self.for_strangers
        }
    }

    /// Records a result and returns true when it opened a breaker. A known caller who is served
    /// speaks for the service to strangers too.
    fn report(
        &mut self,
        caller: u64,
        permit: &CallPermit,
        result: BreakerResult,
        now: Instant,
    ) -> bool {
        if permit.is_known && result == BreakerResult::Success {
            self.for_strangers = ServiceBreaker::new(now);
        }
        self.for_caller(permit.is_known)
            .report(caller, permit.service, result, now)
    }
}

impl ServiceBreaker {
    fn new(now: Instant) -> Self {
        Self {
            breaker: Breaker::new(now),
            results: RecentResults::default(),
        }
    }

    /// Records a result and returns true when it opened the breaker. Except for the probe's, a
    /// failure counts only when the results of many callers show an outage.
    fn report(
        &mut self,
        caller: u64,
        permit: PermitKind,
        mut result: BreakerResult,
        now: Instant,
    ) -> bool {
        if result != BreakerResult::Inconclusive {
            let is_failure = result == BreakerResult::Failure;
            self.results.record(caller, is_failure, now);
        }
        let is_one_of_many = result == BreakerResult::Failure && permit == PermitKind::Normal;
        if is_one_of_many && !self.results.show_an_outage() {
            result = BreakerResult::Inconclusive;
        }
        let has_opened = self.breaker.report(permit, result, SERVICE_RULE, now);
        if has_opened || permit == PermitKind::Probe && result == BreakerResult::Success {
            self.results.clear();
        }
        has_opened
    }
}

impl BreakerShard {
    /// Returns true when the service has answered for this caller before.
    fn knows(&self, caller: BreakerCaller) -> bool {
        caller.has_answer || self.known.contains(&caller.hash)
    }

    /// Remembers that the service has answered for a caller; at the bound the earliest is forgotten.
    fn remember(&mut self, caller: u64) {
        if !self.known.insert(caller) {
            return;
        }
        self.known_order.push_back(caller);
        if self.known_order.len() > KNOWN_MAX / SHARDS
            && let Some(earliest) = self.known_order.pop_front()
        {
            self.known.remove(&earliest);
        }
    }

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
