//! Finding out what a caller may spend: Redis, then the service, then whatever was known before.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluicegate_core::Nanos;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::circuit_breaker::CallResult;
use super::counts::ExternalCounters;
use super::error::CallError;
use super::lifetime::CacheLifetime;
use super::limits::{ExternalLimits, ResolvedLimits};
use super::local_cache::{CacheTtl, Renewal};
use super::redis_cache::{self, RedisKeys};
use super::reply::ServiceReply;
use super::request::LimitsRequest;
use super::single_flight::PendingLookup;

/// How long an answer is kept after it has ended, for when no newer one can be had.
const STALE: Nanos = Nanos::from_secs(5 * 60);
/// How long what stands in for an answer is held while nobody may ask: so long a recovery is not noticed.
const HOLD: Duration = Duration::from_secs(1);

/// What a flight is to find out.
#[derive(Debug)]
pub(super) struct LookupTask {
    pub(super) request: LimitsRequest,
    /// Of limit and key.
    pub(super) hash: u64,
    /// Set when an answer is there that is about to end.
    pub(super) renewal: Option<Renewal>,
    pub(super) deadline: Instant,
}

/// Where an answer came from.
enum Source {
    Redis {
        ttl: Nanos,
    },
    Service {
        reply: ServiceReply,
        lifetime: CacheLifetime,
    },
}

impl Shared {
    /// Finds out, tells everybody who waits, and remembers.
    pub(super) async fn run_lookup(self: Arc<Self>, task: LookupTask, pending: PendingLookup) {
        let keys = self.redis_cache.as_ref().map(|redis_cache| {
            RedisKeys::new(redis_cache.prefix(), &task.request.limit, &task.request.key)
        });
        let found = self.find(&task, keys.as_ref(), &pending).await;
        let now = Instant::now();
        let (limits, source) = match found {
            Some(found) => found,
            None => {
                self.hold_placeholder(&task, &pending, now);
                let best_so_far = pending.best_so_far();
                return pending.finish(best_so_far);
            }
        };
        self.cache_locally(&task, &pending, &limits, &source, now);
        pending.finish(ResolvedLimits::External(limits));
        if let (Source::Service { reply, lifetime }, Some(keys)) = (source, keys) {
            self.cache_in_redis(&keys, &reply, lifetime).await;
        }
    }

    async fn find(
        &self,
        task: &LookupTask,
        keys: Option<&RedisKeys>,
        pending: &PendingLookup,
    ) -> Option<(Arc<ExternalLimits>, Source)> {
        if let Some(stale) = self.local_cache.as_ref().and_then(|local_cache| {
            local_cache.get_stale(pending.caller(task.hash), Instant::now())
        }) {
            pending.offer(ResolvedLimits::External(stale));
        }
        if let Some(keys) = keys
            && let Some((limits, ttl)) = self.read_redis(task, keys, pending).await
        {
            ExternalCounters::add(&self.counters.redis_hits);
            return Some((limits, Source::Redis { ttl }));
        }
        // Those who may not call do not wait for it either.
        if self
            .breakers
            .open_until(task.hash, Instant::now())
            .is_some()
        {
            return None;
        }
        let (call_slot, has_waited) = self.call_slot(task.deadline).await?;
        let permit = self.breakers.admit(task.hash, Instant::now()).ok()?;
        let called = self.call(task, call_slot).await;
        let result = match &called {
            Ok(_) => CallResult::Success,
            // Too little of the time was left.
            Err(CallError::TimedOut) if has_waited => CallResult::Inconclusive,
            Err(error) if error.is_service_failure() => CallResult::ServiceFailure,
            Err(_) => CallResult::CallerFailure,
        };
        let opened = self
            .breakers
            .report(task.hash, permit, result, Instant::now());
        self.counters.openings.fetch_add(opened, Relaxed);
        match called {
            Ok((limits, reply, lifetime)) => Some((limits, Source::Service { reply, lifetime })),
            Err(error) => {
                ExternalCounters::add(&self.counters.errors);
                if self.warnings.calls.is_due(Instant::now()) {
                    tracing::warn!(limit = %task.request.limit, %error, "the limits service gave no answer");
                }
                None
            }
        }
    }

    /// What is kept; the older copy is suggested on the way. A renewal of what this process put there skips the first.
    async fn read_redis(
        &self,
        task: &LookupTask,
        keys: &RedisKeys,
        pending: &PendingLookup,
    ) -> Option<(Arc<ExternalLimits>, Nanos)> {
        let redis_cache = self.redis_cache.as_ref()?;
        let wants_fresh = task.renewal != Some(Renewal::FromService);
        let wants_stale = pending.best_so_far() == ResolvedLimits::Configured;
        let get = async |wanted: bool, name: &str| match wanted {
            true => redis_cache.get(name).await,
            false => Ok(None),
        };
        let both =
            async { tokio::join!(get(wants_fresh, &keys.fresh), get(wants_stale, &keys.stale)) };
        let Ok((fresh, stale)) = timeout_at(task.deadline, both).await else {
            ExternalCounters::add(&self.counters.redis_errors);
            return None;
        };
        if let Some((limits, _)) = self.read(keys, stale) {
            pending.offer(ResolvedLimits::External(Arc::new(limits.as_stale())));
        }
        self.read(keys, fresh)
            .map(|(limits, ttl)| (Arc::new(limits), ttl))
    }

    fn read(
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
        let read = redis_cache::decode(keys, &value);
        let limits =
            read.and_then(|(reply, ttl)| Some((reply.check(&self.policy).ok()?.limits, ttl)));
        if limits.is_none() {
            ExternalCounters::add(&self.counters.poisoned);
            if self.warnings.poison.is_due(Instant::now()) {
                tracing::warn!(name = %keys.fresh, "a value in Redis is no answer of ours: the service is asked again");
            }
        }
        limits
    }

    /// One of the calls that may be under way, and whether it had to be waited for.
    async fn call_slot(&self, deadline: Instant) -> Option<(OwnedSemaphorePermit, bool)> {
        if let Ok(call_slot) = Arc::clone(&self.call_slots).try_acquire_owned() {
            return Some((call_slot, false));
        }
        ExternalCounters::add(&self.counters.waits);
        let call_slot = timeout_at(deadline, Arc::clone(&self.call_slots).acquire_owned())
            .await
            .ok()?
            .ok()?;
        Some((call_slot, true))
    }

    /// Asks the service, in a task that may break down alone.
    async fn call(
        &self,
        task: &LookupTask,
        call_slot: OwnedSemaphorePermit,
    ) -> Result<(Arc<ExternalLimits>, ServiceReply, CacheLifetime), CallError> {
        ExternalCounters::add(&self.counters.calls);
        let within = task.deadline.saturating_duration_since(Instant::now());
        let (service, request, default) = (
            Arc::clone(&self.service),
            task.request.clone(),
            self.cache_ttl,
        );
        // Dropped with all that is in it when the time is over.
        let mut calls = JoinSet::new();
        calls.spawn(async move {
            let _slot = call_slot;
            service.ask(&request, default, within).await
        });
        let (reply, lifetime) = match timeout_at(task.deadline, calls.join_next()).await {
            Err(_) => return Err(CallError::TimedOut),
            Ok(Some(Ok(answered))) => answered?,
            Ok(_) => return Err(CallError::Panicked),
        };
        let check = reply.check(&self.policy).map_err(CallError::Malformed)?;
        if check.has_invalid_tenant {
            ExternalCounters::add(&self.counters.invalid_tenants);
            if self.warnings.tenants.is_due(Instant::now()) {
                tracing::warn!(limit = %task.request.limit, "a tenant_key of the limits service is none and is ignored");
            }
        }
        if let Some(refused) = check.backend_refusal {
            ExternalCounters::add(&self.counters.refused_backends);
            if self.warnings.backends.is_due(Instant::now()) {
                tracing::warn!(limit = %task.request.limit, why = %refused, "a backend_url of the limits service is ignored");
            }
        }
        Ok((Arc::new(check.limits), reply, lifetime))
    }

    /// In this process.
    fn cache_locally(
        &self,
        task: &LookupTask,
        pending: &PendingLookup,
        limits: &Arc<ExternalLimits>,
        source: &Source,
        now: Instant,
    ) {
        let Some(local_cache) = &self.local_cache else {
            return;
        };
        let caller = pending.caller(task.hash);
        let (fresh, renewal) = match source {
            // How old it is there is not known: looked at again soon, it is never used for much longer than it holds.
            Source::Redis { ttl } => (Duration::from(*ttl) / 10, Renewal::FromRedis),
            Source::Service {
                lifetime:
                    CacheLifetime {
                        keeps_stale: false, ..
                    },
                ..
            } => return local_cache.remove_caller(caller),
            Source::Service { lifetime, .. } => match lifetime.fresh {
                Some(ttl) => (ttl.into(), Renewal::FromService),
                None => (Duration::ZERO, Renewal::None),
            },
        };
        local_cache.insert(
            caller,
            Arc::clone(limits),
            CacheTtl {
                fresh,
                stale: STALE.into(),
            },
            renewal,
            now,
        );
    }

    /// While nobody may ask, what stands in for an answer need not be looked for by everybody.
    fn hold_placeholder(&self, task: &LookupTask, pending: &PendingLookup, now: Instant) {
        let Some(local_cache) = self.local_cache.as_ref().filter(|_| task.renewal.is_none()) else {
            return;
        };
        if let Some(until) = self.breakers.open_until(task.hash, now) {
            local_cache.insert_placeholder(
                pending.caller(task.hash),
                &pending.best_so_far(),
                until.min(now + HOLD),
                now,
            );
        }
    }

    /// For all replicas.
    async fn cache_in_redis(
        &self,
        keys: &RedisKeys,
        reply: &ServiceReply,
        lifetime: CacheLifetime,
    ) {
        let Some(redis_cache) = &self.redis_cache else {
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
                Some(ttl) => redis_cache.put(&keys.fresh, value.clone(), ttl).await,
                None => Ok(()),
            }
        };
        let (fresh, stale) = tokio::join!(
            fresh,
            redis_cache.put(&keys.stale, value.clone(), stale_ttl)
        );
        for _ in [fresh.is_err(), stale.is_err()]
            .into_iter()
            .filter(|is_lost| *is_lost)
        {
            ExternalCounters::add(&self.counters.redis_errors);
        }
    }
}
