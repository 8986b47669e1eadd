//! How long decisions in Redis take: a histogram.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::request::RequestError;

/// Durations of the decisions in Redis, and the number of those that failed.
///
/// Take two readings and subtract them with [`since`](RedisWaits::since) to see a period.
///
/// ```no_run
/// # fn example(store: &sluicegate::RedisStore) {
/// let before = store.health().waits;
/// // … a minute later
/// let minute = store.health().waits.since(&before);
/// println!("p99: {:?} µs", minute.quantile_us(0.99));
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisWaits {
    /// For each bucket its upper bound in microseconds and its count. The last bucket holds
    /// everything longer; its bound is `u64::MAX`.
    pub buckets: Vec<(u64, u64)>,
    /// Sum of all durations, in microseconds.
    pub sum_us: u64,
    /// Decisions without a response by their deadline.
    pub timed_out: u64,
    /// Decisions that failed otherwise: the node was away, or the connection broke.
    pub unavailable: u64,
}

/// The counters behind [`RedisWaits`]. Callers add to them from any thread.
#[derive(Debug, Default)]
pub(super) struct WaitHistogram {
    buckets: [AtomicU64; BOUNDS_US.len()],
    sum_us: AtomicU64,
    timed_out: AtomicU64,
    unavailable: AtomicU64,
}

/// Upper bounds in microseconds: from a server on the same machine to one across the world.
const BOUNDS_US: [u64; 14] = [
    50,
    100,
    200,
    300,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    1_000_000,
    u64::MAX,
];

impl WaitHistogram {
    /// Counts a decision that took this long.
    pub(super) fn answered(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US
            .partition_point(|bound| *bound < micros)
            .min(BOUNDS_US.len() - 1);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(micros, Ordering::Relaxed);
    }

    /// Counts a decision that failed.
    pub(super) fn failed(&self, error: &RequestError) {
        let counter = match error {
            RequestError::TimedOut => &self.timed_out,
            RequestError::Unavailable(_) | RequestError::SplitKeys => &self.unavailable,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts so far. Not a snapshot: a decision may be in the buckets and not yet in the sum.
    pub(super) fn read(&self) -> RedisWaits {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RedisWaits {
            buckets: BOUNDS_US
                .into_iter()
                .zip(self.buckets.iter().map(count))
                .collect(),
            sum_us: count(&self.sum_us),
            timed_out: count(&self.timed_out),
            unavailable: count(&self.unavailable),
        }
    }
}

impl RedisWaits {
    /// Number of decisions that succeeded.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |index: usize| earlier.buckets.get(index).map_or(0, |(_, count)| *count);
        let buckets = self.buckets.iter().enumerate();
        Self {
            buckets: buckets
                .map(|(index, (bound, count))| (*bound, count.saturating_sub(before(index))))
                .collect(),
            sum_us: self.sum_us.saturating_sub(earlier.sum_us),
            timed_out: self.timed_out.saturating_sub(earlier.timed_out),
            unavailable: self.unavailable.saturating_sub(earlier.unavailable),
        }
    }

    /// The duration in microseconds that the given share of the decisions does not exceed, rounded
    /// up to the bound of its bucket; `None` without decisions. `0.99` asks for the 99th
    /// percentile.
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let wanted = (count as f64 * share).ceil().max(1.0) as u64;
        let mut below = 0;
        let longest_but_last = self
            .buckets
            .iter()
            .rev()
            .nth(1)
            .map_or(0, |(bound, _)| *bound);
        self.buckets.iter().find_map(|(bound, count)| {
            below += count;
            (*count > 0 && below >= wanted).then_some(if *bound == u64::MAX {
                longest_but_last
            } else {
                *bound
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_where_it_ended() {
        let waits = WaitHistogram::default();
        for micros in [1, 50, 51, 900, 900, 900, 900, 900, 900, 2_000_000] {
            waits.answered(Duration::from_micros(micros));
        }
        waits.answered(Duration::MAX);
        waits.failed(&RequestError::TimedOut);
        waits.failed(&RequestError::Unavailable("gone".to_owned()));
        let read = waits.read();
        assert_eq!(
            (read.buckets[0], read.buckets[1], read.buckets[13]),
            ((50, 2), (100, 1), (u64::MAX, 2))
        );
        assert_eq!((read.count(), read.timed_out, read.unavailable), (11, 1, 1));
        assert_eq!(
            (
                read.quantile_us(0.5),
                read.quantile_us(0.1),
                read.quantile_us(0.99)
            ),
            (Some(1_000), Some(50), Some(1_000_000))
        );
    }

    #[test]
    fn earlier_counts_are_subtracted() {
        let waits = WaitHistogram::default();
        waits.answered(Duration::from_micros(10));
        let before = waits.read();
        assert_eq!(
            waits.read().since(&before).quantile_us(0.5),
            None,
            "nobody waited since"
        );
        waits.answered(Duration::from_millis(4));
        let since = waits.read().since(&before);
        assert_eq!(
            (since.count(), since.quantile_us(0.5), since.sum_us),
            (1, Some(5_000), 4_000)
        );
        assert_eq!(waits.read().since(&RedisWaits::default()).count(), 2);
    }
}
