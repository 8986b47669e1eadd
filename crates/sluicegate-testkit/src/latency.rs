//! How long answers took.

use std::fmt;
use std::time::Duration;

/// A histogram of durations. Percentiles are at most one part in 64 above the truth, never below; the maximum is exact.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Grown to the slot of the longest duration.
    counts: Vec<u64>,
    count: u64,
    max: Duration,
}

impl Latencies {
    /// Without a duration yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one duration.
    pub fn record(&mut self, took: Duration) {
        let slot = slot_of(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
        self.count += 1;
        self.max = self.max.max(took);
    }

    /// Adds all durations of another, as one per thread.
    pub fn merge(&mut self, other: &Self) {
        self.counts
            .resize(self.counts.len().max(other.counts.len()), 0);
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// How many durations there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest, exactly; zero without any.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// So many of a thousand took at most this long; zero without any. `per_mille(999)` is p99.9.
    pub fn per_mille(&self, per_mille: u64) -> Duration {
        let wanted = (u128::from(self.count) * u128::from(per_mille.min(1000))).div_ceil(1000);
        let mut seen = 0;
        let slot = self.counts.iter().position(|count| {
            seen += u128::from(*count);
            seen >= wanted
        });
        slot.map_or(Duration::ZERO, |slot| {
            Duration::from_nanos(last_of(slot)).min(self.max)
        })
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "count {}", self.count)?;
        for (name, per_mille) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
            writeln!(f, "{name:<5} {:?}", self.per_mille(per_mille))?;
        }
        writeln!(f, "max   {:?}", self.max)
    }
}

/// Below 64 ns each value has its slot; above, each doubling is cut into 64 equal ones.
const SLOTS_PER_DOUBLING: u64 = 64;

fn slot_of(nanoseconds: u64) -> usize {
    let doublings = (nanoseconds / SLOTS_PER_DOUBLING)
        .checked_ilog2()
        .map_or(0, |doubling| u64::from(doubling) + 1);
    let slot = match doublings.checked_sub(1) {
        None => nanoseconds,
        Some(shift) => doublings * SLOTS_PER_DOUBLING + (nanoseconds >> shift) - SLOTS_PER_DOUBLING,
    };
    usize::try_from(slot).expect("at most 59 doublings of 64 slots")
}

/// The greatest duration of a slot, in nanoseconds.
fn last_of(slot: usize) -> u64 {
    let slot = slot as u64;
    let Some(shift) = (slot / SLOTS_PER_DOUBLING).checked_sub(1) else {
        return slot;
    };
    let first = u128::from(slot % SLOTS_PER_DOUBLING + SLOTS_PER_DOUBLING) << shift;
    u64::try_from(first + (1 << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_each_other_and_hold_their_values() {
        let powers = (0..64).map(|power| 1_u64 << power);
        for value in (0..10_000)
            .chain(powers.flat_map(|power| [power - 1, power, power + power / 3]))
            .chain([u64::MAX])
        {
            let (slot, last) = (slot_of(value), last_of(slot_of(value)));
            assert!(
                last >= value && last - value <= value / 64,
                "{value} in slot {slot} up to {last}"
            );
            assert!(last == u64::MAX || slot_of(last + 1) == slot + 1, "{value}");
        }
    }

    #[test]
    fn percentiles_are_close_and_never_below() {
        let mut latencies = Latencies::new();
        for micros in 1..=10_000 {
            latencies.record(Duration::from_micros(micros));
        }
        for per_mille in [1, 500, 990, 999, 1000] {
            let (found, truth) = (
                latencies.per_mille(per_mille),
                Duration::from_micros(per_mille * 10),
            );
            assert!(
                found >= truth && found <= truth * 65 / 64,
                "{per_mille}: {found:?}"
            );
        }
        assert_eq!(latencies.max(), Duration::from_millis(10));
    }

    #[test]
    fn merged_histograms_are_one() {
        let mut all = Latencies::new();
        let (mut short, mut long) = (Latencies::new(), Latencies::new());
        short.record(Duration::from_micros(5));
        long.record(Duration::from_secs(2));
        all.merge(&long);
        all.merge(&short);
        assert_eq!((all.count(), all.max()), (2, Duration::from_secs(2)));
        assert_eq!(all.to_string().lines().count(), 5);
        assert_eq!(Latencies::new().per_mille(999), Duration::ZERO);
    }
}
