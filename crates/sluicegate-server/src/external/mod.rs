//! Limits from outside: a service that knows what each caller may spend.
//!
//! ```text
//! quota_of ─▶ front (this process) ─▶ flight, one per caller ─▶ Redis ─▶ breakers ─▶ slot ─▶ service
//!                                        └── on any failure: the older answer, then the limit's own quota
//! ```

mod answer;
mod ask;
pub mod backend;
mod breaker;
mod cache;
mod connect;
mod counts;
mod error;
mod flight;
mod front;
mod grpc;
mod http;
mod lifetime;
#[cfg(test)]
mod pretended;
mod search;
mod service;
mod services;
mod stored;
#[cfg(test)]
mod tests;
mod told;
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

use self::ask::Asked;
use self::breaker::Breakers;
use self::cache::Cache;
use self::counts::Counters;
use self::flight::{Flights, Progress};
use self::front::{Caller, Front, Renewal};
use self::search::Errand;
use self::service::Service;
use self::warnings::Warnings;

pub use self::backend::{Backend, BackendHttp, BackendPolicy, Refused};
pub use self::counts::ExternalCounts;
pub(crate) use self::services::Externals;
pub use self::told::{Known, Told};

/// The bytes of an answer at most.
const REPLY_MAX: usize = 64 * 1024;

/// Who asks: one caller of one limit, and the request that brought it up.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
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
    service: Arc<Service>,
    breakers: Breakers,
    slots: Arc<Semaphore>,
    calls_max: usize,
    flights: Arc<Flights>,
    /// Both or neither: without Redis, every request asks.
    front: Option<Front>,
    cache: Option<Cache>,
    seed: RandomState,
    counters: Counters,
    warnings: Warnings,
    runtime: Handle,
}

impl External {
    /// Reads certificates; nothing is dialled. Calls run on `runtime`, whoever asks. Without a cache every request asks.
    pub fn new(
        settings: &ExternalSettings,
        cache: Option<Arc<RedisStore>>,
        runtime: Handle,
    ) -> Result<Self, String> {
        let service = Service::new(settings).map_err(|mistake| format!("external: {mistake}"))?;
        Ok(Self::over(
            settings,
            service,
            cache.map(Cache::Redis),
            runtime,
        ))
    }

    fn over(
        settings: &ExternalSettings,
        service: Service,
        cache: Option<Cache>,
        runtime: Handle,
    ) -> Self {
        let shared = Shared {
            timeout: settings.timeout.into(),
            cache_ttl: settings.cache_ttl,
            filter: settings.headers.clone(),
            policy: BackendPolicy::new(&settings.backend_url),
            service: Arc::new(service),
            breakers: Breakers::new(Instant::now()),
            slots: Arc::new(Semaphore::new(settings.max_concurrent_requests)),
            calls_max: settings.max_concurrent_requests,
            flights: Arc::default(),
            front: cache.as_ref().map(|_| Front::new()),
            cache,
            seed: RandomState::default(),
            counters: Counters::default(),
            warnings: Warnings::default(),
            runtime,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What a caller may spend. Never fails, and never takes longer than the timeout.
    pub async fn quota_of(&self, question: Question<'_>) -> Known {
        let now = Instant::now();
        match self.known(&question, now) {
            Some(known) => known,
            // In a box: most requests need no room for this.
            None => Box::pin(self.wait(&question, now)).await,
        }
    }

    /// The same at once, if this process knows. An answer that is about to end is renewed behind the request's back.
    pub fn known(&self, question: &Question<'_>, now: Instant) -> Option<Known> {
        let caller = self.caller(question);
        let found = self.shared.front.as_ref()?.look(caller, now)?;
        if let Some(renewal) = found.renew {
            Counters::add(&self.shared.counters.renewals);
            self.join(caller, question, Some(renewal), now);
        }
        Some(self.counted(found.known, &self.shared.counters.local_hits))
    }

    /// Where answers may send requests, for those who dial.
    pub fn backends(&self) -> &BackendPolicy {
        &self.shared.policy
    }

    /// What has happened so far.
    pub fn counts(&self) -> ExternalCounts {
        let in_flight = self.shared.calls_max - self.shared.slots.available_permits();
        ExternalCounts {
            in_flight: in_flight as u64,
            ..self.shared.counters.read()
        }
    }

    async fn wait(&self, question: &Question<'_>, now: Instant) -> Known {
        let caller = self.caller(question);
        let Some(mut progress) = self.join(caller, question, None, now) else {
            let stale = self
                .shared
                .front
                .as_ref()
                .and_then(|front| front.stale(caller, now));
            return self.counted(
                stale.map_or(Known::Static, Known::Told),
                &self.shared.counters.waited,
            );
        };
        let is_done = |progress: &Progress| progress.is_done;
        // Too late, or broken down: the best that is known by now.
        let _ = timeout_at(now + self.shared.timeout, progress.wait_for(is_done)).await;
        let known = progress.borrow().known.clone();
        self.counted(known, &self.shared.counters.waited)
    }

    /// The caller's flight; the first begins it, unless there are too many.
    fn join(
        &self,
        caller: Caller<'_>,
        question: &Question<'_>,
        renewal: Option<Renewal>,
        now: Instant,
    ) -> Option<watch::Receiver<Progress>> {
        let shared = &self.shared;
        shared.flights.join(caller, |flight| {
            let asked = Asked::of(question, &shared.filter);
            let errand = Errand {
                asked,
                hash: caller.hash,
                renewal,
                deadline: now + shared.timeout,
            };
            shared.runtime.spawn(Arc::clone(shared).fly(errand, flight));
        })
    }

    fn caller<'a>(&self, question: &Question<'a>) -> Caller<'a> {
        let hash = self.shared.seed.hash_one((question.limit, question.key));
        Caller {
            hash,
            limit: question.limit,
            key: question.key,
        }
    }

    /// Counts an answer as what it is: `as_usual` if it is neither old nor none.
    fn counted(&self, known: Known, as_usual: &std::sync::atomic::AtomicU64) -> Known {
        let counters = &self.shared.counters;
        Counters::add(match &known {
            Known::Told(told) if told.is_stale => &counters.stale,
            Known::Told(_) => as_usual,
            Known::Static => &counters.statics,
        });
        known
    }
}

impl fmt::Debug for External {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flights = self.shared.flights.len();
        f.debug_struct("External")
            .field("flights", &flights)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}
