//! Series of client connections, read from the counters of the network engine.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::{Registry, Unit};
use sluicegate_net::{ConnectionCounters, ConnectionRefusal, OverloadState, ShedConnection};

use super::collectors::gauge;

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
    register_overload(counters, registry);
}

fn register_overload(counters: &Arc<ConnectionCounters>, registry: &mut Registry) {
    let series = |value| OverloadSeries {
        counters: Arc::clone(counters),
        value,
    };
    registry.register(
        "sluicegate_overload_stage",
        "How much is given up because memory is short: 0 nothing, 1 new connections, 2 idle ones too, 3 the largest too",
        series(|overload| overload.stage() as u64),
    );
    registry.register_with_unit(
        "sluicegate_memory_used",
        "Memory that the process used when it was last measured",
        Unit::Bytes,
        series(OverloadState::used_bytes),
    );
    registry.register_with_unit(
        "sluicegate_memory_budget",
        "Memory that the process may use; 0 is any amount",
        Unit::Bytes,
        series(OverloadState::budget_bytes),
    );
    registry.register(
        "sluicegate_overload_shed",
        "Connections that were closed because memory was short",
        ShedSeries(Arc::clone(counters)),
    );
}

/// One figure of the overload manager.
#[derive(Debug)]
struct OverloadSeries {
    counters: Arc<ConnectionCounters>,
    value: fn(&OverloadState) -> u64,
}

impl EncodeMetric for OverloadSeries {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        gauge((self.value)(self.counters.overload())).encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

/// `sluicegate_overload_shed_total`, by the kind of connection.
#[derive(Debug)]
struct ShedSeries(Arc<ConnectionCounters>);

impl EncodeMetric for ShedSeries {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for kind in ShedConnection::ALL {
            let (labels, count) = (
                [("connection", kind.as_str())],
                self.0.overload().shed(kind),
            );
            ConstCounter::new(count).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// `sluicegate_connections`.
#[derive(Debug)]
struct OpenSeries(Arc<ConnectionCounters>);

impl EncodeMetric for OpenSeries {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        gauge(self.0.open()).encode(encoder)
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
