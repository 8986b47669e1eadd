//! External limits: a service outside this process that says how much each caller may spend.
//!
//! A limit with `quota_from: external` has no fixed numbers. Before it is charged, the service is
//! asked which quota its caller has, over HTTP or gRPC, and the reply is cached. A request waits
//! for the service at most `external.timeout`, and only when neither cache has a reply:
//!
//! ```text
//! resolve ─▶ local cache ─▶ single flight ─▶ Redis cache ─▶ breakers ─▶ call slot ─▶ service
//!                               │ one lookup per caller
//!                               └── on any failure: an expired reply, then the limit's own quota
//! ```
//!
//! The invariant of the whole module: [`External::resolve`] never fails. A service that is slow,
//! wrong or away makes limits less exact, never unavailable.

pub mod backend;
mod circuit_breaker;
mod codec_choice;
#[cfg(test)]
mod contract_tests;
mod counts;
mod error;
#[cfg(test)]
mod fakes;
#[cfg(feature = "fuzz-internals")]
pub(crate) mod fuzz_internals;
mod grpc;
mod grpc_codec;
mod header_spelling;
mod http;
mod lifetime;
mod limits;
mod local_cache;
mod lookup;
mod optional_field;
mod redis_cache;
mod reply;
mod request;
mod service;
mod services;
mod single_flight;
#[cfg(test)]
mod tests;
mod warnings;

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use foldhash::quality::RandomState;
use sluicegate::RedisStore;
use sluicegate_config::{ExternalSettings, HeaderFilter};
use sluicegate_core::{FailurePolicy, FailureStatus, Key, Nanos};
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
pub use self::header_spelling::{HeaderSpelling, SpelledHeaders};
pub use self::limits::{ExternalLimits, ResolvedLimits, TenantPolicy};
pub use self::optional_field::OptionalField;
pub(crate) use self::services::Externals;

/// The largest reply of the service in bytes; a longer one is an error.
const REPLY_MAX: usize = 64 * 1024;

/// One caller of one limit, with the request that made somebody look it up.
///
/// Limit and key identify the caller in both caches. Method, path and headers only inform the
/// service: they come from the first request that asks, and the reply holds for all requests of
/// this caller until it expires.
#[derive(Clone, Copy, Debug)]
pub struct LimitsLookup<'a> {
    /// The counter that is about to be charged: a limit and the values of its key parts.
    pub counter: Key<'a>,
    /// The caller: the [text](Key::caller) of the counter's values.
    pub key: &'a str,
    /// The request's method.
    pub method: &'a str,
    /// The request's normalized path.
    pub path: &'a str,
    /// The request's headers; those that the service must not see are removed before it is called.
    pub headers: SpelledHeaders<'a>,
}

impl<'a> LimitsLookup<'a> {
    /// The name of the limit.
    fn limit(&self) -> &'a str {
        &self.counter.limit().name
    }
}

/// A client of the limits service, with its caches and circuit breakers.
///
/// Clones share everything. A reload keeps the client as long as its settings stay the same, so
/// that caches and breakers survive.
#[derive(Clone)]
pub struct External {
    shared: Arc<ExternalState>,
    /// The status of refusals where neither a reply nor its limit has one. Not shared: it belongs to
    /// the configuration in force, the rest may be older.
    failure_status: FailureStatus,
}

/// The state behind all clones, also held by each lookup that runs in the background.
struct ExternalState {
    /// The longest that a request waits, and that a lookup takes.
    timeout: Duration,
    /// The lifetime of a reply that does not state its own.
    cache_ttl: Nanos,
    /// The request headers that the service may see.
    filter: HeaderFilter,
    /// The backends that replies may send requests to.
    policy: BackendPolicy,
    service: Arc<LimitsService>,
    breakers: CircuitBreakers,
    /// One permit for each call that may run at the same time.
    call_slots: Arc<Semaphore>,
    /// How many permits `call_slots` started with.
    calls_max: usize,
    single_flight: Arc<SingleFlight>,
    /// Present exactly when `redis_cache` is: without Redis, every request calls the service.
    local_cache: Option<LocalCache>,
    redis_cache: Option<RedisCache>,
    /// Hashes callers. Random for each process, so that nobody can choose keys that collide.
    seed: RandomState,
    counters: ExternalCounters,
    warnings: Warnings,
    /// Runs the lookups, so that a lookup outlives the request that started it.
    runtime: Handle,
}

impl External {
    /// Reads certificates; no connection is made yet. Calls run on `runtime`, whichever runtime the
    /// request is on. Without `redis_cache` every request calls the service.
    pub fn new(
        settings: &ExternalSettings,
        redis_cache: Option<Arc<RedisStore>>,
        runtime: Handle,
    ) -> Result<Self, String> {
        let service =
            LimitsService::new(settings).map_err(|mistake| format!("external: {mistake}"))?;
        let redis_cache = redis_cache.map(RedisCache::Store);
        Ok(Self::with_service(settings, service, redis_cache, runtime))
    }

    fn with_service(
        settings: &ExternalSettings,
        service: LimitsService,
        redis_cache: Option<RedisCache>,
        runtime: Handle,
    ) -> Self {
        let shared = ExternalState {
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
            failure_status: FailureStatus::default(),
        }
    }

    /// The same client for a store whose failure policy is this one.
    pub(crate) fn for_store(self, on_failure: FailurePolicy) -> Self {
        let failure_status = match on_failure {
            FailurePolicy::Closed(status) => status,
            FailurePolicy::Open | FailurePolicy::Local => FailureStatus::default(),
        };
        Self {
            failure_status,
            ..self
        }
    }

    /// The status of refusals where neither a reply nor its limit has one.
    pub(crate) fn failure_status(&self) -> FailureStatus {
        self.failure_status
    }

    /// The limits of a caller. Never fails, and never takes longer than the timeout.
    pub async fn resolve(&self, lookup: LimitsLookup<'_>) -> ResolvedLimits {
        let now = Instant::now();
        match self.resolve_cached(&lookup, now) {
            Some(resolved) => resolved,
            // Boxed, because the future of every request would otherwise reserve room for it.
            None => Box::pin(self.wait_for_lookup(&lookup, now)).await,
        }
    }

    /// The limits of a caller if this process has them cached, without waiting.
    ///
    /// The first request in the last tenth of a reply's lifetime starts its renewal in the
    /// background and is still answered from the cache.
    pub fn resolve_cached(
        &self,
        lookup: &LimitsLookup<'_>,
        now: Instant,
    ) -> Option<ResolvedLimits> {
        let caller = self.caller_key(lookup);
        let hit = self.shared.local_cache.as_ref()?.get(caller, now)?;
        if let Some(renewal) = hit.renew {
            ExternalCounters::add(&self.shared.counters.renewals);
            self.join_lookup(caller, lookup, Some(renewal), now);
        }
        Some(self.count_result(hit.resolved, &self.shared.counters.local_hits))
    }

    /// The backends that replies may name; whoever connects to one asks this policy again.
    pub fn backends(&self) -> &BackendPolicy {
        &self.shared.policy
    }

    /// Counts a backend whose every address was refused right before it was dialled, and logs that
    /// at most once a minute; the request goes where all others go.
    pub fn ignore_backend(&self, host: &str) {
        let field = OptionalField::BackendUrl;
        let ExternalState {
            counters, warnings, ..
        } = &*self.shared;
        ExternalCounters::add(&counters.ignored[field as usize]);
        if warnings.fields[field as usize].is_due(Instant::now()) {
            tracing::warn!(
                field = field.name(), host, why = %BackendRefusal::Private,
                "the limits service named a backend that may not be dialled, it is ignored"
            );
        }
    }

    /// The counts since the start, for the metrics.
    pub fn counts(&self) -> ExternalCounts {
        let in_flight = self.shared.calls_max - self.shared.call_slots.available_permits();
        ExternalCounts {
            in_flight: in_flight as u64,
            ..self.shared.counters.read()
        }
    }

    /// Joins the caller's lookup and waits for it, at most until the timeout.
    async fn wait_for_lookup(&self, lookup: &LimitsLookup<'_>, now: Instant) -> ResolvedLimits {
        let waited = &self.shared.counters.waited;
        let caller = self.caller_key(lookup);
        let Some(mut progress) = self.join_lookup(caller, lookup, None, now) else {
            // Too many lookups run already: use what this process still remembers.
            let local_cache = self.shared.local_cache.as_ref();
            let stale = local_cache.and_then(|cache| cache.get_stale(caller, now));
            let resolved = stale.map_or(ResolvedLimits::Configured, ResolvedLimits::External);
            return self.count_result(resolved, waited);
        };
        let is_done = |progress: &LookupProgress| progress.is_done;
        // When the time is over, or the lookup panicked, the best result so far is used.
        let _ = timeout_at(now + self.shared.timeout, progress.wait_for(is_done)).await;
        let resolved = progress.borrow().resolved.clone();
        self.count_result(resolved, waited)
    }

    /// Joins the lookup of a caller, or starts it. `None` when too many callers are looked up.
    fn join_lookup(
        &self,
        caller: CallerKey<'_>,
        lookup: &LimitsLookup<'_>,
        renewal: Option<Renewal>,
        now: Instant,
    ) -> Option<watch::Receiver<LookupProgress>> {
        let shared = &self.shared;
        shared.single_flight.join(caller, |pending| {
            let task = LookupTask {
                request: LimitsRequest::of(lookup, &shared.filter),
                hash: caller.hash,
                renewal,
                deadline: now + shared.timeout,
            };
            shared
                .runtime
                .spawn(Arc::clone(shared).run_lookup(task, pending));
        })
    }

    fn caller_key<'a>(&self, lookup: &LimitsLookup<'a>) -> CallerKey<'a> {
        CallerKey {
            hash: self.shared.seed.hash_one((lookup.limit(), lookup.key)),
            limit: lookup.limit(),
            key: lookup.key,
        }
    }

    /// Counts a result by its origin; a current reply is counted in `current`.
    fn count_result(&self, resolved: ResolvedLimits, current: &AtomicU64) -> ResolvedLimits {
        let counters = &self.shared.counters;
        ExternalCounters::add(match &resolved {
            ResolvedLimits::External(limits) if limits.is_stale => &counters.stale,
            ResolvedLimits::External(_) => current,
            ResolvedLimits::Configured => &counters.statics,
        });
        resolved
    }
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lookups = self.shared.single_flight.len();
        f.debug_struct("External")
            .field("lookups", &lookups)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
