//! Counts that other parts of the program keep themselves, read at each scrape.
//!
//! The store, the limiter and the limits service count anyway, for their own decisions and for the
//! admin API. Counting everything a second time here would cost every request; so a function gives
//! all of them at once, and this collector encodes them. It knows the numbers and nothing about who
//! keeps them: the server fills in [`CollectedCounts`].

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use sluicegate::http::ProxyHeaderFault;
use sluicegate::{FailureCounts, RedisWaits};

use super::external;
use crate::external::ExternalCounts;

/// The counts of other parts at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedCounts {
    /// The nodes of the store by address, and whether each answers.
    pub nodes: Vec<(String, bool)>,
    /// Requests that the store did not decide, by failure policy.
    pub failures: FailureCounts,
    /// Requests counted as their peer's although trusted proxies are configured, by reason.
    pub client_ip_unused: Vec<(ProxyHeaderFault, u64)>,
    /// Counts of the limits service; `None` without one, and then there are no series for it.
    pub external: Option<ExternalCounts>,
    /// The time since the keys of tokens were fetched; `None` when they never were.
    pub keys_age: Option<Duration>,
    /// True when the store did not answer the last time, or one of its nodes is away.
    pub is_degraded: bool,
    /// How long decisions waited for the store; `None` for the store in this process.
    pub waits: Option<RedisWaits>,
    /// Requests denied without asking the store.
    pub denied_from_memory: u64,
    /// The configuration epoch of the primary that sentinels named; 0 without sentinels.
    pub primary_epoch: u64,
    /// Reports of sentinels that named a primary which was replaced.
    pub stale_reports: u64,
    /// Bans and overrides in force.
    pub orders: OrderCounts,
    /// Events for watchers that were dropped because nobody read them in time.
    pub events_dropped: u64,
}

/// Bans and overrides in force, by who gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// Bans of operators.
    pub bans: u64,
    /// Bans of limits.
    pub automatic_bans: u64,
    /// Overrides of operators.
    pub overrides: u64,
}

/// Asks for the counts at each scrape and encodes them.
#[derive(Default)]
pub(super) struct ScrapeCollector {
    /// `None` until the server has started; then all counts are zero.
    source: Mutex<Option<CountsSource>>,
}

type CountsSource = Box<dyn Fn() -> CollectedCounts + Send + Sync>;

/// The most nodes of the store with a series of their own.
const NODES_MAX: usize = 1_000;

impl ScrapeCollector {
    /// Sets the source; the last call counts.
    pub(super) fn collect_from(&self, source: CountsSource) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    fn collect(&self) -> CollectedCounts {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.as_ref().map(|collect| collect()).unwrap_or_default()
    }
}

impl Collector for ScrapeCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.collect();
        let encoder = &mut encoder;
        encode_single(&counts, encoder)?;
        encode_keys_age(counts.keys_age, encoder)?;
        encode_orders(counts.orders, encoder)?;
        encode_waits(counts.waits.unwrap_or_default(), encoder)?;
        encode_nodes(&counts.nodes, encoder)?;
        encode_failures(counts.failures, encoder)?;
        encode_client_ip_unused(&counts.client_ip_unused, encoder)?;
        match &counts.external {
            Some(counts) => external::encode(counts, encoder),
            None => Ok(()),
        }
    }
}

/// Series without labels.
fn encode_single(counts: &CollectedCounts, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "1 when the store did not answer the last time, or one of its nodes is away.";
    let degraded =
        encoder.encode_descriptor("sluicegate_store_degraded", help, None, MetricType::Gauge)?;
    gauge(counts.is_degraded.into()).encode(degraded)?;
    let help = "Configuration epoch of the primary that sentinels named; 0 without sentinels.";
    let name = "sluicegate_store_primary_epoch";
    let epoch = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    gauge(counts.primary_epoch).encode(epoch)?;
    let single = [
        (
            "sluicegate_store_stale_reports",
            "Reports of sentinels that named a replaced primary, which is not used.",
            counts.stale_reports,
        ),
        (
            "sluicegate_denied_from_memory",
            "Requests denied without asking the store.",
            counts.denied_from_memory,
        ),
        (
            "sluicegate_events_dropped",
            "Events for watchers that were dropped because nobody read them in time.",
            counts.events_dropped,
        ),
    ];
    for (name, help, count) in single {
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(count).encode(counter)?;
    }
    Ok(())
}

/// Only where keys were fetched: before the first fetch there is no age.
fn encode_keys_age(age: Option<Duration>, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Some(age) = age else { return Ok(()) };
    let help = "Time since the keys of tokens were fetched.";
    let (name, unit) = ("sluicegate_jwks_age", Some(&Unit::Seconds));
    let encoded = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    gauge(age.as_secs()).encode(encoded)
}

fn encode_orders(counts: OrderCounts, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Bans and overrides in force.";
    let mut orders =
        encoder.encode_descriptor("sluicegate_orders", help, None, MetricType::Gauge)?;
    for (kind, count) in [
        ("ban", counts.bans),
        ("automatic_ban", counts.automatic_bans),
        ("override", counts.overrides),
    ] {
        gauge(count).encode(orders.encode_family(&[("kind", kind)])?)?;
    }
    Ok(())
}

/// Errors of the store and the time that decisions waited for it. Without a remote store both are
/// there at zero, so that a dashboard needs no exception.
fn encode_waits(waits: RedisWaits, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Decisions that the store did not answer.";
    let mut errors =
        encoder.encode_descriptor("sluicegate_store_errors", help, None, MetricType::Counter)?;
    for (reason, count) in [
        ("timed_out", waits.timed_out),
        ("unavailable", waits.unavailable),
    ] {
        ConstCounter::new(count).encode(errors.encode_family(&[("reason", reason)])?)?;
    }
    let help = "Time that decisions waited for the store.";
    let (name, unit) = ("sluicegate_store_request_duration", Some(&Unit::Seconds));
    let mut histogram = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
    let seconds = |bound_us: u64| match bound_us {
        u64::MAX => f64::INFINITY,
        bound_us => bound_us as f64 / 1e6,
    };
    let buckets: Vec<(f64, u64)> = waits
        .buckets
        .iter()
        .map(|(bound_us, count)| (seconds(*bound_us), *count))
        .collect();
    if buckets.is_empty() {
        return histogram.encode_histogram::<NoLabelSet>(0.0, 0, &[(f64::INFINITY, 0)], None);
    }
    let sum = waits.sum_us as f64 / 1e6;
    histogram.encode_histogram::<NoLabelSet>(sum, waits.count(), &buckets, None)
}

/// One series per node, up to [`NODES_MAX`].
fn encode_nodes(nodes: &[(String, bool)], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "1 when a node of the store answers.";
    let mut up = encoder.encode_descriptor("sluicegate_store_up", help, None, MetricType::Gauge)?;
    for (node, is_up) in nodes.iter().take(NODES_MAX) {
        gauge((*is_up).into()).encode(up.encode_family(&[("node", node.as_str())])?)?;
    }
    Ok(())
}

fn encode_failures(failures: FailureCounts, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Requests that the store did not decide, by the failure policy that was applied.";
    let mut failed =
        encoder.encode_descriptor("sluicegate_store_failures", help, None, MetricType::Counter)?;
    for (policy, count) in [
        ("open", failures.unchecked),
        ("closed", failures.refused),
        ("local", failures.local),
    ] {
        ConstCounter::new(count).encode(failed.encode_family(&[("policy", policy)])?)?;
    }
    Ok(())
}

/// One series per reason, also for those that never occurred.
fn encode_client_ip_unused(
    counts: &[(ProxyHeaderFault, u64)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let help = "Requests counted as their peer's although trusted proxies are configured.";
    let name = "sluicegate_client_ip_unused";
    let mut unused = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for reason in ProxyHeaderFault::ALL {
        let count = counts
            .iter()
            .find(|(other, _)| *other == reason)
            .map_or(0, |(_, count)| *count);
        ConstCounter::new(count).encode(unused.encode_family(&[("reason", reason.as_str())])?)?;
    }
    Ok(())
}

/// A gauge of a count; beyond the range of the format, its maximum.
pub(super) fn gauge(count: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX))
}

impl fmt::Debug for ScrapeCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrapeCollector")
    }
}

#[cfg(test)]
mod tests {
    use super::super::Metrics;
    use super::*;

    #[test]
    fn what_is_counted_elsewhere_is_read_whenever_it_is_asked_for() {
        let metrics = Metrics::new();
        let failures = FailureCounts {
            unchecked: 1,
            refused: 2,
            local: 3,
        };
        let nodes = vec![
            ("rl-0:6379".to_owned(), true),
            ("rl-1:6379".to_owned(), false),
        ];
        let counts = CollectedCounts {
            nodes,
            failures,
            client_ip_unused: vec![(ProxyHeaderFault::Missing, 4)],
            keys_age: Some(Duration::from_secs(7)),
            primary_epoch: 5,
            stale_reports: 6,
            ..CollectedCounts::default()
        };
        metrics.collect_from(move || counts.clone());
        let text = metrics.encode();
        let expected = [
            "sluicegate_store_up{node=\"rl-0:6379\"} 1",
            "sluicegate_store_up{node=\"rl-1:6379\"} 0",
            "sluicegate_store_failures_total{policy=\"open\"} 1",
            "sluicegate_store_failures_total{policy=\"closed\"} 2",
            "sluicegate_store_failures_total{policy=\"local\"} 3",
            "sluicegate_jwks_age_seconds 7",
            "sluicegate_client_ip_unused_total{reason=\"missing\"} 4",
            "sluicegate_client_ip_unused_total{reason=\"unparsable\"} 0",
            "sluicegate_store_primary_epoch 5",
            "sluicegate_store_stale_reports_total 6",
        ];
        for line in expected {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    #[test]
    fn nodes_beyond_a_bound_have_no_series() {
        let metrics = Metrics::new();
        metrics.collect_from(|| CollectedCounts {
            nodes: (0..NODES_MAX + 5)
                .map(|node| (node.to_string(), true))
                .collect(),
            ..CollectedCounts::default()
        });
        assert_eq!(
            metrics.encode().matches("sluicegate_store_up{").count(),
            NODES_MAX
        );
    }
}
