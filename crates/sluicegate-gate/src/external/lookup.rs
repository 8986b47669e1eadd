//! One lookup: Redis, then the service, then the best that was known before.
//!
//! A lookup runs as a task of its own on the background runtime, once per caller at a time
//! (`single_flight.rs`), and ends at its deadline. On the way it offers what it finds to the
//! requests that wait, worst first: the expired reply of this process, the expired reply in Redis,
//! at last the current one. So a request whose time is over takes the best there is.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluicegate_core::Nanos;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::ExternalState;
use super::circuit_breaker::{BreakerCaller, CallResult};
use super::counts::ExternalCounters;
use super::error::CallError;
use super::lifetime::CacheLifetime;
use super::limits::{ExternalLimits, ResolvedLimits};
use super::local_cache::{CacheTtl, Renewal};
use super::optional_field::IgnoredField;
use super::redis_cache::{self, RedisKeys};
use super::reply::{CheckedReply, ServiceReply};
use super::request::LimitsRequest;
use super::single_flight::PendingLookup;

/// How long an expired reply is kept for when no newer one can be had.
const STALE: Nanos = Nanos::from_secs(5 * 60);
/// How long a placeholder answers while a breaker is open: recovery is noticed this much later.
const PLACEHOLDER_MAX: Duration = Duration::from_secs(1);

/// The caller to look up, and the time for it.
#[derive(Debug)]
pub(super) struct LookupTask {
    pub(super) request: LimitsRequest,
    /// The hash of limit and key; chooses the breaker and the entry of the local cache.
    pub(super) hash: u64,
    /// Set when the caller still has a fresh reply, which this lookup replaces.
    pub(super) renewal: Option<Renewal>,
    /// No call and no wait goes beyond it.
    pub(super) deadline: Instant,
}

/// The origin of current limits, with what is needed to cache them.
enum LimitsSource {
    /// `ttl` is the lifetime that the reply had when it was written.
    Redis { ttl: Nanos },
    Service {
        reply: ServiceReply,
        lifetime: CacheLifetime,
    },
}

impl ExternalState {
    /// Looks up a caller, publishes the result, and caches it.
    ///
    /// The local cache is written before the result is published, so that no request starts another
    /// lookup in between; Redis is written afterwards, so that nobody waits for it.
    pub(super) async fn run_lookup(self: Arc<Self>, task: LookupTask, pending: PendingLookup) {
        let keys = self
            .redis_cache
            .as_ref()
            .map(|cache| RedisKeys::new(cache.prefix(), &task.request.limit, &task.request.key));
        let found = self.find(&task, keys.as_ref(), &pending).await;
        let now = Instant::now();
        let Some((limits, source)) = found else {
            self.hold_placeholder(&task, &pending, now);
            let best = pending.best_so_far();
            return pending.finish(best);
        };
        self.cache_locally(&task, &pending, &limits, &source, now);
        pending.finish(ResolvedLimits::External(limits));
        if let (LimitsSource::Service { reply, lifetime }, Some(keys)) = (source, keys) {
            self.cache_in_redis(&keys, &reply, lifetime).await;
        }
    }

    /// The current limits, from Redis or from the service; `None` when neither has them.
    async fn find(
        &self,
        task: &LookupTask,
        keys: Option<&RedisKeys>,
        pending: &PendingLookup,
    ) -> Option<(Arc<ExternalLimits>, LimitsSource)> {
        let local_cache = self.local_cache.as_ref();
        let stale = local_cache
            .and_then(|cache| cache.get_stale(pending.caller(task.hash), Instant::now()));
        if let Some(stale) = stale {
            pending.offer(ResolvedLimits::External(stale));
        }
        if let Some(keys) = keys
            && let Some((limits, ttl)) = self.read_redis(task, keys, pending).await
        {
            ExternalCounters::add(&self.counters.redis_hits);
            return Some((limits, LimitsSource::Redis { ttl }));
        }
        let caller = breaker_caller(task, pending);
        // Asked before waiting for a slot: with an open breaker the wait would be for nothing.
        if self.breakers.open_until(caller, Instant::now()).is_some() {
            return None;
        }
        let (slot, has_waited) = self.call_slot(task.deadline).await?;
        let permit = self.breakers.admit(caller, Instant::now()).ok()?;
        let called = self.call(task, slot).await;
        let result = match &called {
            Ok(_) => CallResult::Success,
            // The wait for a slot used up the time, so the service is not to blame.
            Err(CallError::TimedOut) if has_waited => CallResult::Inconclusive,
            Err(error) if error.is_service_failure() => CallResult::ServiceFailure,
            Err(_) => CallResult::CallerFailure,
        };
        let opened = self
            .breakers
            .report(task.hash, permit, result, Instant::now());
        self.counters.openings.fetch_add(opened, Relaxed);
        match called {
            Ok((limits, reply, lifetime)) => {
                Some((limits, LimitsSource::Service { reply, lifetime }))
            }
            Err(error) => {
                ExternalCounters::add(&self.counters.errors);
                if self.warnings.calls.is_due(Instant::now()) {
                    tracing::warn!(
                        limit = %task.request.limit, %error,
                        "the limits service gave no usable reply, cached or configured limits apply"
                    );
                }
                None
            }
        }
    }

    /// The fresh copy in Redis; the stale copy is offered on the way.
    ///
    /// Both are read at once, and only those that can help: a renewal of what this process wrote
    /// itself would find the same fresh copy again, and an expired reply may be at hand already.
    async fn read_redis(
        &self,
        task: &LookupTask,
        keys: &RedisKeys,
        pending: &PendingLookup,
    ) -> Option<(Arc<ExternalLimits>, Nanos)> {
        let cache = self.redis_cache.as_ref()?;
        let wants_fresh = task.renewal != Some(Renewal::FromService);
        let wants_stale = pending.best_so_far() == ResolvedLimits::Configured;
        let get = async |wanted: bool, key: &str| match wanted {
            true => cache.get(key).await,
            false => Ok(None),
        };
        let both =
            async { tokio::join!(get(wants_fresh, &keys.fresh), get(wants_stale, &keys.stale)) };
        let Ok((fresh, stale)) = timeout_at(task.deadline, both).await else {
            ExternalCounters::add(&self.counters.redis_errors);
            return None;
        };
        if let Some((limits, _)) = self.decode(keys, stale) {
            pending.offer(ResolvedLimits::External(Arc::new(limits.as_stale())));
        }
        self.decode(keys, fresh)
            .map(|(limits, ttl)| (Arc::new(limits), ttl))
    }

    /// Decodes and checks a value from Redis; errors and foreign values are counted.
    fn decode(
        &self,
        keys: &RedisKeys,
        got: Result<Option<Vec<u8>>, sluicegate::StoreError>,
    ) -> Option<(ExternalLimits, Nanos)> {
        let value = match got {
            Ok(value) => value?,
            Err(_) => {
                ExternalCounters::add(&self.counters.redis_errors);
                return None;
            }
        };
        let limits = redis_cache::decode(keys, &value)
            .and_then(|(reply, ttl)| Some((reply.check(&self.policy).ok()?.limits, ttl)));
        if limits.is_none() {
            ExternalCounters::add(&self.counters.poisoned);
            if self.warnings.foreign_values.is_due(Instant::now()) {
                tracing::warn!(
                    name = %keys.fresh,
                    "a value in Redis is not a reply of the limits service, it is ignored"
                );
            }
        }
        limits
    }

    /// A slot for one call, and whether it had to be waited for. `None` at the deadline.
    async fn call_slot(&self, deadline: Instant) -> Option<(OwnedSemaphorePermit, bool)> {
        if let Ok(slot) = Arc::clone(&self.call_slots).try_acquire_owned() {
            return Some((slot, false));
        }
        ExternalCounters::add(&self.counters.waits);
        let slot = timeout_at(deadline, Arc::clone(&self.call_slots).acquire_owned())
            .await
            .ok()?
            .ok()?;
        Some((slot, true))
    }

    /// Calls the service in a task of its own, so that a panic in it is an error like any other.
    async fn call(
        &self,
        task: &LookupTask,
        slot: OwnedSemaphorePermit,
    ) -> Result<(Arc<ExternalLimits>, ServiceReply, CacheLifetime), CallError> {
        ExternalCounters::add(&self.counters.calls);
        let time_left = task.deadline.saturating_duration_since(Instant::now());
        let service = Arc::clone(&self.service);
        let (request, default_ttl) = (task.request.clone(), self.cache_ttl);
        // A set of one task: dropping it at the deadline aborts the call and frees its slot.
        let mut calls = JoinSet::new();
        calls.spawn(async move {
            let _slot = slot;
            service.call(&request, default_ttl, time_left).await
        });
        let (reply, lifetime) = match timeout_at(task.deadline, calls.join_next()).await {
            Err(_) => return Err(CallError::TimedOut),
            Ok(Some(Ok(called))) => called?,
            Ok(_) => return Err(CallError::Panicked),
        };
        let checked = reply.check(&self.policy).map_err(CallError::Malformed)?;
        self.count_ignored(task, &checked);
        Ok((Arc::new(checked.limits), reply, lifetime))
    }

    /// Counts the fields of a reply that are ignored, and logs each of them at most once a minute.
    fn count_ignored(&self, task: &LookupTask, checked: &CheckedReply) {
        for IgnoredField { field, why } in &checked.ignored {
            ExternalCounters::add(&self.counters.ignored[*field as usize]);
            if self.warnings.fields[*field as usize].is_due(Instant::now()) {
                tracing::warn!(
                    limit = %task.request.limit, field = field.name(), why,
                    "the limits service sent an invalid field, the field is ignored"
                );
            }
        }
    }

    /// Stores current limits in this process, for the next requests of this caller.
    fn cache_locally(
        &self,
        task: &LookupTask,
        pending: &PendingLookup,
        limits: &Arc<ExternalLimits>,
        source: &LimitsSource,
        now: Instant,
    ) {
        let Some(local_cache) = &self.local_cache else {
            return;
        };
        let caller = pending.caller(task.hash);
        let (fresh, renewal) = match source {
            // The age of the copy in Redis is unknown. Looking there again after a tenth of its
            // lifetime means that it is used at most a tenth longer than it should be.
            LimitsSource::Redis { ttl } => (Duration::from(*ttl) / 10, Renewal::FromRedis),
            LimitsSource::Service { lifetime, .. } if !lifetime.keeps_stale => {
                return local_cache.remove_caller(caller);
            }
            LimitsSource::Service { lifetime, .. } => match lifetime.fresh {
                Some(ttl) => (ttl.into(), Renewal::FromService),
                None => (Duration::ZERO, Renewal::None),
            },
        };
        let ttl = CacheTtl {
            fresh,
            stale: STALE.into(),
        };
        local_cache.insert(caller, Arc::clone(limits), ttl, renewal, now);
    }

    /// Answers the caller's next requests with the best known result while a breaker is open, so
    /// that not every one of them starts a lookup that must fail.
    ///
    /// A failed renewal does nothing: the caller's reply is still fresh.
    fn hold_placeholder(&self, task: &LookupTask, pending: &PendingLookup, now: Instant) {
        let Some(local_cache) = self.local_cache.as_ref().filter(|_| task.renewal.is_none()) else {
            return;
        };
        let caller = breaker_caller(task, pending);
        if let Some(until) = self.breakers.open_until(caller, now) {
            local_cache.insert_placeholder(
                pending.caller(task.hash),
                &pending.best_so_far(),
                until.min(now + PLACEHOLDER_MAX),
                now,
            );
        }
    }

    /// Writes both copies of a reply to Redis, for all replicas. A reply that must not be cached
    /// has no fresh copy; one that must not be stored has none at all.
    async fn cache_in_redis(
        &self,
        keys: &RedisKeys,
        reply: &ServiceReply,
        lifetime: CacheLifetime,
    ) {
        let Some(cache) = &self.redis_cache else {
            return;
        };
        let ttl = lifetime.fresh.unwrap_or(Nanos::SECOND);
        let Some(value) = redis_cache::encode(keys, reply, ttl).filter(|_| lifetime.keeps_stale)
        else {
            return;
        };
        let stale_ttl = Nanos::new(lifetime.fresh.unwrap_or(Nanos::ZERO).get() + STALE.get());
        let fresh = async {
            match lifetime.fresh {
                Some(ttl) => cache.put(&keys.fresh, value.clone(), ttl).await,
                None => Ok(()),
            }
        };
        let (fresh, stale) = tokio::join!(fresh, cache.put(&keys.stale, value.clone(), stale_ttl));
        let lost = u64::from(fresh.is_err()) + u64::from(stale.is_err());
        self.counters.redis_errors.fetch_add(lost, Relaxed);
    }
}

/// The caller as the breakers see it. A cache has an answer for it when a renewal was asked for, or
/// when an expired reply was found on the way.
fn breaker_caller(task: &LookupTask, pending: &PendingLookup) -> BreakerCaller {
    BreakerCaller {
        hash: task.hash,
        has_answer: task.renewal.is_some() || pending.best_so_far() != ResolvedLimits::Configured,
    }
}
