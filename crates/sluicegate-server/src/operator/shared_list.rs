//! A list that all replicas read and write, such as the bans and overrides, or the replicas
//! themselves.
//!
//! With Redis the list is one JSON value, changed by compare-and-swap. With a store in this process
//! there is only one replica, and the list is in memory.

use std::sync::{Arc, Mutex};

use serde::Serialize;
use serde::de::DeserializeOwned;
use sluicegate::RedisStore;
use sluicegate_core::Nanos;
use sluicegate_gate::request_id::RequestId;
use sluicegate_gate::store::AnyStore;

/// A list that all replicas share.
pub(crate) struct SharedList<T> {
    home: ListHome<T>,
    /// The time to live of the value in Redis, by its entries.
    stays: fn(&[T]) -> Nanos,
}

/// The version of a list that a reader has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListVersion {
    /// The stamp of the last writer; `None` before there was one.
    stamp: Option<Vec<u8>>,
    /// Looks at the stamp until the list is read again in any case.
    looks_left: u32,
}

/// The place of a list: this process, or a key in Redis.
enum ListHome<T> {
    Here(Arc<Mutex<Vec<T>>>),
    Redis { store: Arc<RedisStore>, key: String },
}

/// Attempts to write before an error is returned. Conflicts are rare, since replicas write seldom.
const TRIES: usize = 20;
/// Looks at a stamp between two reads of its list. A writer that ends between its two writes leaves
/// an old stamp at a new list, which is noticed that late: after ten seconds of three looks each.
const LOOKS: u32 = 30;
/// The most entries of a list.
pub(crate) const ENTRIES_MAX: usize = 1_000;

impl<T: Clone + Serialize + DeserializeOwned> SharedList<T> {
    /// The list of this name. Its key in Redis has a `!`, so it is never the key of a counter.
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

    /// The same list, as another replica would see it.
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

    /// All entries.
    pub(crate) async fn read(&self) -> Result<Vec<T>, String> {
        match &self.home {
            ListHome::Here(list) => Ok(list.lock().expect("no holder of this lock panics").clone()),
            ListHome::Redis { store, key } => {
                let found = store.get(key).await.map_err(|error| error.to_string())?;
                found.map_or(Ok(Vec::new()), |text| entries(key, &text))
            }
        }
    }

    /// All entries, if they may have changed since a version was read, and the version now. For
    /// lists that are written by [`SharedList::write_stamped`]: a short value tells whether the list
    /// is another.
    pub(crate) async fn read_changed(
        &self,
        seen: ListVersion,
    ) -> Result<(ListVersion, Option<Vec<T>>), String> {
        let ListHome::Redis { store, key } = &self.home else {
            return Ok((seen, Some(self.read().await?)));
        };
        // The stamp is read first and written last: a list is never older than its stamp.
        let stamp = store.get(&stamp_of(key)).await;
        let stamp = stamp.map_err(|error| error.to_string())?;
        if stamp == seen.stamp && seen.looks_left > 0 {
            let looks_left = seen.looks_left - 1;
            return Ok((ListVersion { stamp, looks_left }, None));
        }
        let entries = self.read().await?;
        let looks_left = LOOKS;
        Ok((ListVersion { stamp, looks_left }, Some(entries)))
    }

    /// Changes the list atomically, and tells readers of [`SharedList::read_changed`].
    pub(crate) async fn write_stamped<R, E: From<String>>(
        &self,
        change: impl FnMut(&mut Vec<T>) -> Result<R, E>,
    ) -> Result<R, E> {
        let result = self.write(change).await?;
        if let ListHome::Redis { store, key } = &self.home {
            let stamp = RequestId::next().as_str().as_bytes().to_vec();
            // Without it readers are late, and the list is there.
            let _ = store.put(&stamp_of(key), stamp, STAMP_STAYS).await;
        }
        Ok(result)
    }

    /// Changes the list atomically. `change` is called again when another replica has written in
    /// between.
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

/// The key of the value that changes with a list.
fn stamp_of(key: &str) -> String {
    format!("{key}-stamp")
}

/// The time to live of a stamp; when it is over, readers read the list once more.
const STAMP_STAYS: Nanos = Nanos::DAY;

/// The entries of a value. An entry that cannot be read comes from another version of this program
/// and is left out; a value that is no list is an error.
fn entries<T: DeserializeOwned>(key: &str, text: &[u8]) -> Result<Vec<T>, String> {
    let values: Vec<serde_json::Value> = serde_json::from_slice(text)
        .map_err(|error| format!("the value at {key} was not written by us: {error}"))?;
    Ok(values
        .into_iter()
        .take(ENTRIES_MAX)
        .filter_map(|value| serde_json::from_value(value).ok())
        .collect())
}
