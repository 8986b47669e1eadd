//! Metrics for Prometheus.
//!
//! The number of series is bounded: which ones exist follows from the code and the configuration,
//! never from what callers send. Labels have closed sets of values (`labels.rs`); limits and nodes
//! of the store, whose names an operator chooses, are capped. A request only adds to atomics that
//! were made beforehand, so counting takes no lock and cannot fail.
//!
//! Two ways of counting meet here. Events are added as they happen. Counts that other parts keep
//! for themselves (the store, the limits service) are collected at each scrape (`collectors.rs`), and
//! so is what the system knows about the process (`process.rs`).

mod bans;
mod collectors;
mod config;
mod connections;
mod durations;
mod exemplars;
mod external;
mod labels;
mod limits;
mod process;
mod prometheus_text;
mod shards;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use sluicegate_core::Policy;
use sluicegate_net::{ConnectionCounters, OpenConnection};

use bans::BanSeries;
use collectors::ScrapeCollector;
use config::ConfigSeries;
use durations::DurationHistogram;
use labels::{LabelCounters, LabelPairCounters};
use limits::LimitSeries;
use process::ProcessCollector;
use shards::Counter;

pub use collectors::{CollectedCounts, OrderCounts};
pub use labels::{
    AuthFailure, BanDrop, DecisionAnswer, DecisionProtocol, KeyFetchResult, Label, ReloadResult,
    RequestOutcome, UpstreamFailure,
};
pub use limits::LimitCounts;
pub use process::resident_bytes;
pub use sluicegate_net::ConnectionRefusal;

/// All metrics of the process. Made once at the start and shared by everything that counts.
#[derive(Debug)]
pub struct Metrics {
    /// Knows all series, and is read at each scrape.
    registry: Registry,
    requests: LabelCounters<RequestOutcome>,
    durations: DurationHistogram,
    limits: LimitSeries,
    decisions: LabelPairCounters<DecisionProtocol, DecisionAnswer>,
    upstream_failures: LabelCounters<UpstreamFailure>,
    /// Owned by the network engine, which adds to them; only read here.
    connections: Arc<ConnectionCounters>,
    auth_refused: LabelCounters<AuthFailure>,
    bans: BanSeries,
    keys_fetched: LabelCounters<KeyFetchResult>,
    config: ConfigSeries,
    access_log_dropped: Counter,
    settlements_lost: Counter,
    collector: Arc<ScrapeCollector>,
}

/// The histogram of request durations, without the unit that the encoder appends.
const DURATION: &str = "sluicegate_request_duration";

impl Metrics {
    /// The `Content-Type` of what [`Metrics::encode`] writes.
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// All series, at zero.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("sluicegate_build", "The version of the program", version);
        registry.register_collector(Box::new(ProcessCollector::default()));
        let series = &mut registry;
        Arc::new(Self {
            requests: LabelCounters::new("sluicegate_requests", "Requests by outcome", series),
            durations: durations(series),
            limits: LimitSeries::new(series),
            decisions: LabelPairCounters::new(
                "sluicegate_decisions",
                "Requests to the decision service by outcome",
                series,
            ),
            upstream_failures: LabelCounters::new(
                "sluicegate_upstream_errors",
                "Failed attempts to reach a server behind the proxy",
                series,
            ),
            connections: connections(series),
            auth_refused: LabelCounters::new(
                "sluicegate_auth_refused",
                "Credentials that were missing or invalid",
                series,
            ),
            bans: BanSeries::new(series),
            keys_fetched: LabelCounters::new(
                "sluicegate_jwks_fetches",
                "Fetches of the keys of tokens by result",
                series,
            ),
            config: ConfigSeries::new(series),
            access_log_dropped: access_log_dropped(series),
            settlements_lost: settlements_lost(series),
            collector: collector(series),
            registry,
        })
    }

    /// All series in the text format of OpenMetrics.
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        if text::encode(&mut text, &self.registry).is_err() {
            tracing::error!("metrics are incomplete: they could not be encoded");
        }
        self.durations
            .with_exemplars(&format!("{DURATION}_seconds"), text)
    }

    /// Counts a request that was answered after `took`. `trace_id` is set when it was traced.
    pub fn request(&self, outcome: RequestOutcome, took: Duration, trace_id: Option<String>) {
        self.requests.add(outcome);
        self.durations.add(took, trace_id);
    }

    /// The counters of a policy's limits, to be kept beside it.
    ///
    /// A limit that is removed keeps its series, so that its counts go on when it comes back.
    /// Beyond 10,000 limits over the life of the process the others share one series,
    /// `limit="(other)"`.
    pub fn limits(&self, policy: &Policy) -> LimitCounts {
        self.bans.prepare(policy);
        self.limits.counts_for(policy)
    }

    /// Counts a ban that a limit gave on this replica.
    pub fn banned(&self, limit: &str) {
        self.bans.counter(limit).inc();
    }

    /// Counts automatic bans that are not in force.
    pub fn ban_dropped(&self, reason: BanDrop, bans: u64) {
        self.bans.dropped.add_many(reason, bans);
    }

    /// Counts a request to the decision service.
    pub fn decision(&self, protocol: DecisionProtocol, answer: DecisionAnswer) {
        self.decisions.add(protocol, answer);
    }

    /// The requests so far by outcome, in the order of [`RequestOutcome`].
    pub fn requests_so_far(&self) -> Vec<u64> {
        self.requests.totals()
    }

    /// The requests to the decision service so far, in the order of [`DecisionAnswer`].
    pub fn decisions_so_far(&self) -> Vec<u64> {
        self.decisions.totals()
    }

    /// Counts a failed attempt to reach a server behind the proxy.
    pub fn upstream_failed(&self, reason: UpstreamFailure) {
        self.upstream_failures.add(reason);
    }

    /// Counts a connection as open until the result is dropped.
    pub fn connection(&self) -> OpenConnection {
        self.connections.open_connection()
    }

    /// The connections that are open now.
    pub fn connections(&self) -> u64 {
        self.connections.open()
    }

    /// Counters for the network engine, which adds to them itself.
    pub fn connection_counters(&self) -> &Arc<ConnectionCounters> {
        &self.connections
    }

    /// Counts a connection that we refused or ended.
    pub fn connection_refused(&self, reason: ConnectionRefusal) {
        self.connections.refuse(reason);
    }

    /// Counts a credential that was invalid, or missing where one is required.
    pub fn auth_refused(&self, reason: AuthFailure) {
        self.auth_refused.add(reason);
    }

    /// Counts a fetch of the keys of tokens.
    pub fn keys_fetched(&self, result: KeyFetchResult) {
        self.keys_fetched.add(result);
    }

    /// Sets the version of the configuration in force.
    pub fn set_config_version(&self, version: u64) {
        self.config
            .version
            .set(i64::try_from(version).unwrap_or(i64::MAX));
    }

    /// Sets the hash of the configuration in force: its first 48 bits, because Prometheus keeps
    /// values as floating-point numbers, which are exact only up to 53.
    pub fn set_config_hash(&self, hash: &[u8; 32]) {
        let number = hash[..6]
            .iter()
            .fold(0, |number, byte| (number << 8) | i64::from(*byte));
        self.config.hash.set(number);
    }

    /// Counts an attempt to reload the configuration.
    pub fn reloaded(&self, result: ReloadResult) {
        self.config.reloaded(result);
    }

    /// Sets the function that is called at each scrape for the counts that other parts keep. It
    /// replaces the one before.
    pub fn collect_from(&self, source: impl Fn() -> CollectedCounts + Send + Sync + 'static) {
        self.collector.collect_from(Box::new(source));
    }

    /// Counts lines of the access log that were dropped.
    pub(super) fn access_log_dropped(&self, lines: u64) {
        self.access_log_dropped.inc_by(lines);
    }

    /// Counts a request whose limits would have counted by its answer, and could not.
    pub fn settlement_lost(&self) {
        self.settlements_lost.inc();
    }
}

fn durations(registry: &mut Registry) -> DurationHistogram {
    let durations = DurationHistogram::default();
    let help = "Time from the end of a request's header to the end of its response";
    registry.register_with_unit(DURATION, help, Unit::Seconds, durations.clone());
    durations
}

fn connections(registry: &mut Registry) -> Arc<ConnectionCounters> {
    let counters = Arc::<ConnectionCounters>::default();
    connections::register(&counters, registry);
    counters
}

fn access_log_dropped(registry: &mut Registry) -> Counter {
    let dropped = Counter::default();
    let help = "Lines of the access log that were dropped because nobody read them in time";
    registry.register("sluicegate_access_log_dropped", help, dropped.clone());
    dropped
}

fn settlements_lost(registry: &mut Registry) -> Counter {
    let lost = Counter::default();
    let help =
        "Requests that were not counted by their answer because too many waited for the store";
    registry.register("sluicegate_settlements_lost", help, lost.clone());
    lost
}

fn collector(registry: &mut Registry) -> Arc<ScrapeCollector> {
    let collector = Arc::<ScrapeCollector>::default();
    registry.register_collector(Box::new(Arc::clone(&collector)));
    collector
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
        text.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
    }

    #[test]
    fn every_outcome_has_a_series_from_the_start_and_counts_apart() {
        let metrics = Metrics::new();
        let text = metrics.encode();
        for outcome in RequestOutcome::ALL {
            let series = format!(
                "sluicegate_requests_total{{outcome=\"{}\"}}",
                outcome.as_str()
            );
            assert_eq!(value(&text, &series), Some("0"), "{text}");
        }
        metrics.request(RequestOutcome::Limited, Duration::from_millis(3), None);
        let text = metrics.encode();
        assert_eq!(
            value(&text, "sluicegate_requests_total{outcome=\"limited\"}"),
            Some("1")
        );
        assert_eq!(
            value(&text, "sluicegate_requests_total{outcome=\"forwarded\"}"),
            Some("0")
        );
        assert_eq!(
            value(&text, "sluicegate_request_duration_seconds_count"),
            Some("1")
        );
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_connection_is_open_while_its_guard_lives() {
        let metrics = Metrics::new();
        let guards = [metrics.connection(), metrics.connection()];
        assert_eq!(
            value(&metrics.encode(), "sluicegate_connections"),
            Some("2")
        );
        drop(guards);
        assert_eq!(
            value(&metrics.encode(), "sluicegate_connections"),
            Some("0")
        );
    }

    #[test]
    fn the_version_of_the_configuration_and_of_the_program_are_told() {
        let metrics = Metrics::new();
        metrics.set_config_version(7);
        metrics.reloaded(ReloadResult::Applied);
        metrics.set_config_hash(&[0xff; 32]);
        let text = metrics.encode();
        assert_eq!(
            value(&text, "sluicegate_config_hash"),
            Some("281474976710655")
        );
        assert_eq!(value(&text, "sluicegate_config_version"), Some("7"));
        assert_eq!(
            value(&text, "sluicegate_config_reloads_total{result=\"applied\"}"),
            Some("1")
        );
        let build = concat!(
            "sluicegate_build_info{version=\"",
            env!("CARGO_PKG_VERSION"),
            "\"}"
        );
        assert_eq!(value(&text, build), Some("1"));
        metrics.set_config_version(u64::MAX);
        assert_eq!(
            value(&metrics.encode(), "sluicegate_config_version"),
            Some("9223372036854775807")
        );
    }
}
