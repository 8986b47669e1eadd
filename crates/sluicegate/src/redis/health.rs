//! The state of the nodes as data, and the functions that log about them.

use std::time::Duration;

use super::endpoint::Endpoint;
use super::primary_trust::TrustNews;
use super::waits::RedisWaits;

/// The state of a [`RedisStore`](crate::RedisStore), for metrics, readiness checks and dashboards.
///
/// ```no_run
/// # fn example(store: &sluicegate::RedisStore) {
/// let health = store.health();
/// if !health.is_up() {
///     for node in &health.nodes {
///         eprintln!("{}: {:?}", node.endpoint, node.state);
///     }
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisHealth {
    /// Every node that decisions go to now; empty before the first decision, and while no primary
    /// is known.
    pub nodes: Vec<NodeHealth>,
    /// Requests that this replica denied from memory, without a call to Redis.
    pub local_denials: u64,
    /// Replies that found a value under one of our keys that is no counter of ours.
    pub foreign_values: u64,
    /// The configuration epoch of the primary that sentinels named last; `None` without sentinels, and
    /// before they named one. Each failover increases it.
    pub primary_epoch: Option<u64>,
    /// Reports of sentinels that named a primary which was replaced. It is not used.
    pub stale_reports: u64,
    /// Durations of the decisions in Redis.
    pub waits: RedisWaits,
}

impl RedisHealth {
    /// Returns true when there are nodes and all of them answer.
    pub fn is_up(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|node| node.state == NodeState::Up)
    }
}

/// The state of one node.
///
/// ```
/// use sluicegate::{NodeHealth, NodeState};
///
/// fn describe(node: &NodeHealth) -> String {
///     match &node.state {
///         NodeState::Up => format!("{} is up", node.endpoint),
///         NodeState::Connecting => format!("{} is being dialled", node.endpoint),
///         NodeState::Away { error } => format!("{} is away: {error}", node.endpoint),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHealth {
    /// Address of the node.
    pub endpoint: Endpoint,
    /// State of the connection.
    pub state: NodeState,
    /// Counts since the first dial.
    pub counts: NodeCounts,
}

/// State of the connection to a node.
///
/// ```
/// use sluicegate::NodeState;
///
/// let away = NodeState::Away { error: "rl-0:6379: cannot connect: refused".to_owned() };
/// assert_ne!(away, NodeState::Up);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// The node is being dialled; requests wait for it until their deadline.
    Connecting,
    /// The node answers, and serves its keys.
    Up,
    /// The node does not answer, or does not serve its keys. Requests get the failure policy at once, and the node is dialled
    /// in the background.
    Away {
        /// The last error, which names the node.
        error: String,
    },
}

/// Counts of one node.
///
/// ```
/// use sluicegate::NodeCounts;
///
/// let counts = NodeCounts { calls: 10, decisions: 250, ..NodeCounts::default() };
/// assert_eq!(counts.decisions / counts.calls, 25, "decisions per call");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Calls that were sent; one call carries everything that waits.
    pub calls: u64,
    /// Decisions in these calls.
    pub decisions: u64,
    /// Requests without a response by their deadline.
    pub timeouts: u64,
    /// Attempts to connect.
    pub dials: u64,
    /// Calls sent again with the source of the script, because the node did not know it.
    pub script_reloads: u64,
    /// Calls that the node answered with an error.
    pub errors: u64,
}

pub(super) fn log_away(endpoint: &Endpoint, error: &str) {
    tracing::warn!(node = %endpoint, error, "redis node away");
}

pub(super) fn log_up(endpoint: &Endpoint) {
    tracing::info!(node = %endpoint, "redis node up");
}

/// Logs the end of an outage in which the node went away so many times.
pub(super) fn log_up_again(endpoint: &Endpoint, lasted: Duration, times: u64) {
    let lasted_ms = lasted.as_millis() as u64;
    tracing::info!(node = %endpoint, lasted_ms, times, "redis node up");
}

pub(super) fn log_primary(endpoint: &Endpoint) {
    tracing::info!(node = %endpoint, "redis primary found");
}

pub(super) fn log_no_primary(error: &str) {
    tracing::warn!(error, "no redis primary found");
}

/// Logs what the reports of the sentinels mean for the choice of the primary.
pub(super) fn log_trust(news: &TrustNews) {
    match news {
        TrustNews::Stale { report, trusted } => tracing::warn!(
            node = %report.primary,
            epoch = report.epoch,
            primary = %trusted.primary,
            primary_epoch = trusted.epoch,
            "a sentinel names a redis primary that was replaced; it is not used"
        ),
        TrustNews::MajorityWins { report, overruled } => tracing::warn!(
            node = %report.primary,
            epoch = report.epoch,
            replaced = %overruled.primary,
            replaced_epoch = overruled.epoch,
            "most sentinels name a redis primary of a lower epoch; it is used from now on"
        ),
        TrustNews::Incomplete {
            report,
            answers,
            sentinels,
        } => tracing::warn!(
            node = %report.primary,
            epoch = report.epoch,
            answers,
            sentinels,
            "most redis sentinels do not answer; the others are believed"
        ),
    }
}

pub(super) fn log_foreign(key: &str, error: &str) {
    tracing::error!(
        key,
        error,
        "a value under a key of ours was not written by us; it was left alone"
    );
}
