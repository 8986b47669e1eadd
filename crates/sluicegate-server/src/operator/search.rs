//! Search for counters by parts of their names.

use serde_json::{Value, json};
use sluicegate::{FoundKeys, KeyLayout, KeySearch};
use sluicegate_core::{Key, Policy};
use sluicegate_gate::store::AnyStore;
use sluicegate_gate::top_keys::TopKeysBy;

use super::{Operator, OperatorError};

impl Operator {
    /// Searches for counters. A store in this process knows its keys only by their hashes; there
    /// the search finds those whose names the sketch of top keys has kept.
    pub(crate) async fn search(&self, wanted: KeySearch<'_>) -> Result<Value, OperatorError> {
        let snapshot = self.gate.snapshot();
        if let Some(limit) = wanted
            .limit
            .filter(|limit| snapshot.policy.limit(limit).is_none())
        {
            return Err(OperatorError::Unknown(format!(
                "limit: {}",
                snapshot.policy.why_absent(limit)
            )));
        }
        let (from, found) = match self.gate.engine.store() {
            AnyStore::Local(_) => ("sketch", self.in_sketch(wanted)),
            AnyStore::Redis(redis) if redis.options().key_layout != KeyLayout::Readable => {
                let why = "store.key_layout: only the names of the layout readable tell whose counters they are";
                return Err(OperatorError::Wrong(why.to_owned()));
            }
            AnyStore::Redis(redis) => (
                "store",
                redis
                    .search(wanted)
                    .await
                    .map_err(|error| OperatorError::Away(error.to_string()))?,
            ),
        };
        let keys: Vec<Value> = found
            .texts
            .iter()
            .map(|text| named(&snapshot.policy, text))
            .collect();
        Ok(json!({ "keys": keys, "from": from, "looked_at": found.looked_at, "all": found.is_all }))
    }

    fn in_sketch(&self, wanted: KeySearch<'_>) -> FoundKeys {
        let known = self
            .gate
            .top_keys
            .top(TopKeysBy::Requests, wanted.limit, usize::MAX);
        let looked_at = known.len() as u64;
        let mut texts: Vec<String> = known.into_iter().map(|caller| caller.text).collect();
        texts.retain(|text| text.contains(wanted.contains));
        texts.sort_unstable();
        texts.truncate(wanted.most);
        FoundKeys {
            texts,
            looked_at,
            is_all: false,
        }
    }
}

/// A counter as the other routes name it. A counter of a limit that is not in the policy has no
/// parts.
fn named(policy: &Policy, text: &str) -> Value {
    let name = text.split(':').next().unwrap_or_default();
    let parts = policy
        .limit(name)
        .and_then(|(_, limit)| Key::parts_in(limit, text));
    json!({ "limit": name, "key": parts, "text": text })
}
