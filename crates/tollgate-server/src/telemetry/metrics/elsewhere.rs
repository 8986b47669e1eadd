//! What the store, the limiter and the search for addresses count themselves.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tollgate::http::{ClientIp, Unused};
use tollgate::{FailureCounts, NodeState};

use super::outside;
use crate::external::ExternalCounts;
use crate::store::AnyStore;

/// Counts that are kept elsewhere, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The nodes of the store, and whether each answers.
    pub nodes: Vec<(String, bool)>,
    /// Requests that the store did not decide.
    pub failures: FailureCounts,
    /// Requests counted as their peer's although trusted proxies are configured.
    pub client_ip_unused: Vec<(Unused, u64)>,
    /// What the limits service was asked, where there is one.
    pub external: Option<ExternalCounts>,
}

impl Reading {
    /// Asks those who count. The store in this process is one node, `local`, that always answers.
    pub fn of(
        store: &AnyStore,
        failures: FailureCounts,
        client_ip: &ClientIp,
        external: Option<ExternalCounts>,
    ) -> Self {
        let nodes = match store {
            AnyStore::Local(_) => vec![("local".to_owned(), true)],
            AnyStore::Redis(redis) => {
                let nodes = redis.health().nodes.into_iter();
                nodes.map(|node| (node.endpoint.to_string(), node.state == NodeState::Up)).collect()
            }
        };
        Self { nodes, failures, client_ip_unused: client_ip.counts().to_vec(), external }
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
        let Reading { nodes, failures, client_ip_unused, external } = self.read();

        let help = "Whether a node of the store answers.";
        let mut up = encoder.encode_descriptor("tollgate_store_up", help, None, MetricType::Gauge)?;
        for (node, is_up) in nodes.iter().take(NODES_MAX) {
            ConstGauge::new(i64::from(*is_up)).encode(up.encode_family(&[("node", node.as_str())])?)?;
        }

        let help = "Requests that the store did not decide, by the failure policy they met.";
        let mut failed = encoder.encode_descriptor("tollgate_store_failures", help, None, MetricType::Counter)?;
        for (policy, count) in [("open", failures.unchecked), ("closed", failures.refused), ("local", failures.local)] {
            ConstCounter::new(count).encode(failed.encode_family(&[("policy", policy)])?)?;
        }

        let help = "Requests counted as their peer's although trusted proxies are configured.";
        let mut unused = encoder.encode_descriptor("tollgate_client_ip_unused", help, None, MetricType::Counter)?;
        for reason in Unused::ALL {
            let count = client_ip_unused.iter().find(|(other, _)| *other == reason).map_or(0, |(_, count)| *count);
            ConstCounter::new(count).encode(unused.encode_family(&[("reason", reason.as_str())])?)?;
        }
        match &external {
            Some(counts) => outside::encode(counts, &mut encoder),
            None => Ok(()),
        }
    }
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
        let failures = FailureCounts { unchecked: 1, refused: 2, local: 3 };
        let nodes = vec![("rl-0:6379".to_owned(), true), ("rl-1:6379".to_owned(), false)];
        let reading = Reading { nodes, failures, client_ip_unused: vec![(Unused::Missing, 4)], external: None };
        metrics.read_from(move || reading.clone());
        let text = metrics.encode();
        let expected = [
            "tollgate_store_up{node=\"rl-0:6379\"} 1",
            "tollgate_store_up{node=\"rl-1:6379\"} 0",
            "tollgate_store_failures_total{policy=\"open\"} 1",
            "tollgate_store_failures_total{policy=\"closed\"} 2",
            "tollgate_store_failures_total{policy=\"local\"} 3",
            "tollgate_client_ip_unused_total{reason=\"missing\"} 4",
            "tollgate_client_ip_unused_total{reason=\"unparsable\"} 0",
        ];
        for line in expected {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    #[test]
    fn nodes_beyond_a_bound_have_no_series() {
        let metrics = Metrics::new();
        metrics.read_from(|| Reading {
            nodes: (0..NODES_MAX + 5).map(|node| (node.to_string(), true)).collect(),
            ..Reading::default()
        });
        assert_eq!(metrics.encode().matches("tollgate_store_up{").count(), NODES_MAX);
    }
}
