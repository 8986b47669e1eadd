//! Finding out what a caller may spend: Redis, then the service, then whatever was known before.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use sluicegate_core::Nanos;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::Shared;
use super::answer::Answer;
use super::ask::Asked;
use super::breaker::Came;
use super::counts::Counters;
use super::error::CallError;
use super::flight::Flight;
use super::front::{Renewal, Spans};
use super::lifetime::Lifetime;
use super::stored::{self, Names};
use super::told::{Known, Told};

/// How long an answer is kept after it has ended, for when no newer one can be had.
const STALE: Nanos = Nanos::from_secs(5 * 60);
/// How long what stands in for an answer is held while nobody may ask: so long a recovery is not noticed.
const HOLD: Duration = Duration::from_secs(1);

/// What a flight is to find out.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) asked: Asked,
    /// Of limit and key.
    pub(super) hash: u64,
    /// Set when an answer is there that is about to end.
    pub(super) renewal: Option<Renewal>,
    pub(super) deadline: Instant,
}

/// Where an answer came from.
enum Source {
    Redis { ttl: Nanos },
    Service { answer: Answer, lifetime: Lifetime },
}

impl Shared {
    /// Finds out, tells everybody who waits, and remembers.
    pub(super) async fn fly(self: Arc<Self>, errand: Errand, flight: Flight) {
        let names = self
            .cache
            .as_ref()
            .map(|cache| Names::new(cache.prefix(), &errand.asked.limit, &errand.asked.key));
        let found = self.find(&errand, names.as_ref(), &flight).await;
        let now = Instant::now();
        let (told, source) = match found {
            Some(found) => found,
            None => {
                self.hold(&errand, &flight, now);
                let best = flight.best();
                return flight.land(best);
            }
        };
        self.remember(&errand, &flight, &told, &source, now);
        flight.land(Known::Told(told));
        if let (Source::Service { answer, lifetime }, Some(names)) = (source, names) {
            self.store(&names, &answer, lifetime).await;
        }
    }

    async fn find(
        &self,
        errand: &Errand,
        names: Option<&Names>,
        flight: &Flight,
    ) -> Option<(Arc<Told>, Source)> {
        if let Some(stale) = self
            .front
            .as_ref()
            .and_then(|front| front.stale(flight.caller(errand.hash), Instant::now()))
        {
            flight.suggest(Known::Told(stale));
        }
        if let Some(names) = names
            && let Some((told, ttl)) = self.in_redis(errand, names, flight).await
        {
            Counters::add(&self.counters.redis_hits);
            return Some((told, Source::Redis { ttl }));
        }
        // Those who may not call do not wait for it either.
        if self.breakers.is_open(errand.hash, Instant::now()).is_some() {
            return None;
        }
        let (slot, has_waited) = self.slot(errand.deadline).await?;
        let leave = self.breakers.admit(errand.hash, Instant::now()).ok()?;
        let called = self.call(errand, slot).await;
        let came = match &called {
            Ok(_) => Came::Well,
            // Too little of the time was left.
            Err(CallError::TimedOut) if has_waited => Came::Nothing,
            Err(error) if error.is_of_service() => Came::Wrong,
            Err(_) => Came::WrongForKey,
        };
        let opened = self
            .breakers
            .report(errand.hash, leave, came, Instant::now());
        self.counters.openings.fetch_add(opened, Relaxed);
        match called {
            Ok((told, answer, lifetime)) => Some((told, Source::Service { answer, lifetime })),
            Err(error) => {
                Counters::add(&self.counters.errors);
                if self.warnings.of_calls.is_due(Instant::now()) {
                    tracing::warn!(limit = %errand.asked.limit, %error, "the limits service gave no answer");
                }
                None
            }
        }
    }

    /// What is kept; the older copy is suggested on the way. A renewal of what this process put there skips the first.
    async fn in_redis(
        &self,
        errand: &Errand,
        names: &Names,
        flight: &Flight,
    ) -> Option<(Arc<Told>, Nanos)> {
        let cache = self.cache.as_ref()?;
        let wants_fresh = errand.renewal != Some(Renewal::FromService);
        let wants_stale = flight.best() == Known::Static;
        let get = async |wanted: bool, name: &str| match wanted {
            true => cache.get(name).await,
            false => Ok(None),
        };
        let both = async {
            tokio::join!(
                get(wants_fresh, &names.fresh),
                get(wants_stale, &names.stale)
            )
        };
        let Ok((fresh, stale)) = timeout_at(errand.deadline, both).await else {
            Counters::add(&self.counters.redis_errors);
            return None;
        };
        if let Some((told, _)) = self.read(names, stale) {
            flight.suggest(Known::Told(Arc::new(told.stale())));
        }
        self.read(names, fresh)
            .map(|(told, ttl)| (Arc::new(told), ttl))
    }

    fn read(
        &self,
        names: &Names,
        got: Result<Option<Vec<u8>>, sluicegate::StoreError>,
    ) -> Option<(Told, Nanos)> {
        let value = match got {
            Ok(value) => value?,
            Err(_) => {
                Counters::add(&self.counters.redis_errors);
                return None;
            }
        };
        let read = stored::read(names, &value);
        let told =
            read.and_then(|(answer, ttl)| Some((answer.understood(&self.policy).ok()?.told, ttl)));
        if told.is_none() {
            Counters::add(&self.counters.poisoned);
            if self.warnings.of_poison.is_due(Instant::now()) {
                tracing::warn!(name = %names.fresh, "a value in Redis is no answer of ours: the service is asked again");
            }
        }
        told
    }

    /// One of the calls that may be under way, and whether it had to be waited for.
    async fn slot(&self, deadline: Instant) -> Option<(OwnedSemaphorePermit, bool)> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Some((slot, false));
        }
        Counters::add(&self.counters.waits);
        let slot = timeout_at(deadline, Arc::clone(&self.slots).acquire_owned())
            .await
            .ok()?
            .ok()?;
        Some((slot, true))
    }

    /// Asks the service, in a task that may break down alone.
    async fn call(
        &self,
        errand: &Errand,
        slot: OwnedSemaphorePermit,
    ) -> Result<(Arc<Told>, Answer, Lifetime), CallError> {
        Counters::add(&self.counters.calls);
        let within = errand.deadline.saturating_duration_since(Instant::now());
        let (service, asked, default) = (
            Arc::clone(&self.service),
            errand.asked.clone(),
            self.cache_ttl,
        );
        // Dropped with all that is in it when the time is over.
        let mut calls = JoinSet::new();
        calls.spawn(async move {
            let _slot = slot;
            service.ask(&asked, default, within).await
        });
        let (answer, lifetime) = match timeout_at(errand.deadline, calls.join_next()).await {
            Err(_) => return Err(CallError::TimedOut),
            Ok(Some(Ok(answered))) => answered?,
            Ok(_) => return Err(CallError::Panicked),
        };
        let understood = answer
            .understood(&self.policy)
            .map_err(CallError::Malformed)?;
        if understood.has_invalid_tenant {
            Counters::add(&self.counters.invalid_tenants);
            if self.warnings.of_tenants.is_due(Instant::now()) {
                tracing::warn!(limit = %errand.asked.limit, "a tenant_key of the limits service is none and is ignored");
            }
        }
        if let Some(refused) = understood.refused_backend {
            Counters::add(&self.counters.refused_backends);
            if self.warnings.of_backends.is_due(Instant::now()) {
                tracing::warn!(limit = %errand.asked.limit, why = %refused, "a backend_url of the limits service is ignored");
            }
        }
        Ok((Arc::new(understood.told), answer, lifetime))
    }

    /// In this process.
    fn remember(
        &self,
        errand: &Errand,
        flight: &Flight,
        told: &Arc<Told>,
        source: &Source,
        now: Instant,
    ) {
        let Some(front) = &self.front else { return };
        let caller = flight.caller(errand.hash);
        let (fresh, renewal) = match source {
            // How old it is there is not known: looked at again soon, it is never used for much longer than it holds.
            Source::Redis { ttl } => (Duration::from(*ttl) / 10, Renewal::FromRedis),
            Source::Service {
                lifetime: Lifetime {
                    keeps_stale: false, ..
                },
                ..
            } => return front.forget(caller),
            Source::Service { lifetime, .. } => match lifetime.fresh {
                Some(ttl) => (ttl.into(), Renewal::FromService),
                None => (Duration::ZERO, Renewal::None),
            },
        };
        front.keep(
            caller,
            Arc::clone(told),
            Spans {
                fresh,
                stale: STALE.into(),
            },
            renewal,
            now,
        );
    }

    /// While nobody may ask, what stands in for an answer need not be looked for by everybody.
    fn hold(&self, errand: &Errand, flight: &Flight, now: Instant) {
        let Some(front) = self.front.as_ref().filter(|_| errand.renewal.is_none()) else {
            return;
        };
        if let Some(until) = self.breakers.is_open(errand.hash, now) {
            front.hold(
                flight.caller(errand.hash),
                &flight.best(),
                until.min(now + HOLD),
                now,
            );
        }
    }

    /// For all replicas.
    async fn store(&self, names: &Names, answer: &Answer, lifetime: Lifetime) {
        let Some(cache) = &self.cache else { return };
        let ttl = lifetime.fresh.unwrap_or(Nanos::SECOND);
        let Some(value) = stored::write(names, answer, ttl).filter(|_| lifetime.keeps_stale) else {
            return;
        };
        let stale_ttl = Nanos::new(lifetime.fresh.unwrap_or(Nanos::ZERO).get() + STALE.get());
        let fresh = async {
            match lifetime.fresh {
                Some(ttl) => cache.put(&names.fresh, value.clone(), ttl).await,
                None => Ok(()),
            }
        };
        let (fresh, stale) = tokio::join!(fresh, cache.put(&names.stale, value.clone(), stale_ttl));
        for _ in [fresh.is_err(), stale.is_err()]
            .into_iter()
            .filter(|is_lost| *is_lost)
        {
            Counters::add(&self.counters.redis_errors);
        }
    }
}
