//! Counts for Prometheus. Which series there are follows from the configuration, never from what callers send.

mod classic;
mod config;
mod connections;
mod durations;
mod elsewhere;
mod exemplars;
mod labels;
mod limits;
mod outside;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use sluicegate_core::Policy;
use sluicegate_net::{ConnectionCounters, OpenConnection};

use crate::auth::Reason;

use config::ConfigSeries;
use durations::Durations;
use elsewhere::Elsewhere;
use labels::{Counts, CountsBy};
use limits::LimitSeries;

pub use elsewhere::Reading;
pub use labels::{
    DecisionAnswer, DecisionProtocol, Label, ReloadResult, RequestOutcome, UpstreamFailure,
};
pub use limits::LimitCounts;
pub use sluicegate_net::ConnectionRefusal;

/// Everything that is counted. Series are made once; adding to one is an atomic addition.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Counts<RequestOutcome>,
    durations: Durations,
    limits: LimitSeries,
    decisions: CountsBy<DecisionProtocol, DecisionAnswer>,
    upstream_failures: Counts<UpstreamFailure>,
    /// Owned by the network engine, which adds to them; only read here.
    connections: Arc<ConnectionCounters>,
    auth_refused: Counts<Reason>,
    config: ConfigSeries,
    access_log_dropped: Counter,
    elsewhere: Arc<Elsewhere>,
}

/// The time that requests took, without its unit.
const DURATION: &str = "sluicegate_request_duration";

impl Metrics {
    /// What [`Metrics::encode`] writes, for the `Content-Type` of an answer.
    pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// All series at zero.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let requests = Counts::new(
            "sluicegate_requests",
            "Requests by what became of them",
            &mut registry,
        );
        let durations = Durations::default();
        registry.register_with_unit(
            DURATION,
            "Time from the end of a request's header to the end of its answer",
            Unit::Seconds,
            durations.clone(),
        );
        let limits = LimitSeries::new(&mut registry);
        let decisions = CountsBy::new(
            "sluicegate_decisions",
            "Questions to the decision service by answer",
            &mut registry,
        );
        let upstream_failures = Counts::new(
            "sluicegate_upstream_errors",
            "Attempts at a server behind the proxy that failed",
            &mut registry,
        );
        let connections = Arc::<ConnectionCounters>::default();
        connections::register(&connections, &mut registry);
        let auth_refused = Counts::new(
            "sluicegate_auth_refused",
            "Credentials that were not accepted",
            &mut registry,
        );
        let config = ConfigSeries::new(&mut registry);
        let access_log_dropped = Counter::default();
        registry.register(
            "sluicegate_access_log_dropped",
            "Lines of the access log that nobody took in time",
            access_log_dropped.clone(),
        );
        registry.register(
            "sluicegate_build",
            "The program",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        let elsewhere = Arc::<Elsewhere>::default();
        registry.register_collector(Box::new(Arc::clone(&elsewhere)));
        Arc::new(Self {
            registry,
            requests,
            durations,
            limits,
            decisions,
            upstream_failures,
            connections,
            auth_refused,
            config,
            access_log_dropped,
            elsewhere,
        })
    }

    /// All series in the text format of OpenMetrics.
    pub fn encode(&self) -> String {
        let mut text = String::with_capacity(16 * 1024);
        if text::encode(&mut text, &self.registry).is_err() {
            tracing::error!("metrics could not be written in full");
        }
        self.durations
            .with_exemplars(&format!("{DURATION}_seconds"), text)
    }

    /// A request has been answered after `took`; it may have been traced.
    pub fn request(&self, outcome: RequestOutcome, took: Duration, trace_id: Option<String>) {
        self.requests.add(outcome);
        self.durations.add(took, trace_id);
    }

    /// Counters for the limits of a policy, to be kept beside it. A limit that has gone keeps its series; beyond 10,000 limits
    /// over the life of the process the others share one, `limit="(other)"`.
    pub fn limits(&self, policy: &Policy) -> LimitCounts {
        self.limits.counts_for(policy)
    }

    /// The decision service was asked, and answered so.
    pub fn decision(&self, protocol: DecisionProtocol, answer: DecisionAnswer) {
        self.decisions.add(protocol, answer);
    }

    /// Requests so far, in the order of their outcomes.
    pub(crate) fn requests_so_far(&self) -> Vec<u64> {
        self.requests.so_far()
    }

    /// Questions to the decision service so far, in the order of the answers.
    pub(crate) fn decisions_so_far(&self) -> Vec<u64> {
        self.decisions.so_far()
    }

    /// An attempt at a server behind the proxy failed.
    pub fn upstream_failed(&self, reason: UpstreamFailure) {
        self.upstream_failures.add(reason);
    }

    /// A client has connected. The connection counts as open while the answer lives.
    pub fn connection(&self) -> OpenConnection {
        self.connections.open_connection()
    }

    /// Connections that are open.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.open()
    }

    /// Counters for the network engine, which adds to them itself.
    pub(crate) fn connection_counters(&self) -> &Arc<ConnectionCounters> {
        &self.connections
    }

    /// A connection was refused or ended by us.
    pub fn connection_refused(&self, reason: ConnectionRefusal) {
        self.connections.refuse(reason);
    }

    /// A credential was not accepted, or none was shown where one is required.
    pub fn auth_refused(&self, reason: Reason) {
        self.auth_refused.add(reason);
    }

    /// This version of the configuration runs now.
    pub fn set_config_version(&self, version: u64) {
        self.config
            .version
            .set(i64::try_from(version).unwrap_or(i64::MAX));
    }

    /// The text of the running configuration has this hash. Its first 48 bits are told: a number that is exact for everybody.
    pub fn set_config_hash(&self, hash: &[u8; 32]) {
        let number = hash[..6]
            .iter()
            .fold(0, |number, byte| (number << 8) | i64::from(*byte));
        self.config.hash.set(number);
    }

    /// The configuration was read again, with this result.
    pub fn reloaded(&self, result: ReloadResult) {
        self.config.reloaded(result);
    }

    /// Takes over what is counted elsewhere: it is asked for whenever metrics are. The last caller counts.
    pub fn read_from(&self, source: impl Fn() -> Reading + Send + Sync + 'static) {
        self.elsewhere.read_from(Box::new(source));
    }

    /// Lines of the access log were lost.
    pub(super) fn access_log_dropped(&self, lines: u64) {
        self.access_log_dropped.inc_by(lines);
    }
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
