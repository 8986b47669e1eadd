//! The store in sentences.

use sluicegate_core::FailurePolicy;

use super::and;
use crate::typed::{Redis, RedisMode, Store, StoreKind};

/// The place of the counters; for Redis also the treatment of requests while it is away.
pub(super) fn in_words(store: &Store) -> Vec<String> {
    match &store.kind {
        StoreKind::Local { max_keys, .. } => {
            vec![format!(
                "counters are in this process, for {max_keys} callers at a time; other replicas have their own"
            )]
        }
        StoreKind::Redis(redis) => {
            vec![
                redis_in_words(redis),
                format!("while the store is away, {}", failure(store.on_failure)),
            ]
        }
    }
}

/// The treatment of requests under a failure policy.
pub(crate) fn failure(policy: FailurePolicy) -> String {
    match policy {
        FailurePolicy::Open => "requests pass unchecked".to_owned(),
        FailurePolicy::Closed(status) => format!("requests are refused with {}", status.get()),
        FailurePolicy::Local => "each replica enforces the same numbers on its own".to_owned(),
    }
}

/// The servers, by topology.
fn redis_in_words(redis: &Redis) -> String {
    let endpoints = and(&redis.endpoints);
    let place = match &redis.mode {
        RedisMode::Standalone => format!("in Redis at {endpoints}"),
        RedisMode::Replication => format!("in Redis at the primary among {endpoints}"),
        RedisMode::Sentinel { master, .. } => {
            format!("in Redis at the primary {master} that {endpoints} name")
        }
        RedisMode::Cluster => format!("in the Redis cluster of {endpoints}"),
    };
    let tls = if redis.tls.is_some() {
        ", with TLS"
    } else {
        ""
    };
    format!(
        "counters are {place}{tls}; a decision takes at most {}",
        redis.deadline
    )
}
