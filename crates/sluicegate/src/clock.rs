//! The process's clock: read once per decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sluicegate_core::{Nanos, Timestamp};

/// Tells the time to stores that keep their own.
pub trait Clock: Send + Sync + 'static {
    /// The current instant.
    fn now(&self) -> Timestamp;
}

/// Starts at the wall clock's time and then never goes back or jumps, whatever is done to the wall clock.
///
/// Reads the processor's time stamp counter where that is reliable, and the operating system's monotonic clock elsewhere.
/// How fast the counter counts is known to some millionths only, so it is held against the operating system's clock twice
/// a second, and the difference is made up for little by little.
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    counter: quanta::Clock,
    shared: Arc<SteeredConversion>,
}

/// From the counter to time, as far as is known now. Clones steer together.
#[derive(Debug)]
struct SteeredConversion {
    /// Odd while somebody writes the next three.
    version: AtomicU64,
    ticks: AtomicU64,
    nanos: AtomicU64,
    scale: AtomicU64,
    /// The counter, the operating system's clock and our time at the start.
    first_ticks: u64,
    first_instant: Instant,
    first_nanos: u64,
    /// Ticks after which it is time to look at the operating system's clock.
    ticks_between_looks: u64,
}

/// A straight conversion from ticks to nanoseconds: one multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TickConversion {
    ticks: u64,
    nanos: u64,
    /// Nanoseconds in 2^40 ticks.
    scale: u64,
}

impl TickConversion {
    /// The time when the counter shows `ticks`; a counter that lags on another core shows the beginning.
    #[inline]
    fn at(&self, ticks: u64) -> u64 {
        let since = ticks.wrapping_sub(self.ticks);
        if since > 1 << 63 {
            return self.nanos;
        }
        self.nanos
            .wrapping_add(((u128::from(since) * u128::from(self.scale)) >> 40) as u64)
    }

    /// The conversion from here on, without a jump: at the rate that was measured, and a little faster or slower so that within
    /// a second it shows what it should.
    fn steered(self, ticks: u64, true_nanos: u64, measured_scale: u64) -> Self {
        const MOST: i128 = 500_000;
        let nanos = self.at(ticks);
        let behind = i128::from(true_nanos.wrapping_sub(nanos) as i64).clamp(-MOST, MOST);
        let correction = i128::from(measured_scale) * behind / i128::from(Nanos::SECOND.get());
        let scale = (i128::from(measured_scale) + correction).max(1) as u64;
        Self {
            ticks,
            nanos,
            scale,
        }
    }
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
        let nanos = Nanos::from(since_epoch).get();
        let scale = counter.delta_as_nanos(0, 1 << 40).max(1);
        let ticks_in = |span: Nanos| ((u128::from(span.get()) << 40) / u128::from(scale)) as u64;
        let ticks = counter.raw();
        let shared = SteeredConversion {
            version: AtomicU64::new(0),
            ticks: AtomicU64::new(ticks),
            nanos: AtomicU64::new(nanos),
            scale: AtomicU64::new(scale),
            first_ticks: ticks,
            first_instant: Instant::now(),
            first_nanos: nanos,
            ticks_between_looks: ticks_in(Nanos::from_millis(500)),
        };
        Self {
            counter,
            shared: Arc::new(shared),
        }
    }
}

impl SteeredConversion {
    /// The conversion, and what the counter showed while it held.
    #[inline]
    fn read(&self, counter: &quanta::Clock) -> (TickConversion, u64) {
        loop {
            let before = self.version.load(Ordering::Acquire);
            let ticks = counter.raw();
            let conversion = TickConversion {
                ticks: self.ticks.load(Ordering::Relaxed),
                nanos: self.nanos.load(Ordering::Relaxed),
                scale: self.scale.load(Ordering::Relaxed),
            };
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return (conversion, ticks);
            }
            std::hint::spin_loop();
        }
    }

    /// Looks at the operating system's clock, unless somebody else does.
    #[cold]
    fn steer(&self, counter: &quanta::Clock) {
        /// Between two readings of the counter; longer, and this thread was interrupted.
        const CLOSE: u64 = 20_000;
        let version = self.version.load(Ordering::Relaxed);
        let (conversion, _) = self.read(counter);
        let (before, elapsed, after) = (counter.raw(), self.first_instant.elapsed(), counter.raw());
        let (Ok(elapsed), false) = (
            u64::try_from(elapsed.as_nanos()),
            after.wrapping_sub(before) > CLOSE,
        ) else {
            return;
        };
        let ticks = before.wrapping_add(after.wrapping_sub(before) / 2);
        let since_first = ticks.wrapping_sub(self.first_ticks);
        let Some(measured) = (u128::from(elapsed) << 40).checked_div(u128::from(since_first))
        else {
            return;
        };
        // A counter that stood still while the machine slept, or began anew, says nothing about the rate.
        let is_sane =
            measured.abs_diff(u128::from(conversion.scale)) <= u128::from(conversion.scale) / 1_000;
        let is_ours = is_sane
            && version.is_multiple_of(2)
            && self
                .version
                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !is_ours {
            return;
        }
        fence(Ordering::Release);
        let steered = conversion.steered(
            ticks,
            self.first_nanos.wrapping_add(elapsed),
            measured as u64,
        );
        self.ticks.store(steered.ticks, Ordering::Relaxed);
        self.nanos.store(steered.nanos, Ordering::Relaxed);
        self.scale.store(steered.scale, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
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
        let (conversion, ticks) = self.shared.read(&self.counter);
        let since = ticks.wrapping_sub(conversion.ticks);
        if since > self.shared.ticks_between_looks && since < 1 << 63 {
            self.shared.steer(&self.counter);
        }
        Timestamp::from_nanos(conversion.at(ticks))
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

    #[test]
    fn a_counter_whose_rate_is_known_badly_is_steered_to_the_right_time() {
        // Ticks of a third of a nanosecond, taken for 300 millionths too fast or slow at first.
        const TRUE_SCALE: u64 = (1 << 40) / 3;
        for wrong in [
            TRUE_SCALE + TRUE_SCALE / 10_000 * 3,
            TRUE_SCALE - TRUE_SCALE / 10_000 * 3,
        ] {
            let mut conversion = TickConversion {
                ticks: 0,
                nanos: 0,
                scale: wrong,
            };
            let (mut last, mut worst) = (0, 0);
            for look in 1..200_u64 {
                let ticks = look * 1_500_000_000;
                let truth = ((u128::from(ticks) * u128::from(TRUE_SCALE)) >> 40) as u64;
                assert!(conversion.at(ticks) >= last, "never back");
                last = conversion.at(ticks);
                if look > 20 {
                    worst = worst.max(last.abs_diff(truth));
                }
                conversion = conversion.steered(ticks, truth, TRUE_SCALE);
                assert_eq!(conversion.at(ticks), last, "no jump");
                assert_eq!(
                    conversion.at(ticks - 5),
                    last,
                    "a core that lags does not go back"
                );
            }
            assert!(worst < 1_000, "{worst} ns off after ten seconds");
        }
    }
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
        let (ours, theirs) = (
            clock.now().since(start).get() as f64,
            system.elapsed().as_nanos() as f64,
        );
        assert!(
            (ours / theirs - 1.0).abs() < 0.01,
            "{ours} ns by our clock, {theirs} ns by the system's"
        );
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
