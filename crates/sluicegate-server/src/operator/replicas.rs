//! The replicas that share a store, as each of them says on the board that it is there.

use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sluicegate_core::Nanos;
use sluicegate_gate::request_id::RequestId;
use sluicegate_gate::store::AnyStore;

use super::shared_list::SharedList;

/// Who else is there.
pub(crate) struct Replicas {
    list: SharedList<Replica>,
    /// This one's name.
    pub(crate) id: String,
    host: String,
    seen: Mutex<Vec<Replica>>,
}

/// A replica, as it last said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Replica {
    id: String,
    host: String,
    build: String,
    config_version: u64,
    config_hash: String,
    at_ms: u64,
}

/// How often a replica says that it is there, among so many: the more there are, the longer the board and the more who write.
fn every_ms(replicas: usize) -> u64 {
    2_000 * (replicas as u64).div_ceil(50).max(1)
}

/// Who has said nothing for so long is gone. Clocks of replicas may be some seconds apart.
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

    /// Says that this one is there, and looks who else is.
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

    /// Until this one says again that it is there.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(every_ms(
            self.seen
                .lock()
                .expect("no holder of this lock panics")
                .len(),
        ))
    }

    /// Takes this one's name off the board.
    pub(crate) async fn leave(&self) {
        // Who cannot say goodbye is gone in a moment anyway.
        let _ = self
            .list
            .write(|replicas| {
                replicas.retain(|other| other.id != self.id);
                Ok::<_, String>(())
            })
            .await;
    }

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
