//! Series of client connections, read from the counters of the network engine.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use sluicegate_net::{ConnectionCounters, ConnectionRefusal};

/// Registers the series; they show the counters as they are when metrics are read.
pub(super) fn register(counters: &Arc<ConnectionCounters>, registry: &mut Registry) {
    registry.register(
        "sluicegate_connections",
        "Connections of clients that are open",
        OpenSeries(Arc::clone(counters)),
    );
    registry.register(
        "sluicegate_connections_refused",
        "Connections of clients that we ended",
        RefusedSeries(Arc::clone(counters)),
    );
}

/// `sluicegate_connections`.
#[derive(Debug)]
struct OpenSeries(Arc<ConnectionCounters>);

impl EncodeMetric for OpenSeries {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        ConstGauge::new(i64::try_from(self.0.open()).unwrap_or(i64::MAX)).encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// `sluicegate_connections_refused_total`, by reason; every reason is there from the start.
#[derive(Debug)]
struct RefusedSeries(Arc<ConnectionCounters>);

impl EncodeMetric for RefusedSeries {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for reason in ConnectionRefusal::ALL {
            let labels = [("reason", reason.as_str())];
            ConstCounter::new(self.0.refused(reason)).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}
