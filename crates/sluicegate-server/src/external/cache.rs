//! Where answers are kept for all replicas.

use std::sync::Arc;

use sluicegate::{RedisStore, StoreError};
use sluicegate_core::Nanos;

/// The Redis of the store, or one of its own.
pub(super) enum Cache {
    Redis(Arc<RedisStore>),
    /// A Redis for tests that tell the time themselves.
    #[cfg(test)]
    Pretended(super::pretended::PretendedRedis),
}

impl Cache {
    /// What all names begin with.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::Redis(store) => &store.options().key_prefix,
            #[cfg(test)]
            Self::Pretended(_) => "test",
        }
    }

    pub(super) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Redis(store) => store.get(name).await,
            #[cfg(test)]
            Self::Pretended(redis) => redis.get(name),
        }
    }

    pub(super) async fn put(
        &self,
        name: &str,
        value: Vec<u8>,
        ttl: Nanos,
    ) -> Result<(), StoreError> {
        match self {
            Self::Redis(store) => store.put(name, value, ttl).await,
            #[cfg(test)]
            Self::Pretended(redis) => redis.put(name, value, ttl),
        }
    }
}
