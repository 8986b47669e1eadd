//! Values that are no counters: small facts that replicas share, such as overrides and cached
//! responses of other services.
//!
//! They travel over the same connections as decisions and obey the same deadline, but no clock of
//! the caller matters to them.

use sluicegate_core::Nanos;

use super::request::{Operation, RequestError, StoreResponse};
use super::sender::{RequestSender, response};
use super::store::RedisStore;
use crate::store::StoreError;

impl RedisStore {
    /// Reads a value that is no counter, as it was put; `None` when there is none, or its time to
    /// live is over.
    ///
    /// The key is used as it is: the prefix of the options is not added.
    ///
    /// ```no_run
    /// # async fn example(store: &sluicegate::RedisStore) -> Result<(), sluicegate::StoreError> {
    /// use sluicegate::Nanos;
    ///
    /// store.put("sluicegate:!note", b"hello".to_vec(), Nanos::MINUTE).await?;
    /// assert_eq!(store.get("sluicegate:!note").await?, Some(b"hello".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let operation = Operation::Get {
            key: key.to_owned(),
        };
        match self.perform(operation).await? {
            StoreResponse::Value(value) => Ok(value),
            _ => Err(RequestError::mismatched().into()),
        }
    }

    /// Stores a value that is no counter and replaces whatever the key held. It lives for `ttl`, in
    /// milliseconds rounded up.
    pub async fn put(&self, key: &str, value: Vec<u8>, ttl: Nanos) -> Result<(), StoreError> {
        let operation = Operation::Put {
            key: key.to_owned(),
            value,
            ttl_ms: whole_ms(ttl),
        };
        match self.perform(operation).await? {
            StoreResponse::Stored => Ok(()),
            _ => Err(RequestError::mismatched().into()),
        }
    }

    /// Replaces a value only if the key still holds `read`, or still holds nothing when `read` is
    /// `None`. Returns true when the new value was stored, false when somebody else was quicker.
    ///
    /// An empty value counts as none.
    pub async fn swap(
        &self,
        key: &str,
        read: Option<&[u8]>,
        value: Vec<u8>,
        ttl: Nanos,
    ) -> Result<bool, StoreError> {
        let operation = Operation::Swap {
            key: key.to_owned(),
            read: read.unwrap_or_default().to_vec(),
            value,
            ttl_ms: whole_ms(ttl),
        };
        match self.perform(operation).await? {
            StoreResponse::Swapped(is_stored) => Ok(is_stored),
            _ => Err(RequestError::mismatched().into()),
        }
    }

    async fn perform(&self, operation: Operation) -> Result<StoreResponse, RequestError> {
        self.start();
        response(RequestSender::without_clock(&self.context).send(operation)).await
    }
}

/// Milliseconds of a time to live: rounded up and at least 1, which is the least Redis accepts.
fn whole_ms(ttl: Nanos) -> u64 {
    ttl.get().div_ceil(Nanos::MILLISECOND.get()).max(1)
}
