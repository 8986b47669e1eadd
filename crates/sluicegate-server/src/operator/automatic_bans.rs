//! Automatic bans: takes the requests of limits from the gate's queue, puts them in force here at
//! once, and on the shared list for all replicas.
//!
//! The list is apart from that of operators' orders, with a bound of its own, so an attack can
//! neither fill theirs nor slow their changes down. Requests are taken in batches with a pause in
//! between, and a batch is one write. What could not be written stays in force on this replica and
//! is written when the store is back; until then it is `pending`.

use std::sync::{Mutex, MutexGuard, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_core::Nanos;
use sluicegate_gate::overrides::{
    BANS_MAX, BanRecord, BanRequest, Order, OverrideSet, add_ban, make_room,
};
use sluicegate_gate::store::AnyStore;
use sluicegate_gate::telemetry::AUDIT;
use sluicegate_gate::telemetry::metrics::BanDrop;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::shared_list::{ListVersion, SharedList};
use super::{ChangeAuthor, Operator, OperatorError, now_ms};

/// The bans of limits: those on the shared list, and those that are not on it yet.
pub(super) struct BanKeeper {
    list: SharedList<BanRecord>,
    state: Mutex<BanState>,
}

#[derive(Default)]
struct BanState {
    /// The shared list as it was last read or written.
    known: Vec<BanRecord>,
    version: ListVersion,
    /// Oldest first; at most [`BANS_MAX`].
    pending: Vec<PendingBan>,
}

/// A ban that is in force here and not on the shared list yet.
struct PendingBan {
    request: BanRequest,
    at_ms: u64,
    /// It was counted and logged already, when the store was away.
    is_told: bool,
}

/// The result of putting what is pending on the shared list.
#[derive(Default)]
struct SharedBans {
    /// Bans of this replica that nobody was told about yet.
    untold: Vec<BanRecord>,
    /// Bans in force that made room.
    dropped: usize,
}

/// The most requests in one batch.
const BATCH_MAX: usize = 100;
/// Time between two batches: the list is written at most four times a second by a replica.
const PAUSE: Duration = Duration::from_millis(250);
/// Time after which pending bans are written again when no other request comes.
const RETRY: Duration = Duration::from_secs(1);

impl BanKeeper {
    pub(super) fn new(store: &AnyStore) -> Self {
        let stays = |records: &[BanRecord]| {
            let last = records.iter().map(|record| record.forget_ms).max();
            Nanos::from_millis(last.unwrap_or(0).saturating_sub(now_ms())).max(Nanos::SECOND)
        };
        Self {
            list: SharedList::new(store, "bans", stays),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, BanState> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Reads the shared list, if it has changed.
    pub(super) async fn read(&self) -> Result<(), String> {
        let version = self.state().version.clone();
        let (version, records) = self.list.read_changed(version).await?;
        let mut state = self.state();
        state.version = version;
        if let Some(records) = records {
            state.known = records;
        }
        Ok(())
    }

    /// All bans, those that are not on the shared list included.
    pub(super) fn records(&self, now_ms: u64) -> Vec<BanRecord> {
        let state = self.state();
        let mut records = state.known.clone();
        for pending in &state.pending {
            add_ban(&mut records, &pending.request, pending.at_ms);
        }
        make_room(&mut records, now_ms);
        records
    }

    /// The set with the bans that are in force.
    pub(super) fn add_to(&self, orders: OverrideSet, now_ms: u64) -> OverrideSet {
        orders.with_automatic_bans(&self.records(now_ms), now_ms)
    }

    /// Takes over requests for bans of callers that are not banned yet. Returns how many bans made
    /// room.
    fn accept(&self, requests: Vec<BanRequest>, now_ms: u64) -> usize {
        let mut records = self.records(now_ms);
        let mut state = self.state();
        for request in requests {
            if add_ban(&mut records, &request, now_ms).is_some() {
                state.pending.push(PendingBan {
                    request,
                    at_ms: now_ms,
                    is_told: false,
                });
            }
        }
        let excess = state.pending.len().saturating_sub(BANS_MAX);
        state.pending.drain(..excess);
        excess
    }

    fn has_pending(&self) -> bool {
        !self.state().pending.is_empty()
    }

    /// Puts what is pending on the shared list, in one write. Without the store it stays pending.
    async fn share(&self, now_ms: u64) -> SharedBans {
        let pending: Vec<(BanRequest, u64)> = {
            let state = self.state();
            let pending = state.pending.iter();
            pending
                .map(|pending| (pending.request.clone(), pending.at_ms))
                .collect()
        };
        if pending.is_empty() {
            return SharedBans::default();
        }
        let written = self.list.write_stamped(|records| {
            // `None` where another replica was quicker.
            let added: Vec<Option<BanRecord>> = pending
                .iter()
                .map(|(request, at_ms)| add_ban(records, request, *at_ms))
                .collect();
            let dropped = make_room(records, now_ms);
            Ok::<_, String>((records.clone(), added, dropped))
        });
        let Ok((records, added, dropped)) = written.await else {
            return SharedBans {
                untold: self.pending_untold(now_ms),
                dropped: 0,
            };
        };
        let mut state = self.state();
        state.known = records;
        let pending = std::mem::take(&mut state.pending).into_iter();
        let untold = pending
            .zip(added)
            .filter_map(|(pending, record)| record.filter(|_| !pending.is_told));
        SharedBans {
            untold: untold.collect(),
            dropped,
        }
    }

    /// The records of pending bans that nobody was told about yet; after this, somebody was.
    fn pending_untold(&self, now_ms: u64) -> Vec<BanRecord> {
        let records = self.records(now_ms);
        let mut state = self.state();
        let untold = state.pending.iter_mut().filter(|pending| !pending.is_told);
        let untold = untold.filter_map(|pending| {
            pending.is_told = true;
            let mut records = records.iter();
            records.find(|record| record.target == pending.request.target)
        });
        untold.cloned().collect()
    }

    /// Removes the ban of this id, and with it all memory of earlier ones.
    async fn end(&self, id: &str, now_ms: u64) -> Result<Order, OperatorError> {
        let unknown = || OperatorError::Unknown(format!("there is no order {id:?}"));
        let mut known = self.records(now_ms).into_iter();
        let ended = known
            .find(|record| record.target.id() == id && record.is_in_force(now_ms))
            .ok_or_else(unknown)?;
        let is_other = |record: &BanRecord| record.target != ended.target;
        // A ban that is only pending can be ended while the store is away.
        if !self.state().known.iter().all(is_other) {
            let records = self.list.write_stamped(|records| {
                records.retain(is_other);
                Ok::<_, OperatorError>(records.clone())
            });
            let records = records.await?;
            self.state().known = records;
        }
        let pending = &mut self.state().pending;
        pending.retain(|pending| pending.request.target != ended.target);
        Ok(Order::of_record(&ended))
    }
}

impl Operator {
    /// Bans the callers that limits ask for, until the operator is dropped elsewhere.
    pub(super) async fn follow_bans(operator: Weak<Self>, mut queue: mpsc::Receiver<BanRequest>) {
        loop {
            let has_pending = match operator.upgrade() {
                Some(operator) => operator.bans.has_pending(),
                None => return,
            };
            let mut batch = Vec::new();
            let taken = queue.recv_many(&mut batch, BATCH_MAX);
            let is_closed = match has_pending {
                true => timeout(RETRY, taken).await == Ok(0),
                false => taken.await == 0,
            };
            let Some(operator) = operator.upgrade().filter(|_| !is_closed) else {
                return;
            };
            operator.ban_all(batch).await;
            drop(operator);
            sleep(PAUSE).await;
        }
    }

    /// Puts bans in force here, then on the shared list.
    async fn ban_all(&self, requests: Vec<BanRequest>) {
        let _one_at_a_time = self.refreshing.lock().await;
        let now_ms = now_ms();
        let too_many = self.bans.accept(requests, now_ms);
        self.put_in_force();
        let SharedBans { untold, dropped } = self.bans.share(now_ms).await;
        self.put_in_force();
        let dropped = (too_many + dropped) as u64;
        self.gate.metrics.ban_dropped(BanDrop::NoRoom, dropped);
        untold.iter().for_each(|record| self.tell(record));
    }

    /// Counts a ban and writes it to the audit log and the stream of events.
    fn tell(&self, record: &BanRecord) {
        let order = Order::of_record(record);
        let (about, lasts_ms) = (order.about(), record.until_ms - record.since_ms);
        self.gate.metrics.banned(&record.limit);
        let lasts = Nanos::from_millis(lasts_ms);
        let stream = &self.gate.decision_stream;
        stream.record_ban(&record.limit, &about, lasts);
        tracing::info!(
            target: AUDIT, action = "ban", what = about, by = order.by, reason = order.reason,
            until = order.until(), limit = record.limit, earlier_bans = record.earlier, id = order.id,
            "an automatic ban"
        );
    }

    /// Ends an automatic ban before its time. The next ban of this caller is a first one again.
    pub(super) async fn end_automatic(
        &self,
        id: &str,
        author: &ChangeAuthor,
    ) -> Result<Value, OperatorError> {
        let ended = {
            let _one_at_a_time = self.refreshing.lock().await;
            let ended = self.bans.end(id, now_ms()).await?;
            self.put_in_force();
            ended
        };
        author.note("end", &format!("ban {id}, {}", ended.about()));
        Ok(json!({ "ended": true, "id": id }))
    }
}

#[cfg(test)]
mod tests;
