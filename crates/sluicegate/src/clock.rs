//! The clock of this process, read once per decision.
//!
//! **Invariant:** this is one of the two places where time enters; the other is `TIME` inside
//! Redis. Everywhere else time is an argument, so every decision can be replayed in a test with
//! [`ManualClock`].
//!
//! [`MonotonicClock`] is on the path of every request, so it must be cheap: it reads the
//! processor's time stamp counter and converts ticks to nanoseconds by one multiplication
//! ([`TickConversion`]). The rate of the counter is known to some millionths only, which would be
//! a second per fortnight, so the conversion is compared with the operating system's clock twice a
//! second and steered back ([`SteeredConversion`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sluicegate_core::{Nanos, Timestamp};

/// Tells the time to stores that keep their own.
///
/// A clock may stand still or go back: no store gives units for that, and none panics. Implement
/// it to run a limiter on the time of a simulation or of a framework:
///
/// ```
/// use sluicegate::{Clock, KeyedLimiter, LocalOptions, Nanos, Quota, Timestamp};
///
/// /// A simulation in which every step is a second.
/// struct StepClock(u64);
///
/// impl Clock for StepClock {
///     fn now(&self) -> Timestamp {
///         Timestamp::from_nanos(0).after(Nanos::from_secs(self.0))
///     }
/// }
///
/// let quota = Quota::per_second(1);
/// let limiter: KeyedLimiter<str, _> =
///     KeyedLimiter::with_clock(quota, LocalOptions::default(), StepClock(7));
/// assert!(limiter.check("ann", 1).is_allowed());
/// assert!(!limiter.check("ann", 1).is_allowed());
/// ```
pub trait Clock: Send + Sync + 'static {
    /// The current instant, counted from the Unix epoch.
    fn now(&self) -> Timestamp;
}

/// The clock for production: starts at the wall clock's time and then neither jumps nor goes back,
/// even when the wall clock is set.
///
/// Reads the processor's time stamp counter where that is reliable, and the operating system's
/// monotonic clock elsewhere. Clones show the same time.
///
/// ```
/// use sluicegate::{Clock, MonotonicClock};
///
/// let clock = MonotonicClock::new();
/// let first = clock.now();
/// assert!(clock.now() >= first);
/// ```
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    counter: quanta::Clock,
    shared: Arc<SteeredConversion>,
}

impl MonotonicClock {
    /// A clock that agrees with the wall clock now.
    pub fn new() -> Self {
        Self::starting_at(SystemTime::now())
    }

    fn starting_at(wall: SystemTime) -> Self {
        let counter = quanta::Clock::new();
        // A wall clock before 1970 is taken as 1970: only windows aligned to the clock notice.
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
        // The second condition is false on a core whose counter lags behind the one that steered.
        if since > self.shared.ticks_between_looks && since < 1 << 63 {
            self.shared.steer(&self.counter);
        }
        Timestamp::from_nanos(conversion.at(ticks))
    }
}

/// A clock for tests and simulations: it stands still until it is set. Clones show the same time.
///
/// ```
/// use sluicegate::{Clock, ManualClock, Nanos, Timestamp};
///
/// let clock = ManualClock::new(Timestamp::from_millis(5_000));
/// clock.advance(Nanos::SECOND);
/// assert_eq!(clock.now(), Timestamp::from_millis(6_000));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    /// Nanoseconds since the epoch.
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

/// The conversion from ticks to time that all clones of a clock use, and steer together.
///
/// The idea: every reader uses the current [`TickConversion`], and one of them, twice a second,
/// measures how far it is off and replaces it by one that is a little faster or slower. The new
/// conversion starts at the very time that the old one shows, so there is no jump at the change,
/// and its rate is positive, so time never goes back. Correcting the shown time at once would be
/// simpler, but then a clock that is ahead would have to go back or stand still.
///
/// The three numbers of a conversion belong together but do not fit into one atomic, so they are
/// guarded by `version` (a sequence lock): readers take no lock, they read again when a writer was
/// there. **Invariant:** `ticks`, `nanos` and `scale` change only while `version` is odd, and only
/// by the thread that made it odd.
#[derive(Debug)]
struct SteeredConversion {
    /// Odd while a thread writes the next three; grows by two with every new conversion.
    version: AtomicU64,
    /// [`TickConversion::ticks`].
    ticks: AtomicU64,
    /// [`TickConversion::nanos`].
    nanos: AtomicU64,
    /// [`TickConversion::scale`].
    scale: AtomicU64,
    /// The counter when the clock was made.
    first_ticks: u64,
    /// The operating system's monotonic clock at that moment.
    first_instant: Instant,
    /// The time shown at that moment, in nanoseconds since the epoch.
    first_nanos: u64,
    /// Ticks of a conversion's age after which the operating system's clock is read again.
    ticks_between_looks: u64,
}

impl SteeredConversion {
    /// The conversion in force, and the counter as it was read while that conversion held.
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
            // Keeps the loads above it: an unchanged version then means that no writer was there.
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == before {
                return (conversion, ticks);
            }
            std::hint::spin_loop();
        }
    }

    /// Compares the conversion with the operating system's clock and replaces it, unless another
    /// thread does so or the comparison cannot be trusted; then the next reader tries again.
    #[cold]
    fn steer(&self, counter: &quanta::Clock) {
        let version = self.version.load(Ordering::Relaxed);
        let (conversion, _) = self.read(counter);
        let Some((ticks, elapsed)) = self.measure(counter) else {
            return;
        };
        let since_first = ticks.wrapping_sub(self.first_ticks);
        let Some(measured) = (u128::from(elapsed) << 40).checked_div(u128::from(since_first))
        else {
            return;
        };
        // A counter that stood still while the machine slept, or began anew, says nothing about
        // the rate: then the two rates differ by more than a thousandth.
        let scale = u128::from(conversion.scale);
        let is_sane = measured.abs_diff(scale) <= scale / 1_000;
        let is_ours = is_sane
            && version.is_multiple_of(2)
            && self
                .version
                .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok();
        if !is_ours {
            return;
        }
        // Keeps the stores below it: a reader that sees one of them sees the odd version too.
        fence(Ordering::Release);
        let true_nanos = self.first_nanos.wrapping_add(elapsed);
        let steered = conversion.steered(ticks, true_nanos, measured as u64);
        self.ticks.store(steered.ticks, Ordering::Relaxed);
        self.nanos.store(steered.nanos, Ordering::Relaxed);
        self.scale.store(steered.scale, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    /// The counter and, at the same moment, the nanoseconds since the clock was made; `None` when
    /// this thread was interrupted between the two readings.
    fn measure(&self, counter: &quanta::Clock) -> Option<(u64, u64)> {
        /// Ticks between the readings of the counter before and after; more is an interruption.
        const TICKS_APART_MAX: u64 = 20_000;
        let (before, elapsed, after) = (counter.raw(), self.first_instant.elapsed(), counter.raw());
        let apart = after.wrapping_sub(before);
        if apart > TICKS_APART_MAX {
            return None;
        }
        let ticks = before.wrapping_add(apart / 2);
        Some((ticks, u64::try_from(elapsed.as_nanos()).ok()?))
    }
}

/// A straight line from ticks of the counter to nanoseconds since the epoch.
///
/// The rate is a fixed-point number, so that a conversion is one multiplication and one shift and
/// gives the same digits on every processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TickConversion {
    /// The counter where the line starts.
    ticks: u64,
    /// The time shown there, in nanoseconds since the epoch.
    nanos: u64,
    /// Nanoseconds in 2^40 ticks, at least 1.
    scale: u64,
}

impl TickConversion {
    /// The time when the counter shows `ticks`, in nanoseconds since the epoch.
    ///
    /// A counter that lags on another core shows the start of the line: an earlier conversion may
    /// already have shown that time, so anything less would be a step back.
    #[inline]
    fn at(&self, ticks: u64) -> u64 {
        let since = ticks.wrapping_sub(self.ticks);
        if since > 1 << 63 {
            return self.nanos;
        }
        self.nanos
            .wrapping_add(((u128::from(since) * u128::from(self.scale)) >> 40) as u64)
    }

    /// The line that continues this one at `ticks` without a jump: at the measured rate, and a
    /// little faster or slower so that within a second it shows the true time.
    fn steered(self, ticks: u64, true_nanos: u64, measured_scale: u64) -> Self {
        /// Nanoseconds that are made up for per second: at most half a thousandth of the rate.
        const CORRECTION_MAX: i128 = 500_000;
        let nanos = self.at(ticks);
        let behind = i128::from(true_nanos.wrapping_sub(nanos) as i64)
            .clamp(-CORRECTION_MAX, CORRECTION_MAX);
        let correction = i128::from(measured_scale) * behind / i128::from(Nanos::SECOND.get());
        let scale = (i128::from(measured_scale) + correction).max(1) as u64;
        Self {
            ticks,
            nanos,
            scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
