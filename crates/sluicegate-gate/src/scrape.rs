//! Collects the counts that the store, the limiter and the limits service keep, at each scrape.
//!
//! The metrics know only the numbers (`CollectedCounts`); this is the one place that knows where
//! each of them is kept.

use sluicegate::{NodeState, RedisHealth};

use crate::external::External;
use crate::gate::Gate;
use crate::store::AnyStore;
use crate::telemetry::metrics::CollectedCounts;

/// The counts now. The store in this process appears as one node, `local`, that always answers.
pub fn collect_counts(gate: &Gate) -> CollectedCounts {
    let snapshot = gate.snapshot();
    let of_store = match gate.engine.store() {
        AnyStore::Local(_) => CollectedCounts {
            nodes: vec![("local".to_owned(), true)],
            ..CollectedCounts::default()
        },
        AnyStore::Redis(redis) => redis_counts(redis.health()),
    };
    CollectedCounts {
        failures: gate.engine.failures(),
        client_ip_unused: snapshot.client_ip.counts().to_vec(),
        external: snapshot.external.as_ref().map(External::counts),
        keys_age: snapshot.auth.keys_status().and_then(|status| status.age),
        is_degraded: gate.is_degraded(),
        orders: gate.overrides.current().count(),
        events_dropped: gate.decision_stream.dropped(),
        ..of_store
    }
}

/// The counts that a store in Redis keeps; the others are zero.
fn redis_counts(health: RedisHealth) -> CollectedCounts {
    let nodes = health.nodes.into_iter();
    CollectedCounts {
        nodes: nodes
            .map(|node| (node.endpoint.to_string(), node.state == NodeState::Up))
            .collect(),
        waits: Some(health.waits),
        denied_from_memory: health.local_denials,
        primary_epoch: health.primary_epoch.unwrap_or(0),
        stale_reports: health.stale_reports,
        ..CollectedCounts::default()
    }
}
