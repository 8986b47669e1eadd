//! What has happened between us and the limits service.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::external::ExternalCounts;

/// Encodes the counts, of which the service's operator needs the first and ours the rest.
pub(super) fn encode(counts: &ExternalCounts, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let alone = [
        (
            "sluicegate_external_calls",
            "Calls of the limits service.",
            counts.calls,
        ),
        (
            "sluicegate_external_errors",
            "Calls of the limits service that brought no usable answer.",
            counts.errors,
        ),
        (
            "sluicegate_external_waits",
            "Calls of the limits service that waited for others to end.",
            counts.waits,
        ),
        (
            "sluicegate_external_breaker_openings",
            "Times the limits service was left alone.",
            counts.openings,
        ),
        (
            "sluicegate_external_renewals",
            "Quotas renewed before their lifetime ended.",
            counts.renewals,
        ),
        (
            "sluicegate_external_cache_errors",
            "Times the cache of quotas could not be used.",
            counts.redis_errors,
        ),
    ];
    for (name, help, count) in alone {
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(count).encode(counter)?;
    }

    let help = "Calls of the limits service that are under way.";
    let under_way = encoder.encode_descriptor(
        "sluicegate_external_in_flight",
        help,
        None,
        MetricType::Gauge,
    )?;
    ConstGauge::new(i64::try_from(counts.in_flight).unwrap_or(i64::MAX)).encode(under_way)?;

    let help = "Quotas that were not asked for, by where they came from.";
    let mut answers = encoder.encode_descriptor(
        "sluicegate_external_answers",
        help,
        None,
        MetricType::Counter,
    )?;
    let sources = [
        ("memory", counts.local_hits),
        ("redis", counts.redis_hits),
        ("stale", counts.stale),
        ("limit", counts.statics),
    ];
    for (source, count) in sources {
        ConstCounter::new(count).encode(answers.encode_family(&[("source", source)])?)?;
    }

    let help = "Parts of answers of the limits service that were ignored.";
    let mut ignored = encoder.encode_descriptor(
        "sluicegate_external_ignored",
        help,
        None,
        MetricType::Counter,
    )?;
    let parts = [
        ("tenant_key", counts.invalid_tenants),
        ("backend_url", counts.refused_backends),
        ("cached_value", counts.poisoned),
    ];
    for (part, count) in parts {
        ConstCounter::new(count).encode(ignored.encode_family(&[("part", part)])?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{CollectedCounts, Metrics};
    use super::*;

    #[test]
    fn every_count_has_its_line_and_none_is_there_without_a_service() {
        let metrics = Metrics::new();
        assert!(!metrics.encode().contains("sluicegate_external"));
        let counts = ExternalCounts {
            calls: 1,
            errors: 2,
            in_flight: 3,
            stale: 4,
            refused_backends: 5,
            ..Default::default()
        };
        metrics.collect_from(move || CollectedCounts {
            external: Some(counts),
            ..CollectedCounts::default()
        });
        let text = metrics.encode();
        let expected = [
            "sluicegate_external_calls_total 1",
            "sluicegate_external_errors_total 2",
            "sluicegate_external_in_flight 3",
            "sluicegate_external_answers_total{source=\"stale\"} 4",
            "sluicegate_external_ignored_total{part=\"backend_url\"} 5",
        ];
        for line in expected {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }
}
