//! Collects the counts that the store, the limiter and the limits service keep, at each scrape.
//!
//! The metrics know only the numbers (`CollectedCounts`); this is the one place that knows where
//! each of them is kept.

use sluicegate::NodeState;

use crate::external::External;
use crate::gate::Gate;
use crate::store::AnyStore;
use crate::telemetry::metrics::CollectedCounts;

/// The counts now. The store in this process appears as one node, `local`, that always answers.
pub fn collect_counts(gate: &Gate) -> CollectedCounts {
    let snapshot = gate.snapshot();
    let (nodes, waits, denied_from_memory) = match gate.engine.store() {
        AnyStore::Local(_) => (vec![("local".to_owned(), true)], None, 0),
        AnyStore::Redis(redis) => {
            let health = redis.health();
            let nodes = health.nodes.into_iter();
            let nodes = nodes
                .map(|node| (node.endpoint.to_string(), node.state == NodeState::Up))
                .collect();
            (nodes, Some(health.waits), health.local_denials)
        }
    };
    CollectedCounts {
        nodes,
        failures: gate.engine.failures(),
        client_ip_unused: snapshot.client_ip.counts().to_vec(),
        external: snapshot.external.as_ref().map(External::counts),
        keys_age: snapshot.auth.keys_status().and_then(|status| status.age),
        is_degraded: gate.is_degraded(),
        waits,
        denied_from_memory,
        orders: gate.overrides.current().count(),
        events_dropped: gate.decision_stream.dropped(),
    }
}
