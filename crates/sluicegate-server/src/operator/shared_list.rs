//! Where orders and replicas are written down, for all replicas to read: in the store, or here when that is in this process.

use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sluicegate::RedisStore;
use sluicegate_core::Nanos;
use sluicegate_gate::store::AnyStore;

/// A list that all replicas see.
pub(crate) struct SharedList<T> {
    home: ListHome<T>,
    /// How long it stays when nobody writes any more.
    stays: fn(&[T]) -> Nanos,
}

enum ListHome<T> {
    Here(Arc<Mutex<Vec<T>>>),
    Redis { store: Arc<RedisStore>, key: String },
}

/// Attempts to write before somebody is told that it does not work. Others write seldom.
const TRIES: usize = 20;
/// Entries; more are refused.
pub(crate) const ENTRIES_MAX: usize = 1_000;

impl<T: Clone + Serialize + DeserializeOwned> SharedList<T> {
    /// A board of this name; no limit's counters can have it.
    pub(crate) fn new(store: &AnyStore, name: &str, stays: fn(&[T]) -> Nanos) -> Self {
        let home = match store {
            AnyStore::Local(_) => ListHome::Here(Arc::default()),
            AnyStore::Redis(store) => {
                let key = format!("{}:!{name}", store.options().key_prefix);
                ListHome::Redis {
                    store: Arc::clone(store),
                    key,
                }
            }
        };
        Self { home, stays }
    }

    /// The same board, as another replica would see it.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> Self {
        let home = match &self.home {
            ListHome::Here(list) => ListHome::Here(Arc::clone(list)),
            ListHome::Redis { store, key } => ListHome::Redis {
                store: Arc::clone(store),
                key: key.clone(),
            },
        };
        Self {
            home,
            stays: self.stays,
        }
    }

    /// Everything on it.
    pub(crate) async fn read(&self) -> Result<Vec<T>, String> {
        match &self.home {
            ListHome::Here(list) => Ok(list.lock().expect("no holder of this lock panics").clone()),
            ListHome::Redis { store, key } => {
                let found = store.get(key).await.map_err(|error| error.to_string())?;
                found.map_or(Ok(Vec::new()), |text| entries(key, &text))
            }
        }
    }

    /// Changes what is on it, whoever else does so at the same time; `change` may be called several times.
    pub(crate) async fn write<R, E: From<String>>(
        &self,
        mut change: impl FnMut(&mut Vec<T>) -> Result<R, E>,
    ) -> Result<R, E> {
        match &self.home {
            ListHome::Here(list) => {
                let mut list = list.lock().expect("no holder of this lock panics");
                let mut changed = list.clone();
                let result = change(&mut changed)?;
                *list = changed;
                Ok(result)
            }
            ListHome::Redis { store, key } => {
                let words = |error: sluicegate::StoreError| E::from(error.to_string());
                for _ in 0..TRIES {
                    let found = store.get(key).await.map_err(words)?;
                    let mut list = found
                        .as_ref()
                        .map_or(Ok(Vec::new()), |text| entries(key, text))
                        .map_err(E::from)?;
                    let result = change(&mut list)?;
                    let text =
                        serde_json::to_vec(&list).map_err(|error| E::from(error.to_string()))?;
                    if store
                        .swap(key, found.as_deref(), text, (self.stays)(&list))
                        .await
                        .map_err(words)?
                    {
                        return Ok(result);
                    }
                }
                Err(E::from(format!(
                    "{key}: others were quicker {TRIES} times in a row; try again"
                )))
            }
        }
    }
}

/// An entry that cannot be read is of another version of this program, or not ours: it is kept out of sight.
fn entries<T: DeserializeOwned>(key: &str, text: &[u8]) -> Result<Vec<T>, String> {
    let values: Vec<serde_json::Value> = serde_json::from_slice(text)
        .map_err(|error| format!("the value at {key} was not written by us: {error}"))?;
    Ok(values
        .into_iter()
        .take(ENTRIES_MAX)
        .filter_map(|value| serde_json::from_value(value).ok())
        .collect())
}
