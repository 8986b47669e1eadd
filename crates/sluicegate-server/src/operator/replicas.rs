//! The replicas that share a store. Each of them writes its entry to a shared list every few
//! seconds, and an entry that gets too old is removed by the others.

use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sluicegate_core::Nanos;
use sluicegate_gate::request_id::RequestId;
use sluicegate_gate::store::AnyStore;

use super::shared_list::SharedList;

/// The list of replicas, and this one's entry.
pub(crate) struct Replicas {
    list: SharedList<Replica>,
    /// The id of this replica, new for each process.
    pub(crate) id: String,
    host: String,
    /// The list after the last write, this replica included.
    seen: Mutex<Vec<Replica>>,
}

/// The entry of a replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Replica {
    id: String,
    host: String,
    build: String,
    config_version: u64,
    config_hash: String,
    /// When the entry was written, by the clock of that replica.
    at_ms: u64,
}

/// Time between two writes of a replica. It grows with the number of replicas: each of them makes
/// the shared list longer and writes it once more.
fn every_ms(replicas: usize) -> u64 {
    2_000 * (replicas as u64).div_ceil(50).max(1)
}

/// The age at which an entry is removed. It is long because clocks of replicas may be some seconds
/// apart.
fn gone_after_ms(replicas: usize) -> u64 {
    10 * every_ms(replicas)
}

impl Replicas {
    pub(crate) fn new(store: &AnyStore) -> Self {
        let id = RequestId::next().as_str().chars().rev().take(8).collect();
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        Self {
            list: SharedList::new(store, "replicas", |replicas| {
                Nanos::from_millis(gone_after_ms(replicas.len()))
            }),
            id,
            host,
            seen: Mutex::default(),
        }
    }

    /// Writes this replica's entry and reads those of the others.
    pub(crate) async fn announce(
        &self,
        config_version: u64,
        config_hash: &str,
        now_ms: u64,
    ) -> Result<(), String> {
        let this = Replica {
            id: self.id.clone(),
            host: self.host.clone(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            config_version,
            config_hash: config_hash.to_owned(),
            at_ms: now_ms,
        };
        let seen = self.list.write(|replicas| {
            let gone_after_ms = gone_after_ms(replicas.len());
            replicas.retain(|other| {
                other.id != this.id && now_ms.saturating_sub(other.at_ms) < gone_after_ms
            });
            replicas.push(this.clone());
            replicas.sort_by(|one, other| one.id.cmp(&other.id));
            Ok::<_, String>(replicas.clone())
        });
        *self.seen.lock().expect("no holder of this lock panics") = seen.await?;
        Ok(())
    }

    /// Time until the next [`Self::announce`].
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(every_ms(
            self.seen
                .lock()
                .expect("no holder of this lock panics")
                .len(),
        ))
    }

    /// Removes this replica's entry from the shared list.
    pub(crate) async fn leave(&self) {
        // After a failure the entry gets old and the others remove it.
        let _ = self
            .list
            .write(|replicas| {
                replicas.retain(|other| other.id != self.id);
                Ok::<_, String>(())
            })
            .await;
    }

    /// All replicas, as the admin API shows them.
    pub(crate) fn json(&self, now_ms: u64) -> Vec<Value> {
        let seen = self.seen.lock().expect("no holder of this lock panics");
        let replicas = seen.iter().map(|replica| {
            json!({
                "id": replica.id, "host": replica.host, "build": replica.build,
                "config_version": replica.config_version, "config_hash": replica.config_hash,
                "seen_ms_ago": now_ms.saturating_sub(replica.at_ms), "is_this": replica.id == self.id,
            })
        });
        replicas.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_there_are_the_less_often_each_writes() {
        assert_eq!(
            (every_ms(0), every_ms(1), every_ms(50)),
            (2_000, 2_000, 2_000)
        );
        // A thousand write as much in a second as fifty do, each of them a longer list.
        assert_eq!(every_ms(1_000), 40_000);
        assert!(
            gone_after_ms(1_000) > 2 * every_ms(1_000),
            "who is there is not taken for gone"
        );
    }

    #[tokio::test]
    async fn who_says_nothing_any_more_is_gone_and_who_leaves_is_gone_at_once() {
        let store = AnyStore::Local(sluicegate::LocalStore::default());
        let (one, other) = (Replicas::new(&store), Replicas::new(&store));
        let other = Replicas {
            list: one.list.shared(),
            ..other
        };
        one.announce(1, "a", 1_000).await.unwrap();
        other.announce(2, "b", 1_500).await.unwrap();
        let json = other.json(1_600);
        assert_eq!(json.len(), 2);
        assert_eq!(
            json.iter()
                .filter(|replica| replica["is_this"] == true)
                .count(),
            1
        );
        other
            .announce(2, "b", 1_000 + gone_after_ms(2))
            .await
            .unwrap();
        assert_eq!(other.json(0).len(), 1, "one has said nothing for too long");
        other.leave().await;
        one.announce(1, "a", 30_000).await.unwrap();
        assert_eq!(one.json(30_000).len(), 1, "the other has gone");
    }
}
