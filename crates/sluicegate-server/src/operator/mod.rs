//! The work of operators: inspect and explain limits, ban callers, override quotas.
//!
//! All of it happens beside the requests, on the background runtime: an [`Operator`] reads what
//! requests have left in the gate (top keys, decision stream, counters), and puts bans and
//! overrides in force that requests then find in `overrides.rs`. Bans and overrides (each an
//! [`Order`]) are in a list that all replicas share, `shared_list.rs`. Bans that limits give by
//! themselves are in another, `automatic_bans.rs`.

mod automatic_bans;
mod duration_words;
mod explain;
mod explained_limit;
mod history;
mod inspect;
mod replicas;
mod search;
mod shared_list;
mod stats;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use sluicegate_core::Nanos;
use sluicegate_gate::decision_stream::{DecisionFilter, REFILLS_PER_SECOND};
use sluicegate_gate::gate::Gate;
use sluicegate_gate::overrides::{
    AUTOMATIC_ID, Granted, Order, Override, OverrideRequest, OverrideSet, What,
};
use sluicegate_gate::request_id::RequestId;
use sluicegate_gate::telemetry::AUDIT;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, sleep};

use self::automatic_bans::BanKeeper;
use self::history::History;
use self::replicas::Replicas;
use self::shared_list::{ENTRIES_MAX, SharedList};
use crate::reload::Reloader;

pub use explain::Explanation;
pub use explained_limit::ExplainedLimit;
pub use inspect::explain_offline;

/// Does what the admin API asks for, and keeps this replica in step with the shared lists.
pub struct Operator {
    pub(crate) gate: Arc<Gate>,
    reloader: Arc<Reloader>,
    started_at: SystemTime,
    /// Bans and overrides, shared by all replicas.
    orders: SharedList<Order>,
    /// The same as they were last read, for the time without the store.
    known: Mutex<Vec<Order>>,
    /// Bans that limits give, shared by all replicas.
    bans: BanKeeper,
    /// Held from a read of the lists until what was read is in force, so that nothing older
    /// replaces it.
    refreshing: tokio::sync::Mutex<()>,
    replicas: Replicas,
    history: Mutex<History>,
    /// The store's waits up to the last second, to tell those of the next one.
    waits_before: Mutex<sluicegate::RedisWaits>,
    /// True when the last read of the shared list succeeded.
    answers: AtomicBool,
    /// True when the store left a decision of the last second unanswered.
    has_failed_lately: AtomicBool,
}

/// The reason why a request of an operator fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OperatorError {
    /// The request is wrong.
    Wrong(String),
    /// There is no such thing.
    Unknown(String),
    /// The store is away.
    Away(String),
}

impl From<String> for OperatorError {
    fn from(why: String) -> Self {
        Self::Away(why)
    }
}

/// The author of a change and the reason, for the audit log.
///
/// `expecting` keeps the text of the error about a body that is no object.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "struct Author")]
pub(crate) struct ChangeAuthor {
    by: Option<String>,
    reason: Option<String>,
    /// The address that the change came from.
    #[serde(skip)]
    peer: String,
}

/// Time between two reads of the shared list: well below a second, within which a ban or an
/// override of another replica is to hold here.
const ORDERS_EVERY: Duration = Duration::from_millis(300);
/// Seconds after which the counts of the top keys are halved.
const DECAY_EVERY: u64 = 60;

impl Operator {
    pub(crate) fn new(gate: Arc<Gate>, reloader: Arc<Reloader>) -> Self {
        let store = gate.engine.store();
        Self {
            orders: SharedList::new(store, "orders", |orders: &[Order]| {
                let last = orders.iter().map(|order| order.until_ms).max().unwrap_or(0);
                Nanos::from_millis(last.saturating_sub(now_ms())).max(Nanos::SECOND)
            }),
            known: Mutex::default(),
            bans: BanKeeper::new(store),
            refreshing: tokio::sync::Mutex::default(),
            replicas: Replicas::new(store),
            gate,
            reloader,
            started_at: SystemTime::now(),
            history: Mutex::default(),
            waits_before: Mutex::default(),
            answers: AtomicBool::new(true),
            has_failed_lately: AtomicBool::new(false),
        }
    }

    /// Keeps everything up to date until the operator is dropped elsewhere.
    pub(crate) async fn follow(operator: Weak<Self>) {
        let queue = operator
            .upgrade()
            .and_then(|operator| operator.gate.automatic_bans.take_queue());
        let Some(queue) = queue else {
            return;
        };
        tokio::join!(
            Self::follow_orders(operator.clone()),
            Self::follow_bans(operator.clone(), queue),
            Self::follow_replicas(operator.clone()),
            Self::follow_clock(operator)
        );
    }

    async fn follow_orders(operator: Weak<Self>) {
        let mut ticks = interval(ORDERS_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut had_failed = false;
        loop {
            ticks.tick().await;
            let Some(operator) = operator.upgrade() else {
                return;
            };
            let refreshed = operator.refresh().await;
            // The gate reports a store that is away; the bans and overrides known so far stay in
            // force.
            if let (Err(error), false, false) =
                (&refreshed, had_failed, operator.gate.engine.is_degraded())
            {
                tracing::warn!(
                    "orders of operators cannot be read, those known so far hold: {error}"
                );
            }
            had_failed = refreshed.is_err();
        }
    }

    async fn follow_replicas(operator: Weak<Self>) {
        loop {
            let Some(strong) = operator.upgrade() else {
                return;
            };
            let version = strong.reloader.version();
            // Without the store the list of replicas gets old, which the admin API shows.
            let _ = strong
                .replicas
                .announce(version.number, &version.hash, now_ms())
                .await;
            let pause = strong.replicas.pause();
            drop(strong);
            sleep(pause).await;
        }
    }

    async fn follow_clock(operator: Weak<Self>) {
        let mut ticks = interval(Duration::from_secs(1) / REFILLS_PER_SECOND as u32);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for turn in 0_u64.. {
            ticks.tick().await;
            let Some(operator) = operator.upgrade() else {
                return;
            };
            operator.gate.decision_stream.refill();
            if turn.is_multiple_of(REFILLS_PER_SECOND) {
                operator.remember();
            }
            if turn % (DECAY_EVERY * REFILLS_PER_SECOND) == DECAY_EVERY * REFILLS_PER_SECOND - 1 {
                operator.gate.top_keys.decay();
            }
        }
    }

    /// Removes this replica from the shared list.
    pub(crate) async fn leave(&self) {
        self.replicas.leave().await;
    }

    /// Reads the shared lists and puts their bans and overrides in force.
    async fn refresh(&self) -> Result<(), String> {
        let _one_at_a_time = self.refreshing.lock().await;
        let (written, bans) = tokio::join!(self.orders.read(), self.bans.read());
        let result = written.and_then(|orders| {
            *self.known.lock().expect("no holder of this lock panics") = orders;
            bans
        });
        self.answers.store(result.is_ok(), Ordering::Relaxed);
        // Also after a failed read, so that those known so far expire in time.
        self.put_in_force();
        result
    }

    /// Puts the bans and overrides that are known in force.
    fn put_in_force(&self) {
        let (gate, now_ms) = (&self.gate, now_ms());
        let orders = {
            let known = self.known.lock().expect("no holder of this lock panics");
            OverrideSet::new(&known, &gate.snapshot().policy, now_ms)
        };
        let orders = self.bans.add_to(orders, now_ms);
        let is_silent = orders.all.is_empty() && gate.overrides.current().all.is_empty();
        if !is_silent {
            gate.overrides.set(orders);
        }
    }

    /// The bans and overrides in force.
    pub(crate) fn orders(&self) -> Value {
        let orders: Vec<Value> = self
            .gate
            .overrides
            .current()
            .all
            .iter()
            .map(|order| order.json())
            .collect();
        json!({ "orders": orders })
    }

    /// Bans a caller for a while.
    pub(crate) async fn ban(
        &self,
        request: OverrideRequest,
        peer: &str,
    ) -> Result<Value, OperatorError> {
        self.give("ban", request.ban().map_err(OperatorError::Wrong)?, peer)
            .await
    }

    /// Gives a key, or every key of a limit, another quota for a while.
    pub(crate) async fn grant(
        &self,
        request: OverrideRequest,
        peer: &str,
    ) -> Result<Value, OperatorError> {
        let granted = request.quota().map_err(OperatorError::Wrong)?;
        if let What::Override(wanted) = &granted.what {
            self.check_target(wanted)?;
        }
        self.give("override", granted, peer).await
    }

    /// Checks that the limit and the key of an override exist: a typing mistake would have no
    /// effect that anybody notices.
    fn check_target(&self, wanted: &Override) -> Result<(), OperatorError> {
        let policy = &self.gate.snapshot().policy;
        if policy.limit(&wanted.limit).is_none() {
            return Err(OperatorError::Unknown(format!(
                "limit: {}",
                policy.why_absent(&wanted.limit)
            )));
        }
        let Some(key) = &wanted.key else {
            return Ok(());
        };
        let parts: Vec<&str> = key.iter().map(String::as_str).collect();
        policy
            .charge_named(&wanted.limit, &parts, 0)
            .map(drop)
            .map_err(|missing| OperatorError::Wrong(format!("key: {missing}")))
    }

    async fn give(
        &self,
        action: &str,
        granted: Granted,
        peer: &str,
    ) -> Result<Value, OperatorError> {
        let Granted {
            what,
            by,
            reason,
            lasts,
        } = granted;
        let since_ms = now_ms();
        let lasts_ms = lasts.get() / Nanos::MILLISECOND.get();
        let digits: String = RequestId::next().as_str().chars().rev().take(12).collect();
        let id = format!("{}-{digits}", &action[..1]);
        let order = Order {
            id,
            what,
            by,
            reason,
            since_ms,
            until_ms: since_ms + lasts_ms.max(1),
            automatic: None,
        };
        let about = order.about();
        self.orders
            .write(|orders| {
                // A new order replaces an older one about the same target.
                orders.retain(|other| !other.is_over(now_ms()) && other.about() != about);
                if orders.len() >= ENTRIES_MAX {
                    return Err(OperatorError::Wrong(format!(
                        "there are {ENTRIES_MAX} orders already: end some first"
                    )));
                }
                orders.push(order.clone());
                Ok(())
            })
            .await?;
        self.refresh().await.map_err(OperatorError::Away)?;
        let json = order.json();
        tracing::info!(
            target: AUDIT, action, what = about, by = order.by, reason = order.reason, peer,
            until = json["until"].as_str(), quota = json["quota"].as_str(), id = order.id, "an operator's order"
        );
        Ok(json)
    }

    /// Ends a ban or an override before its time.
    pub(crate) async fn end(
        &self,
        id: &str,
        author: &ChangeAuthor,
    ) -> Result<Value, OperatorError> {
        if id.starts_with(AUTOMATIC_ID) {
            return self.end_automatic(id, author).await;
        }
        let ended = self.orders.write(|orders| {
            let index = orders
                .iter()
                .position(|order| order.id == id && !order.is_over(now_ms()));
            index
                .map(|index| orders.remove(index))
                .ok_or_else(|| OperatorError::Unknown(format!("there is no order {id:?}")))
        });
        let ended = ended.await?;
        self.refresh().await.map_err(OperatorError::Away)?;
        author.note(
            "end",
            &format!("{} {}, {}", ended.kind(), ended.id, ended.about()),
        );
        Ok(json!({ "ended": true, "id": id }))
    }

    /// The decisions from now on that pass the filter; `None` when too many are watching.
    pub(crate) fn watch(&self, filter: DecisionFilter) -> Option<mpsc::Receiver<String>> {
        self.gate.decision_stream.watch(filter)
    }
}

impl ChangeAuthor {
    /// The same author at this address.
    pub(crate) fn at(self, peer: &str) -> Self {
        Self {
            peer: peer.to_owned(),
            ..self
        }
    }

    /// Writes the change to the audit log.
    pub(crate) fn note(&self, action: &str, what: &str) {
        let by = self.by.as_deref().unwrap_or("(not said)");
        let reason = self.reason.as_deref().unwrap_or("(not said)");
        tracing::info!(target: AUDIT, action, what, by, reason, peer = self.peer, "an operator's change");
    }
}

fn now_ms() -> u64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

impl std::fmt::Debug for Operator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Operator")
    }
}
