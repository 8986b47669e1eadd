//! A histogram of durations without a lock.
//!
//! Each bucket is an atomic of its own, and a request adds to one bucket and to the sum, in the shard
//! of its thread. The histogram of the library takes a lock for each value, which all cores would
//! share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::exemplars::Exemplars;
use super::shards::Shards;

/// How long requests took. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub(super) struct DurationHistogram(Arc<DurationCounts>);

/// The counts behind all clones.
#[derive(Debug, Default)]
struct DurationCounts {
    shards: Shards<DurationBuckets>,
    /// The latest trace of each bucket.
    exemplars: Exemplars<{ BOUNDS_US.len() + 1 }>,
}

/// The counts of one shard.
#[derive(Debug, Default)]
struct DurationBuckets {
    /// One for each bound, and one for longer durations. Not cumulative; the encoder adds them up.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    /// In microseconds. With 10,000 requests at a time it overflows after 58 years.
    sum_us: AtomicU64,
}

/// The upper bounds of the buckets in microseconds, inclusive.
const BOUNDS_US: [u64; 16] = [
    250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
    2_500_000, 5_000_000, 10_000_000, 60_000_000,
];

impl DurationHistogram {
    /// Counts a request; `trace_id` is set when it was traced.
    pub(super) fn add(&self, took: Duration, trace_id: Option<String>) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < micros);
        let shard = self.0.shards.own();
        shard.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        shard.sum_us.fetch_add(micros, Ordering::Relaxed);
        if let Some(trace_id) = trace_id {
            self.0.exemplars.put(bucket, trace_id, took);
        }
    }

    /// Adds exemplars to the encoded text, in which this histogram is called `family`.
    pub(super) fn with_exemplars(&self, family: &str, text: String) -> String {
        self.0.exemplars.append_to(family, text)
    }
}

impl EncodeMetric for DurationHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS_US
            .iter()
            .map(|bound| seconds(*bound))
            .chain([f64::INFINITY]);
        let in_all = |count: &dyn Fn(&DurationBuckets) -> &AtomicU64| -> u64 {
            let shards = self.0.shards.all();
            shards
                .map(|shard| count(shard).load(Ordering::Relaxed))
                .sum()
        };
        let counts = (0..=BOUNDS_US.len()).map(|bucket| in_all(&|shard| &shard.buckets[bucket]));
        let buckets: Vec<(f64, u64)> = bounds.zip(counts).collect();
        // The sum of what was just read, so that the count always agrees with the buckets.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = seconds(in_all(&|shard| &shard.sum_us));
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_duration_counts_in_its_bucket_and_in_all_above() {
        let durations = DurationHistogram::default();
        durations.add(Duration::from_micros(250), None);
        durations.add(Duration::from_micros(251), Some("7".to_owned()));
        durations.add(Duration::from_secs(61), None);
        durations.add(Duration::ZERO, None);
        let mut registry = Registry::default();
        registry.register("d", "D", durations.clone());
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        let has = |line: &str| assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        has("d_bucket{le=\"0.00025\"} 2");
        has("d_bucket{le=\"0.0005\"} 3");
        has("d_bucket{le=\"60.0\"} 3");
        has("d_bucket{le=\"+Inf\"} 4");
        has("d_count 4");
        has("d_sum 61.000501");
        let traced = durations.with_exemplars("d", text);
        let traced: Vec<&str> = traced
            .lines()
            .filter(|line| line.contains('#') && line.contains("trace_id"))
            .collect();
        assert!(
            matches!(traced[..], [line] if line.starts_with("d_bucket{le=\"0.0005\"} 3 # ")),
            "{traced:?}"
        );
    }

    #[test]
    fn no_duration_is_too_long() {
        DurationHistogram::default().add(Duration::MAX, None);
    }
}
