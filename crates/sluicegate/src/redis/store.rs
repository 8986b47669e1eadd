//! The store: from charges to asks, and from answers to outcomes.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::quality::RandomState;
use sluicegate_core::algorithm::State;
use sluicegate_core::{Charge, Key, List, Nanos, Outcome, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ask::{Ask, Asked, Fault, Told, Work};
use super::context::Context;
use super::dial::Dialing;
use super::health::RedisHealth;
use super::options::{RedisMode, RedisOptions};
use super::options_error::OptionsError;
use super::script::Drawn;
use super::shadow::{Foresight, Looked};
use super::{Item, Items, parts, scout, script, slot};
use crate::clock::Clock;
use crate::layout::StoredNames;
use crate::store::{Store, StoreError};

/// Counters in Redis or Valkey, which all replicas share.
///
/// Nothing is dialled before the first decision, or [`RedisStore::start`]. Its connections belong to the tokio runtime
/// that made that first call; when that runtime ends, the next call dials anew on its own.
///
/// Each decision is answered within the deadline of the options, whatever Redis does; while a node is known to be away,
/// at once. See `docs/operations.md` for how to run Redis for this.
pub struct RedisStore {
    pub(super) context: Arc<Context>,
    seed: RandomState,
}

impl RedisStore {
    /// Checks the options, and reads certificates and passwords that they name. Nothing is dialled.
    pub fn new(options: RedisOptions) -> Result<Self, OptionsError> {
        let dialing = Dialing::prepare(&options)?;
        let sentinels = match &options.mode {
            RedisMode::Sentinel { credentials, .. } => Some(dialing.to_sentinels(credentials)),
            RedisMode::Standalone | RedisMode::Replication | RedisMode::Cluster => None,
        };
        Ok(Self {
            context: Arc::new(Context::new(options, dialing, sentinels)),
            seed: RandomState::default(),
        })
    }

    /// Begins to connect, so that the first decision finds a connection. Returns at once.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(&self) {
        if let Some(lobby) = self.context.router.open() {
            self.context
                .spawn(scout::scout(Arc::clone(&self.context), lobby));
        }
    }

    /// What is known about the nodes.
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
            waits: self.context.waits.read(),
        }
    }

    /// The options it was made with.
    pub fn options(&self) -> &RedisOptions {
        &self.context.options
    }

    /// A value that is no counter, as it was put; `None` when it is not there, or not any more.
    ///
    /// The key is taken as it is: it begins with the prefix of the options only if the caller says so.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match answer(self.errand().send(Work::Get {
            key: key.to_owned(),
        }))
        .await?
        {
            Told::Found(value) => Ok(value),
            _ => Err(mixed_up()),
        }
    }

    /// Keeps a value that is no counter for so long, in milliseconds rounded up, in place of whatever is there.
    pub async fn put(&self, key: &str, value: Vec<u8>, ttl: Nanos) -> Result<(), StoreError> {
        match answer(self.errand().send(Work::Put {
            key: key.to_owned(),
            value,
            ttl_ms: whole_ms(ttl),
        }))
        .await?
        {
            Told::Kept => Ok(()),
            _ => Err(mixed_up()),
        }
    }

    /// Keeps a value that is no counter in the place of the one that was read, if that is still there; says whether it
    /// was. Without a value that was read there must be none.
    pub async fn swap(
        &self,
        key: &str,
        read: Option<&[u8]>,
        value: Vec<u8>,
        ttl: Nanos,
    ) -> Result<bool, StoreError> {
        let (read, ttl_ms) = (read.unwrap_or_default().to_vec(), whole_ms(ttl));
        match answer(self.errand().send(Work::Swap {
            key: key.to_owned(),
            read,
            value,
            ttl_ms,
        }))
        .await?
        {
            Told::Swapped(is_kept) => Ok(is_kept),
            _ => Err(mixed_up()),
        }
    }

    /// Something to be done from now on that goes by no clock.
    fn errand(&self) -> Errand<'_> {
        self.start();
        let (asked, at) = (Instant::now(), Timestamp::default());
        Errand {
            store: self,
            asked_at: at,
            asked,
            asked_by: at,
            deadline: asked + self.context.deadline,
        }
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        self.seed.hash_one(key)
    }

    fn item(&self, charge: &Charge<'_>, hash: u64) -> Item {
        let Charge {
            quota,
            cost,
            enforced,
            ..
        } = *charge;
        Item {
            key: self.stored_key(&charge.key),
            hash,
            quota,
            cost,
            enforced,
        }
    }

    fn items(&self, charges: &[Charge<'_>], hashes: &[u64]) -> Items {
        charges
            .iter()
            .zip(hashes)
            .map(|(charge, hash)| self.item(charge, *hash))
            .collect()
    }

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

    fn slot(&self, key: &str) -> u16 {
        if matches!(self.context.options.mode, RedisMode::Cluster) {
            slot::slot(key.as_bytes())
        } else {
            0
        }
    }

    /// Something to be done, from now on.
    pub(super) fn begin<C: Clock>(&self, now: Timestamp, clock: &C) -> Errand<'_> {
        self.start();
        let asked = Instant::now();
        // Between the three readings this thread may have had to wait.
        Errand {
            store: self,
            asked_at: now,
            asked,
            asked_by: clock.now(),
            deadline: asked + self.context.deadline,
        }
    }

    /// The answer from memory to a request that is denied for certain, or the hashes of its keys.
    fn look(&self, charges: &[Charge<'_>], now: Timestamp) -> Result<List<Outcome>, List<u64>> {
        let hashes: List<u64> = charges
            .iter()
            .map(|charge| self.hash(&charge.key))
            .collect();
        let looked = charges
            .iter()
            .zip(&hashes)
            .map(|(charge, hash)| Looked::at(charge, *hash));
        match self.context.shadows.foresee(looked, now) {
            Foresight::Denied(outcomes) => Ok(outcomes),
            Foresight::Unsure | Foresight::NotYet(_) => Err(hashes),
        }
    }

    /// Asks Redis.
    async fn ask<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        hashes: &[u64],
        now: Timestamp,
        clock: &C,
    ) -> Result<List<Outcome>, StoreError> {
        let items = self.items(charges, hashes);
        let errand = self.begin(now, clock);
        let answered = self.ask_with(&errand, items, charges, hashes).await;
        match &answered {
            Ok(_) => self.context.waits.answered(errand.asked.elapsed()),
            Err(fault) => self.context.waits.failed(fault),
        }
        Ok(answered?)
    }

    async fn ask_with(
        &self,
        errand: &Errand<'_>,
        items: Items,
        charges: &[Charge<'_>],
        hashes: &[u64],
    ) -> Result<List<Outcome>, Fault> {
        let first = self.slot(&items[0].key);
        if items.iter().any(|item| self.slot(&item.key) != first) {
            return parts::decide(errand, items, |item| self.slot(&item.key)).await;
        }
        match answer(errand.send(Work::Decide(items))).await {
            Ok(Told::Decided { now, answers }) => {
                let outcome = |(charge, answer): (&Charge<'_>, &script::Answer)| {
                    script::outcome(charge.quota, charge.cost, answer, now)
                };
                Ok(charges.iter().zip(&answers).map(outcome).collect())
            }
            Ok(Told::Remembered(outcomes)) => Ok(outcomes),
            Err(Fault::Split) => {
                let items = self.items(charges, hashes);
                parts::decide(errand, items, |item| item.hash).await
            }
            Ok(_) => Err(Fault::Away(MIXED_UP.to_owned())),
            Err(fault) => Err(fault),
        }
    }
}

/// Asks that share one deadline.
#[derive(Clone, Copy)]
pub(super) struct Errand<'a> {
    store: &'a RedisStore,
    asked_at: Timestamp,
    asked: Instant,
    asked_by: Timestamp,
    deadline: Instant,
}

/// An answer that is on its way.
pub(super) type Awaited = oneshot::Receiver<Result<Told, Fault>>;

impl Errand<'_> {
    /// Sends an ask; its answer comes within the deadline.
    pub(super) fn send(&self, work: Work) -> Awaited {
        let (sender, receiver) = oneshot::channel();
        self.submit(work, Some(sender));
        receiver
    }

    /// Sends an ask that nobody waits for.
    pub(super) fn send_and_forget(&self, work: Work) {
        self.submit(work, None);
    }

    fn submit(&self, work: Work, answer: Option<oneshot::Sender<Result<Told, Fault>>>) {
        let key = match &work {
            Work::Decide(items) => items.first().map_or("", |item| item.key.as_str()),
            Work::Refund { item, .. } => item.key.as_str(),
            Work::Delete { key, .. }
            | Work::Get { key }
            | Work::Put { key, .. }
            | Work::Swap { key, .. } => key.as_str(),
        };
        let slot = self.store.slot(key);
        let Self {
            asked_at,
            asked,
            asked_by,
            deadline,
            ..
        } = *self;
        self.store.context.submit(Ask::from(Asked {
            work,
            slot,
            asked_at,
            asked,
            asked_by,
            deadline,
            hops: 0,
            asking: false,
            answer,
        }));
    }
}

/// Rounded up, and never nothing.
fn whole_ms(ttl: Nanos) -> u64 {
    ttl.get().div_ceil(Nanos::MILLISECOND.get()).max(1)
}

fn mixed_up() -> StoreError {
    StoreError::Unavailable(MIXED_UP.to_owned())
}

const MIXED_UP: &str = "answers are mixed up";

/// Waits for an answer.
pub(super) async fn answer(awaited: Awaited) -> Result<Told, Fault> {
    awaited
        .await
        .unwrap_or_else(|_| Err(Fault::Away("the connection was closed".to_owned())))
}

impl Store for RedisStore {
    async fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> Result<List<Outcome>, StoreError> {
        let now = clock.now();
        // A request of one charge does not pay for those of many.
        if let [charge] = charges {
            let hash = self.hash(&charge.key);
            return match self.context.shadows.deny_one(Looked::at(charge, hash), now) {
                Some(denied) => Ok(List::One(denied)),
                None => self.ask(charges, &[hash], now, clock).await,
            };
        }
        match self.look(charges, now) {
            _ if charges.is_empty() => Ok(List::Empty),
            Ok(denied) => Ok(denied),
            Err(hashes) => self.ask(charges, &hashes, now, clock).await,
        }
    }

    async fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> Result<Outcome, StoreError> {
        let item = self.item(charge, self.hash(&charge.key));
        self.context.shadows.forget(item.hash);
        let awaited = self.begin(clock.now(), clock).send(Work::Refund {
            item,
            drawn: Drawn::Ago(age),
        });
        match answer(awaited).await? {
            Told::Refunded(refunded) => Ok(refunded.outcome(charge.quota)),
            _ => Err(mixed_up()),
        }
    }

    async fn reset<C: Clock>(&self, key: &Key<'_>, clock: &C) -> Result<(), StoreError> {
        let hash = self.hash(key);
        self.context.shadows.forget(hash);
        answer(self.begin(clock.now(), clock).send(Work::Delete {
            key: self.stored_key(key),
            hash,
        }))
        .await?;
        Ok(())
    }

    fn remembered(&self, charge: &Charge<'_>, now: Timestamp) -> Option<State> {
        self.context
            .shadows
            .remembered(self.hash(&charge.key), &charge.quota, now)
    }
}

impl<'a> Looked<'a> {
    fn at(charge: &'a Charge<'_>, hash: u64) -> Self {
        Self {
            hash,
            quota: &charge.quota,
            cost: charge.cost,
            enforced: charge.enforced,
        }
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
