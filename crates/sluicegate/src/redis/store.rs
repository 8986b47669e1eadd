//! The store: turns charges into requests, and responses into outcomes.
//!
//! A decision takes the shortest of three ways. The shadows deny it from memory if Redis would
//! certainly deny it too. Otherwise one request goes out with all charges, when one node owns them
//! all; or `multi_slot` sends one request per slot and undoes what must not stay.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::quality::RandomState;
use sluicegate_core::algorithm::State;
use sluicegate_core::{Charge, Key, List, Nanos, Outcome, Pace, Quota, Timestamp};

use super::base_claim::{self, Bases};
use super::charge::{StoreCharge, StoreCharges};
use super::context::StoreContext;
use super::dial::Dialer;
use super::health::RedisHealth;
use super::options::{RedisMode, RedisOptions};
use super::options_error::OptionsError;
use super::request::{Operation, RequestError, StoreResponse};
use super::script::ChargeTime;
use super::sender::{RequestSender, response};
use super::shadow::{Prediction, ShadowCharge};
use super::{driver, multi_slot, scout, script};
use crate::clock::Clock;
use crate::layout::StoredNames;
use crate::store::{Store, StoreError};

/// Counters in Redis or Valkey, which all replicas share.
///
/// Make one store per process and share it: clones of a limiter do. Give it to
/// [`Limiter::new`](crate::Limiter::new):
///
/// ```no_run
/// use sluicegate::{Limit, Limiter, MonotonicClock, Policy, Quota, Subject};
/// use sluicegate::{RedisOptions, RedisStore};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = RedisStore::new(RedisOptions::from_url("redis://127.0.0.1:6379")?)?;
/// let policy = Policy::new([Limit::per_client("per-ip", Quota::per_second(20).burst(60))])?;
/// let limiter = Limiter::new(policy, store, MonotonicClock::new());
///
/// let caller = Subject { client_ip: Some("203.0.113.7".parse()?), ..Subject::ANONYMOUS };
/// let verdict = limiter.check(&caller, 1).await;
/// # Ok(())
/// # }
/// ```
///
/// **Connections.** Nothing is dialled before the first decision or [`RedisStore::start`]. The
/// connections belong to the tokio runtime of that first call; when that runtime ends, the next
/// call dials again on its own.
///
/// **Deadline.** Each decision returns within [`RedisOptions::deadline`], no matter how Redis
/// behaves. While a node is known to be away, decisions return an error at once, and the limiter's
/// failure policy applies.
///
/// **Server.** [`RedisStore::advice`] checks the settings of the servers; `docs/operations.md`
/// tells how to run Redis for a rate limiter.
pub struct RedisStore {
    /// Shared with the tasks of this store, which end when the store is dropped.
    pub(super) context: Arc<StoreContext>,
    /// Seed of the hashes by which this process finds counters in its memory. Random, so that
    /// nobody outside can choose keys that collide.
    seed: RandomState,
}

impl RedisStore {
    /// Checks the options, and reads the certificates and passwords that they name. Nothing is
    /// dialled, so a server that is down is no error here.
    pub fn new(options: RedisOptions) -> Result<Self, OptionsError> {
        let dialer = Dialer::prepare(&options)?;
        let sentinels = match &options.mode {
            RedisMode::Sentinel { credentials, .. } => Some(dialer.for_sentinels(credentials)),
            RedisMode::Standalone | RedisMode::Replication | RedisMode::Cluster => None,
        };
        let context = StoreContext::new(options, dialer, sentinels, driver::start);
        Ok(Self {
            context: Arc::new(context),
            seed: RandomState::default(),
        })
    }

    /// Begins to connect, so that the first decision finds a connection. Returns at once.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) {
        if let Some(pending) = self.context.router.open_pending() {
            self.context
                .spawn(scout::scout(Arc::clone(&self.context), pending));
        }
    }

    /// The state of the nodes and the counts so far, for metrics and health pages. Reads memory
    /// only and asks no server.
    pub fn health(&self) -> RedisHealth {
        RedisHealth {
            nodes: self
                .context
                .router
                .map()
                .lanes()
                .iter()
                .map(|lane| lane.health())
                .collect(),
            local_denials: self.context.shadows.denials(),
            foreign_values: self.context.foreign_values.load(Ordering::Relaxed),
            primary_epoch: self.context.primary_trust().epoch(),
            stale_reports: self.context.stale_reports(),
            waits: self.context.waits.read(),
        }
    }

    /// The options that the store was made with.
    pub fn options(&self) -> &RedisOptions {
        &self.context.options
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        self.seed.hash_one(key)
    }

    fn store_charge(&self, charge: &Charge<'_>, hash: u64, base: Option<Pace>) -> StoreCharge {
        let Charge {
            quota,
            cost,
            enforced,
            draw,
            ..
        } = *charge;
        StoreCharge {
            key: self.stored_key(&charge.key),
            hash,
            quota,
            base,
            digits_only: !base_claim::is_marked(&self.context, charge),
            cost,
            enforced,
            draw,
        }
    }

    fn store_charges(
        &self,
        charges: &[Charge<'_>],
        hashes: &[u64],
        bases: &[Option<Pace>],
    ) -> StoreCharges {
        charges
            .iter()
            .zip(hashes)
            .zip(bases)
            .map(|((charge, hash), base)| self.store_charge(charge, *hash, *base))
            .collect()
    }

    /// The base pace of each charge. Only the first charge on a limit has to ask Redis for it.
    async fn bases(
        &self,
        charges: &[Charge<'_>],
        sender: &RequestSender<'_>,
    ) -> Result<Bases, RequestError> {
        match base_claim::known(&self.context, charges) {
            Some(bases) => Ok(bases),
            None => Box::pin(base_claim::learn(&self.context, charges, sender)).await,
        }
    }

    /// Name of a counter in Redis. On a cluster it holds a hash tag, so that the counters of one
    /// caller share a slot.
    fn stored_key(&self, key: &Key<'_>) -> String {
        let RedisOptions {
            key_prefix,
            key_layout,
            mode,
            ..
        } = &self.context.options;
        match mode {
            RedisMode::Cluster => key_layout.stored_with_tag(key_prefix, key),
            RedisMode::Standalone | RedisMode::Replication | RedisMode::Sentinel { .. } => {
                key_layout.stored(key_prefix, key)
            }
        }
    }

    fn sender<C: Clock>(&self, now: Timestamp, clock: &C) -> RequestSender<'_> {
        self.start();
        RequestSender::new(&self.context, now, clock)
    }

    /// The outcomes of a request that Redis would certainly deny; otherwise the hashes of its keys,
    /// which the request needs next.
    fn deny_from_memory(
        &self,
        charges: &[Charge<'_>],
        now: Timestamp,
    ) -> Result<List<Outcome>, List<u64>> {
        let hashes: List<u64> = charges
            .iter()
            .map(|charge| self.hash(&charge.key))
            .collect();
        let shadow_charges = charges
            .iter()
            .zip(&hashes)
            .map(|(charge, hash)| ShadowCharge::new(charge, *hash));
        match self.context.shadows.predict(shadow_charges, now) {
            Prediction::Denied(outcomes) => Ok(outcomes),
            Prediction::Unknown | Prediction::TooEarly(_) => Err(hashes),
        }
    }

    /// Decides in Redis and counts how long that took.
    async fn decide_in_redis<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        hashes: &[u64],
        now: Timestamp,
        clock: &C,
    ) -> Result<List<Outcome>, StoreError> {
        let sender = self.sender(now, clock);
        let decided = self.send_decision(&sender, charges, hashes).await;
        match &decided {
            Ok(_) => self.context.waits.answered(sender.submitted().elapsed()),
            Err(error) => self.context.waits.failed(error),
        }
        Ok(decided?)
    }

    async fn send_decision(
        &self,
        sender: &RequestSender<'_>,
        charges: &[Charge<'_>],
        hashes: &[u64],
    ) -> Result<List<Outcome>, RequestError> {
        let bases = self.bases(charges, sender).await?;
        let store_charges = self.store_charges(charges, hashes, &bases);
        let slot_of = |charge: &StoreCharge| self.context.slot(&charge.key);
        let first = slot_of(&store_charges[0]);
        if store_charges.iter().any(|charge| slot_of(charge) != first) {
            return multi_slot::decide(sender, store_charges, slot_of).await;
        }
        match response(sender.send(Operation::Decide(store_charges))).await {
            Ok(StoreResponse::Decided { now, answers }) => {
                let outcome = |(charge, answer): (&Charge<'_>, &script::ChargeReply)| {
                    script::outcome(charge.quota, charge.cost, answer, now)
                };
                Ok(charges.iter().zip(&answers).map(outcome).collect())
            }
            Ok(StoreResponse::FromMemory(outcomes)) => Ok(outcomes),
            // The slot is moving and its keys are on two nodes: send each key alone.
            Err(RequestError::SplitKeys) => {
                let store_charges = self.store_charges(charges, hashes, &bases);
                multi_slot::decide(sender, store_charges, |charge| charge.hash).await
            }
            Ok(_) => Err(RequestError::mismatched()),
            Err(error) => Err(error),
        }
    }
}

impl Store for RedisStore {
    async fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> Result<List<Outcome>, StoreError> {
        let now = clock.now();
        // The usual request has one charge, and needs none of the lists below.
        if let [charge] = charges {
            let hash = self.hash(&charge.key);
            let shadow_charge = ShadowCharge::new(charge, hash);
            return match self.context.shadows.deny_one(shadow_charge, now) {
                Some(denied) => Ok(List::One(denied)),
                None => self.decide_in_redis(charges, &[hash], now, clock).await,
            };
        }
        match self.deny_from_memory(charges, now) {
            _ if charges.is_empty() => Ok(List::Empty),
            Ok(denied) => Ok(denied),
            Err(hashes) => self.decide_in_redis(charges, &hashes, now, clock).await,
        }
    }

    async fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> Result<Outcome, StoreError> {
        let hash = self.hash(&charge.key);
        // A refund lowers the debt: from now on the shadow would deny too much.
        self.context.shadows.forget(hash);
        let sender = self.sender(clock.now(), clock);
        let bases = self.bases(std::slice::from_ref(charge), &sender).await?;
        let store_charge = self.store_charge(charge, hash, bases[0]);
        let receiver = sender.send(Operation::Refund {
            charge: store_charge,
            charged: ChargeTime::Ago(age),
        });
        match response(receiver).await? {
            StoreResponse::Refunded(reply) => Ok(reply.outcome(charge.quota)),
            _ => Err(RequestError::mismatched().into()),
        }
    }

    async fn reset<C: Clock>(&self, charge: &Charge<'_>, clock: &C) -> Result<(), StoreError> {
        let hash = self.hash(&charge.key);
        self.context.shadows.forget(hash);
        let receiver = self.sender(clock.now(), clock).send(Operation::Delete {
            key: self.stored_key(&charge.key),
            hash,
        });
        response(receiver).await?;
        Ok(())
    }

    fn has_excess(&self) -> bool {
        !self.context.excess.is_empty()
    }

    fn larger_quota(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Quota> {
        if charge.key.limit().is_ad_hoc() {
            return None;
        }
        let hash = self.hash(&charge.key);
        self.context.excess.larger_quota(hash, &charge.quota, now)
    }

    fn remembered(&self, charge: &Charge<'_>, now: Timestamp) -> Option<State> {
        self.context
            .shadows
            .remembered(self.hash(&charge.key), &charge.quota, now)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("options", &self.context.options)
            .finish_non_exhaustive()
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.context.stop();
    }
}
