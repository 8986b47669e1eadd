//! Limits from outside: a service that knows what each caller may spend.
//!
//! ```text
//! quota_of ─▶ front (this process) ─▶ flight, one per caller ─▶ Redis ─▶ breakers ─▶ slot ─▶ service
//!                                        └── on any failure: the older answer, then the limit's own quota
//! ```

pub mod backend;
mod circuit_breaker;
mod connector;
mod counts;
mod error;
#[cfg(test)]
mod fakes;
mod grpc;
mod http;
mod lifetime;
mod limits;
mod local_cache;
mod lookup;
mod redis_cache;
mod reply;
mod request;
mod service;
mod single_flight;
#[cfg(test)]
mod tests;
mod warnings;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderMap;
use foldhash::quality::RandomState;
use sluicegate::RedisStore;
use sluicegate_config::{ExternalSettings, HeaderFilter};
use sluicegate_core::Nanos;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use self::circuit_breaker::CircuitBreakers;
use self::counts::ExternalCounters;
use self::local_cache::{CallerKey, LocalCache, Renewal};
use self::lookup::LookupTask;
use self::redis_cache::RedisCache;
use self::request::LimitsRequest;
use self::service::LimitsService;
use self::single_flight::{LookupProgress, SingleFlight};
use self::warnings::Warnings;

pub use self::backend::{Backend, BackendHttp, BackendPolicy, BackendRefusal};
pub use self::counts::ExternalCounts;
pub use self::limits::{ExternalLimits, ResolvedLimits};

/// The bytes of an answer at most.
const REPLY_MAX: usize = 64 * 1024;

/// Who asks: one caller of one limit, and the request that brought it up.
#[derive(Clone, Copy, Debug)]
pub struct LimitsLookup<'a> {
    /// The name of the limit.
    pub limit: &'a str,
    /// The caller, as the limit's key parts say.
    pub key: &'a str,
    /// The request's method.
    pub method: &'a str,
    /// The request's path, in its one spelling.
    pub path: &'a str,
    /// The request's headers; what the service is not to see is left out here.
    pub headers: &'a HeaderMap,
}

/// The service, and all that is remembered of it. Clones are the same.
#[derive(Clone)]
pub struct External {
    shared: Arc<Shared>,
}

struct Shared {
    timeout: Duration,
    cache_ttl: Nanos,
    filter: HeaderFilter,
    policy: BackendPolicy,
    service: Arc<LimitsService>,
    breakers: CircuitBreakers,
    call_slots: Arc<Semaphore>,
    calls_max: usize,
    single_flight: Arc<SingleFlight>,
    /// Both or neither: without Redis, every request asks.
    local_cache: Option<LocalCache>,
    redis_cache: Option<RedisCache>,
    seed: RandomState,
    counters: ExternalCounters,
    warnings: Warnings,
    runtime: Handle,
}

impl External {
    /// Reads certificates; nothing is dialled. Calls run on `runtime`, whoever asks. Without a cache every request asks.
    pub fn new(
        settings: &ExternalSettings,
        redis_cache: Option<Arc<RedisStore>>,
        runtime: Handle,
    ) -> Result<Self, String> {
        let service =
            LimitsService::new(settings).map_err(|mistake| format!("external: {mistake}"))?;
        Ok(Self::with_service(
            settings,
            service,
            redis_cache.map(RedisCache::Redis),
            runtime,
        ))
    }

    fn with_service(
        settings: &ExternalSettings,
        service: LimitsService,
        redis_cache: Option<RedisCache>,
        runtime: Handle,
    ) -> Self {
        let shared = Shared {
            timeout: settings.timeout.into(),
            cache_ttl: settings.cache_ttl,
            filter: settings.headers.clone(),
            policy: BackendPolicy::new(&settings.backend_url),
            service: Arc::new(service),
            breakers: CircuitBreakers::new(Instant::now()),
            call_slots: Arc::new(Semaphore::new(settings.max_concurrent_requests)),
            calls_max: settings.max_concurrent_requests,
            single_flight: Arc::default(),
            local_cache: redis_cache.as_ref().map(|_| LocalCache::new()),
            redis_cache,
            seed: RandomState::default(),
            counters: ExternalCounters::default(),
            warnings: Warnings::default(),
            runtime,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What a caller may spend. Never fails, and never takes longer than the timeout.
    pub async fn resolve(&self, lookup: LimitsLookup<'_>) -> ResolvedLimits {
        let now = Instant::now();
        match self.resolve_cached(&lookup, now) {
            Some(resolved) => resolved,
            // In a box: most requests need no room for this.
            None => Box::pin(self.wait(&lookup, now)).await,
        }
    }

    /// The same at once, if this process knows. An answer that is about to end is renewed behind the request's back.
    pub fn resolve_cached(
        &self,
        lookup: &LimitsLookup<'_>,
        now: Instant,
    ) -> Option<ResolvedLimits> {
        let caller = self.caller(lookup);
        let found = self.shared.local_cache.as_ref()?.get(caller, now)?;
        if let Some(renewal) = found.renew {
            ExternalCounters::add(&self.shared.counters.renewals);
            self.join(caller, lookup, Some(renewal), now);
        }
        Some(self.counted(found.resolved, &self.shared.counters.local_hits))
    }

    /// Where answers may send requests, for those who dial.
    pub fn backends(&self) -> &BackendPolicy {
        &self.shared.policy
    }

    /// What has happened so far.
    pub fn counts(&self) -> ExternalCounts {
        let in_flight = self.shared.calls_max - self.shared.call_slots.available_permits();
        ExternalCounts {
            in_flight: in_flight as u64,
            ..self.shared.counters.read()
        }
    }

    async fn wait(&self, lookup: &LimitsLookup<'_>, now: Instant) -> ResolvedLimits {
        let caller = self.caller(lookup);
        let Some(mut progress) = self.join(caller, lookup, None, now) else {
            let stale = self
                .shared
                .local_cache
                .as_ref()
                .and_then(|local_cache| local_cache.get_stale(caller, now));
            return self.counted(
                stale.map_or(ResolvedLimits::Configured, ResolvedLimits::External),
                &self.shared.counters.waited,
            );
        };
        let is_done = |progress: &LookupProgress| progress.is_done;
        // Too late, or broken down: the best that is known by now.
        let _ = timeout_at(now + self.shared.timeout, progress.wait_for(is_done)).await;
        let resolved = progress.borrow().resolved.clone();
        self.counted(resolved, &self.shared.counters.waited)
    }

    /// The caller's flight; the first begins it, unless there are too many.
    fn join(
        &self,
        caller: CallerKey<'_>,
        lookup: &LimitsLookup<'_>,
        renewal: Option<Renewal>,
        now: Instant,
    ) -> Option<watch::Receiver<LookupProgress>> {
        let shared = &self.shared;
        shared.single_flight.join(caller, |pending| {
            let request = LimitsRequest::of(lookup, &shared.filter);
            let task = LookupTask {
                request,
                hash: caller.hash,
                renewal,
                deadline: now + shared.timeout,
            };
            shared
                .runtime
                .spawn(Arc::clone(shared).run_lookup(task, pending));
        })
    }

    fn caller<'a>(&self, lookup: &LimitsLookup<'a>) -> CallerKey<'a> {
        let hash = self.shared.seed.hash_one((lookup.limit, lookup.key));
        CallerKey {
            hash,
            limit: lookup.limit,
            key: lookup.key,
        }
    }

    /// Counts an answer as what it is: `as_usual` if it is neither old nor none.
    fn counted(
        &self,
        resolved: ResolvedLimits,
        as_usual: &std::sync::atomic::AtomicU64,
    ) -> ResolvedLimits {
        let counters = &self.shared.counters;
        ExternalCounters::add(match &resolved {
            ResolvedLimits::External(limits) if limits.is_stale => &counters.stale,
            ResolvedLimits::External(_) => as_usual,
            ResolvedLimits::Configured => &counters.statics,
        });
        resolved
    }
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let single_flight = self.shared.single_flight.len();
        f.debug_struct("External")
            .field("flights", &single_flight)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
