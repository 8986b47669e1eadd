//! The process's clock: read once per decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tollgate_core::{Nanos, Timestamp};

/// Tells the time to stores that keep their own.
pub trait Clock: Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// Starts at the wall clock's time and then never goes back or jumps, whatever is done to the wall clock.
///
/// Reads the processor's time stamp counter where that is reliable, and the operating system's monotonic clock elsewhere.
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    counter: quanta::Clock,
    /// The counter's reading when the wall clock showed `started_at`, in nanoseconds since the epoch; both may have
    /// wrapped around below zero.
    started: u64,
    started_at: u64,
    /// Nanoseconds in 2^40 ticks of the counter: one multiplication instead of quanta's general scaling.
    nanos_per_2_40_ticks: u64,
}

impl MonotonicClock {
    /// A clock that agrees with the wall clock now.
    pub fn new() -> Self {
        Self::starting_at(SystemTime::now())
    }

    fn starting_at(wall: SystemTime) -> Self {
        let counter = quanta::Clock::new();
        // A wall clock before 1970 is taken as 1970: only windows that are aligned to the clock would notice.
        let since_epoch = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let started_at = Timestamp::from_nanos(Nanos::from(since_epoch).get());
        // As if started a second ago, so that a counter that lags on another core still reads as later than the start.
        let nanos_per_2_40_ticks = counter.delta_as_nanos(0, 1 << 40).max(1);
        let ticks_per_second = (u128::from(Nanos::SECOND.get()) << 40) / u128::from(nanos_per_2_40_ticks);
        let started = counter.raw().wrapping_sub(ticks_per_second as u64);
        Self {
            started,
            counter,
            started_at: started_at.as_nanos().wrapping_sub(Nanos::SECOND.get()),
            nanos_per_2_40_ticks,
        }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let ticks = self.counter.raw().wrapping_sub(self.started);
        let nanos = (u128::from(ticks) * u128::from(self.nanos_per_2_40_ticks)) >> 40;
        Timestamp::from_nanos(self.started_at.wrapping_add(nanos as u64))
    }
}

/// A clock that stands still until it is set: for tests and simulations. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that shows `now`.
    pub fn new(now: Timestamp) -> Self {
        let clock = Self::default();
        clock.set(now);
        clock
    }

    /// Shows `now`, which may be earlier than before.
    pub fn set(&self, now: Timestamp) {
        self.nanos.store(now.as_nanos(), Ordering::SeqCst);
    }

    /// Moves on by `span`.
    pub fn advance(&self, span: Nanos) {
        self.set(self.now().after(span));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_wall_clock_before_1970_is_taken_as_1970() {
        let before = UNIX_EPOCH - Duration::from_secs(86_400);
        let clock = MonotonicClock::starting_at(before);
        assert!(clock.now() < Timestamp::from_millis(60_000));
    }

    #[test]
    fn the_monotonic_clock_keeps_pace_with_the_system() {
        let (clock, system) = (MonotonicClock::new(), std::time::Instant::now());
        let start = clock.now();
        while system.elapsed() < Duration::from_millis(50) {}
        let (ours, theirs) = (clock.now().since(start).get() as f64, system.elapsed().as_nanos() as f64);
        assert!((ours / theirs - 1.0).abs() < 0.01, "{ours} ns by our clock, {theirs} ns by the system's");
    }

    #[test]
    fn the_monotonic_clock_never_goes_back() {
        let clock = MonotonicClock::new();
        let mut last = clock.now();
        for _ in 0..100_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }
}
