//! The series of the limits service. They exist only where one is configured.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use super::collectors::gauge;
use crate::external::{ExternalCounts, OptionalField};

/// Encodes all counts: first the calls, then where limits came from, then what was ignored.
pub(super) fn encode(counts: &ExternalCounts, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, count) in calls(counts) {
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(count).encode(counter)?;
    }
    let (name, help) = (
        "sluicegate_external_in_flight",
        "Calls to the limits service that run now.",
    );
    let in_flight = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    gauge(counts.in_flight).encode(in_flight)?;

    let answers = LabelledCounts {
        name: "sluicegate_external_answers",
        help: "Limits that needed no call, by where they came from.",
        label: "source",
        counts: &[
            ("memory", counts.local_hits),
            ("redis", counts.redis_hits),
            ("stale", counts.stale),
            ("limit", counts.statics),
        ],
    };
    answers.encode(encoder)?;
    let mut fields = OptionalField::ALL
        .map(|field| (field.name(), counts.ignored(field)))
        .to_vec();
    fields.push(("cached_value", counts.poisoned));
    let ignored = LabelledCounts {
        name: "sluicegate_external_ignored",
        help: "Parts of replies of the limits service that were ignored.",
        label: "part",
        counts: &fields,
    };
    ignored.encode(encoder)
}

/// The counters without labels: name, help and count.
fn calls(counts: &ExternalCounts) -> [(&'static str, &'static str, u64); 6] {
    [
        (
            "sluicegate_external_calls",
            "Calls to the limits service.",
            counts.calls,
        ),
        (
            "sluicegate_external_errors",
            "Calls to the limits service without a usable reply.",
            counts.errors,
        ),
        (
            "sluicegate_external_waits",
            "Calls to the limits service that waited for a slot.",
            counts.waits,
        ),
        (
            "sluicegate_external_breaker_openings",
            "Times a circuit breaker of the limits service opened.",
            counts.openings,
        ),
        (
            "sluicegate_external_renewals",
            "Limits that were renewed before they expired.",
            counts.renewals,
        ),
        (
            "sluicegate_external_cache_errors",
            "Failed reads and writes of the cache of limits in Redis.",
            counts.redis_errors,
        ),
    ]
}

/// A counter with one label.
struct LabelledCounts<'a> {
    name: &'a str,
    help: &'a str,
    label: &'a str,
    /// The values of the label, with their counts.
    counts: &'a [(&'a str, u64)],
}

impl LabelledCounts<'_> {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family =
            encoder.encode_descriptor(self.name, self.help, None, MetricType::Counter)?;
        for (value, count) in self.counts {
            ConstCounter::new(*count).encode(family.encode_family(&[(self.label, *value)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CollectedCounts, Metrics};
    use super::*;

    #[test]
    fn every_count_has_its_line_and_none_is_there_without_a_service() {
        let metrics = Metrics::new();
        assert!(!metrics.encode().contains("sluicegate_external"));
        let mut counts = ExternalCounts {
            calls: 1,
            errors: 2,
            in_flight: 3,
            stale: 4,
            ..Default::default()
        };
        counts.ignored[OptionalField::BackendUrl as usize] = 5;
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
