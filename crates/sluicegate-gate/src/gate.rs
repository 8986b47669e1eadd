//! The gate: everything that admission needs and that outlives a configuration.
//!
//! A [`Gate`] holds the engine with its counters, metrics, logs, overrides and the snapshot of the
//! configuration in force. A request takes the snapshot once and keeps it, so a reload never mixes
//! two configurations within one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use sluicegate::{Backlog, Engine, MonotonicClock, NodeState};
use sluicegate_config::Config;
use tokio::runtime::Handle;

use crate::automatic_bans::AutomaticBans;
use crate::decision_stream::DecisionStream;
use crate::external::Externals;
use crate::overrides::ActiveOverrides;
use crate::snapshot::Snapshot;
use crate::store::AnyStore;
use crate::telemetry::{AccessLog, Metrics, Traces};
use crate::top_keys::TopKeys;

/// The state that every front door shares.
pub struct Gate {
    snapshot: ArcSwap<Snapshot>,
    /// Whether the snapshot has a limits service; read for each request before it has a snapshot.
    asks_limits_service: AtomicBool,
    /// Counters, clock, fallback and health of the store.
    pub engine: Engine<AnyStore, MonotonicClock>,
    /// The metrics of this process; a reload keeps their counts.
    pub metrics: Arc<Metrics>,
    /// Writes the access log from a thread of its own.
    pub access_log: AccessLog,
    /// Bans and overrides that operators and limits have put in force.
    pub overrides: ActiveOverrides,
    /// Counts denials for the bans of limits.
    pub automatic_bans: AutomaticBans,
    /// The keys that ask most and are denied most.
    pub top_keys: TopKeys,
    /// Sampled decisions for the dashboard and `GET /v1/events`.
    pub decision_stream: DecisionStream,
    /// Spans for a collector, if one is configured.
    pub traces: Option<Traces>,
    externals: Externals,
    versions: AtomicU64,
    /// Drives what is not tied to a request.
    pub(crate) background: Handle,
    /// The charges that are settled after their answer was sent.
    pub(crate) backlog: Backlog,
}

impl Gate {
    /// Puts a first configuration in force; `background` drives what is not tied to a request.
    pub fn new(config: &Config, background: Handle) -> Result<Self, Vec<String>> {
        let metrics = Metrics::new();
        let access_log = AccessLog::start(config.log.format, Arc::clone(&metrics))
            .map_err(|error| vec![format!("log: {error}")])?;
        let store = AnyStore::new(&config.store.kind)?;
        let traces = config
            .traces
            .as_ref()
            .map(|settings| Traces::new(settings, &background));
        let traces = traces.transpose().map_err(|mistake| vec![mistake])?;
        let externals = Externals::new(background.clone(), &store);
        let snapshot = Snapshot::new(config, 1, &externals, &metrics)?;
        snapshot.auth.start_fetching(&background);
        metrics.set_config_version(1);
        Ok(Self {
            asks_limits_service: AtomicBool::new(snapshot.external.is_some()),
            snapshot: ArcSwap::from_pointee(snapshot),
            engine: Engine::new(store, MonotonicClock::new(), config.store.on_failure),
            metrics,
            access_log,
            overrides: ActiveOverrides::new(),
            automatic_bans: AutomaticBans::new(),
            top_keys: TopKeys::new(),
            decision_stream: DecisionStream::default(),
            traces,
            externals,
            versions: AtomicU64::new(1),
            background,
            backlog: Backlog::default(),
        })
    }

    /// The configuration in force; a request takes it once and keeps it.
    pub fn snapshot(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    /// True while a limits service is configured, which is told how clients write their headers.
    pub fn asks_limits_service(&self) -> bool {
        self.asks_limits_service.load(Ordering::Relaxed)
    }

    /// Makes the snapshot of another configuration, or says everything that is wrong with it.
    /// Nothing changes until it is published.
    pub fn prepare(&self, config: &Config) -> Result<Snapshot, Vec<String>> {
        let version = self.versions.load(Ordering::Relaxed) + 1;
        let mut snapshot = Snapshot::new(config, version, &self.externals, &self.metrics)?;
        let in_force = self.snapshot();
        snapshot.client_ip = snapshot.client_ip.with_counts_of(&in_force.client_ip);
        snapshot.auth.keep_keys_of(&in_force.auth);
        Ok(snapshot)
    }

    /// Puts a prepared snapshot in force for the next request.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.metrics.set_config_version(snapshot.version);
        self.versions.store(snapshot.version, Ordering::Relaxed);
        self.asks_limits_service
            .store(snapshot.external.is_some(), Ordering::Relaxed);
        snapshot.auth.start_fetching(&self.background);
        self.snapshot.store(snapshot);
    }

    /// True while failure policies decide, or would if a request came now.
    pub fn is_degraded(&self) -> bool {
        self.engine.is_degraded() || self.has_node_away()
    }

    /// True while a node of the store cannot be reached.
    pub fn has_node_away(&self) -> bool {
        let AnyStore::Redis(redis) = self.engine.store() else {
            return false;
        };
        let nodes = redis.health().nodes;
        nodes
            .iter()
            .any(|node| matches!(node.state, NodeState::Away { .. }))
    }
}
