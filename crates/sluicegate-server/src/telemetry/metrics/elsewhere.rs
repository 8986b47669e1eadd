//! What the store, the limiter and the search for addresses count themselves.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use sluicegate::http::ProxyHeaderFault;
use sluicegate::{FailureCounts, NodeState, RedisWaits};

use super::outside;
use crate::external::{External, ExternalCounts};
use crate::gate::Gate;
use crate::store::AnyStore;

/// Counts that are kept elsewhere, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The nodes of the store, and whether each answers.
    pub nodes: Vec<(String, bool)>,
    /// Requests that the store did not decide.
    pub failures: FailureCounts,
    /// Requests counted as their peer's although trusted proxies are configured.
    pub client_ip_unused: Vec<(ProxyHeaderFault, u64)>,
    /// What the limits service was asked, where there is one.
    pub external: Option<ExternalCounts>,
    /// Whether the store failed to answer when it was last asked, or a node of it is away.
    pub is_degraded: bool,
    /// How long decisions waited for the store, where it is elsewhere.
    pub waits: Option<RedisWaits>,
    /// Requests denied without asking the store.
    pub denied_from_memory: u64,
    /// Bans and overrides in force.
    pub orders: (u64, u64),
    /// Events that nobody who watches took in time.
    pub events_dropped: u64,
}

impl Reading {
    /// Asks those who count. The store in this process is one node, `local`, that always answers.
    pub(crate) fn of(gate: &Gate) -> Self {
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
        Self {
            nodes,
            failures: gate.engine.failures(),
            client_ip_unused: snapshot.client_ip.counts().to_vec(),
            external: snapshot.external.as_ref().map(External::counts),
            is_degraded: gate.is_degraded(),
            waits,
            denied_from_memory,
            orders: gate.overrides.current().count(),
            events_dropped: gate.decision_stream.dropped(),
        }
    }
}

/// Asks for a reading whenever metrics are encoded.
#[derive(Default)]
pub(super) struct Elsewhere {
    source: Mutex<Option<Source>>,
}

type Source = Box<dyn Fn() -> Reading + Send + Sync>;

/// Nodes with a series of their own.
const NODES_MAX: usize = 1_000;

impl Elsewhere {
    pub(super) fn read_from(&self, source: Source) {
        *self.source.lock().unwrap_or_else(PoisonError::into_inner) = Some(source);
    }

    fn read(&self) -> Reading {
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.as_ref().map(|read| read()).unwrap_or_default()
    }
}

impl Collector for Elsewhere {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let reading = self.read();
        encode_store(&reading, &mut encoder)?;
        let Reading {
            nodes,
            failures,
            client_ip_unused,
            external,
            ..
        } = reading;

        let help = "Whether a node of the store answers.";
        let mut up =
            encoder.encode_descriptor("sluicegate_store_up", help, None, MetricType::Gauge)?;
        for (node, is_up) in nodes.iter().take(NODES_MAX) {
            ConstGauge::new(i64::from(*is_up))
                .encode(up.encode_family(&[("node", node.as_str())])?)?;
        }

        let help = "Requests that the store did not decide, by the failure policy they met.";
        let mut failed = encoder.encode_descriptor(
            "sluicegate_store_failures",
            help,
            None,
            MetricType::Counter,
        )?;
        for (policy, count) in [
            ("open", failures.unchecked),
            ("closed", failures.refused),
            ("local", failures.local),
        ] {
            ConstCounter::new(count).encode(failed.encode_family(&[("policy", policy)])?)?;
        }

        let help = "Requests counted as their peer's although trusted proxies are configured.";
        let mut unused = encoder.encode_descriptor(
            "sluicegate_client_ip_unused",
            help,
            None,
            MetricType::Counter,
        )?;
        for reason in ProxyHeaderFault::ALL {
            let count = client_ip_unused
                .iter()
                .find(|(other, _)| *other == reason)
                .map_or(0, |(_, count)| *count);
            ConstCounter::new(count)
                .encode(unused.encode_family(&[("reason", reason.as_str())])?)?;
        }
        match &external {
            Some(counts) => outside::encode(counts, &mut encoder),
            None => Ok(()),
        }
    }
}

/// How the store does, and what is done about callers meanwhile.
fn encode_store(reading: &Reading, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut gauge = |name: &str, help: &str, value: u64| {
        let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(gauge)
    };
    let help =
        "Whether the store failed to answer when it was last asked, or a node of it is away.";
    gauge(
        "sluicegate_store_degraded",
        help,
        reading.is_degraded.into(),
    )?;
    let mut counter = |name: &str, help: &str, value: u64| {
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(counter)
    };
    let help = "Requests denied without asking the store.";
    counter(
        "sluicegate_denied_from_memory",
        help,
        reading.denied_from_memory,
    )?;
    let help = "Events that nobody who watches took in time.";
    counter("sluicegate_events_dropped", help, reading.events_dropped)?;

    let help = "Bans and overrides of operators in force.";
    let mut orders =
        encoder.encode_descriptor("sluicegate_orders", help, None, MetricType::Gauge)?;
    for (kind, count) in [("ban", reading.orders.0), ("override", reading.orders.1)] {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        ConstGauge::new(count).encode(orders.encode_family(&[("kind", kind)])?)?;
    }

    let waits = reading.waits.clone().unwrap_or_default();
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
    let seconds = |bound: u64| {
        if bound == u64::MAX {
            f64::INFINITY
        } else {
            bound as f64 / 1e6
        }
    };
    let buckets: Vec<(f64, u64)> = waits
        .buckets
        .iter()
        .map(|(bound, count)| (seconds(*bound), *count))
        .collect();
    if buckets.is_empty() {
        return histogram.encode_histogram::<NoLabelSet>(0.0, 0, &[(f64::INFINITY, 0)], None);
    }
    histogram.encode_histogram::<NoLabelSet>(
        waits.sum_us as f64 / 1e6,
        waits.count(),
        &buckets,
        None,
    )
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Elsewhere")
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
        let reading = Reading {
            nodes,
            failures,
            client_ip_unused: vec![(ProxyHeaderFault::Missing, 4)],
            ..Reading::default()
        };
        metrics.read_from(move || reading.clone());
        let text = metrics.encode();
        let expected = [
            "sluicegate_store_up{node=\"rl-0:6379\"} 1",
            "sluicegate_store_up{node=\"rl-1:6379\"} 0",
            "sluicegate_store_failures_total{policy=\"open\"} 1",
            "sluicegate_store_failures_total{policy=\"closed\"} 2",
            "sluicegate_store_failures_total{policy=\"local\"} 3",
            "sluicegate_client_ip_unused_total{reason=\"missing\"} 4",
            "sluicegate_client_ip_unused_total{reason=\"unparsable\"} 0",
        ];
        for line in expected {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    #[test]
    fn nodes_beyond_a_bound_have_no_series() {
        let metrics = Metrics::new();
        metrics.read_from(|| Reading {
            nodes: (0..NODES_MAX + 5)
                .map(|node| (node.to_string(), true))
                .collect(),
            ..Reading::default()
        });
        assert_eq!(
            metrics.encode().matches("sluicegate_store_up{").count(),
            NODES_MAX
        );
    }
}
