//! What is known about the nodes, as data, and the one place that logs changes.

use super::endpoint::Endpoint;
use super::waits::RedisWaits;

/// The state of a Redis store, for metrics, readiness and dashboards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisHealth {
    /// Every node that decisions go to now.
    pub nodes: Vec<NodeHealth>,
    /// Requests denied from this replica's memory, without a call.
    pub local_denials: u64,
    /// Counters found that are not ours: of another type, or unreadable.
    pub foreign_values: u64,
    /// How long decisions waited.
    pub waits: RedisWaits,
}

impl RedisHealth {
    /// Whether every node answers.
    pub fn is_up(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|node| node.state == NodeState::Up)
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHealth {
    /// Where it is.
    pub endpoint: Endpoint,
    /// Whether it answers.
    pub state: NodeState,
    /// What happened so far.
    pub counts: NodeCounts,
}

/// Whether a node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It is being dialled; requests wait for it, up to their deadline.
    Connecting,
    /// It answers.
    Up,
    /// It does not; requests meet the failure policy at once, and it is probed in the background.
    Away {
        /// What it said last, or what went wrong.
        error: String,
    },
}

/// What happened on the way to one node so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Script calls; one call carries everything that waits.
    pub calls: u64,
    /// Decisions that these calls carried.
    pub decisions: u64,
    /// Decisions that were not answered in time.
    pub timeouts: u64,
    /// Connections that were dialled.
    pub dials: u64,
    /// Scripts sent again because the node had forgotten them.
    pub script_reloads: u64,
    /// Calls answered by an error.
    pub errors: u64,
}

pub(super) fn log_away(endpoint: &Endpoint, error: &str) {
    tracing::warn!(node = %endpoint, error, "redis node away");
}

pub(super) fn log_up(endpoint: &Endpoint) {
    tracing::info!(node = %endpoint, "redis node up");
}

pub(super) fn log_primary(endpoint: &Endpoint) {
    tracing::info!(node = %endpoint, "redis primary found");
}

pub(super) fn log_no_primary(error: &str) {
    tracing::warn!(error, "no redis primary found");
}

pub(super) fn log_foreign(key: &str, error: &str) {
    tracing::error!(
        key,
        error,
        "a value under a key of ours was not written by us; it was left alone"
    );
}
