//! The replicas that share a store, as each of them says on the board that it is there.

use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_core::Nanos;

use super::board::Board;
use crate::request_id::RequestId;
use crate::store::AnyStore;

/// Who else is there.
pub(crate) struct Replicas {
    board: Board<Replica>,
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

/// How often a replica says that it is there.
pub(crate) const EVERY_MS: u64 = 2_000;
/// Who has said nothing for so long is gone. Clocks of replicas may be some seconds apart.
const GONE_AFTER_MS: u64 = 20_000;

impl Replicas {
    pub(crate) fn new(store: &AnyStore) -> Self {
        let id = RequestId::next().as_str().chars().take(8).collect();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            board: Board::new(store, "replicas", |_| Nanos::from_millis(GONE_AFTER_MS)),
            id,
            host,
            seen: Mutex::default(),
        }
    }

    /// Says that this one is there, and looks who else is.
    pub(crate) async fn meet(&self, config_version: u64, config_hash: &str, now_ms: u64) -> Result<(), String> {
        let this = Replica {
            id: self.id.clone(),
            host: self.host.clone(),
            build: env!("CARGO_PKG_VERSION").to_owned(),
            config_version,
            config_hash: config_hash.to_owned(),
            at_ms: now_ms,
        };
        let seen = self.board.write(|replicas| {
            replicas.retain(|other| other.id != this.id && now_ms.saturating_sub(other.at_ms) < GONE_AFTER_MS);
            replicas.push(this.clone());
            replicas.sort_by(|one, other| one.id.cmp(&other.id));
            Ok::<_, String>(replicas.clone())
        });
        *self.seen.lock().expect("no holder of this lock panics") = seen.await?;
        Ok(())
    }

    /// Takes this one's name off the board.
    pub(crate) async fn leave(&self) {
        // Who cannot say goodbye is gone in a moment anyway.
        let _ = self
            .board
            .write(|replicas| {
                replicas.retain(|other| other.id != self.id);
                Ok::<_, String>(())
            })
            .await;
    }

    pub(crate) fn json(&self, now_ms: u64) -> Vec<Value> {
        let seen = self.seen.lock().expect("no holder of this lock panics");
        let told = seen.iter().map(|replica| {
            json!({
                "id": replica.id, "host": replica.host, "build": replica.build,
                "config_version": replica.config_version, "config_hash": replica.config_hash,
                "seen_ms_ago": now_ms.saturating_sub(replica.at_ms), "is_this": replica.id == self.id,
            })
        });
        told.collect()
    }
}
