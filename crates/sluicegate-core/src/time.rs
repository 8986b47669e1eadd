//! Instants and spans in whole nanoseconds.
//!
//! Nothing here reads a clock: time is an argument. All arithmetic saturates, so no clock value can
//! make a decision panic or wrap around.

use std::fmt;
use std::time::Duration;

/// A span of time in nanoseconds; at most 584 years.
///
/// ```
/// use sluicegate_core::Nanos;
///
/// let wait = Nanos::from_millis(1_500);
/// assert_eq!(wait.to_string(), "1500ms");
/// // Rounded up: a caller who waits two seconds is never early.
/// assert_eq!(wait.as_secs_ceil(), 2);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(u64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span there is.
    pub const MAX: Self = Self(u64::MAX);
    /// One millisecond.
    pub const MILLISECOND: Self = Self(1_000_000);
    /// One second.
    pub const SECOND: Self = Self(1_000_000_000);
    /// Sixty seconds.
    pub const MINUTE: Self = Self(60 * Self::SECOND.0);
    /// Sixty minutes.
    pub const HOUR: Self = Self(60 * Self::MINUTE.0);
    /// Twenty-four hours.
    pub const DAY: Self = Self(24 * Self::HOUR.0);

    /// A span of this many nanoseconds.
    pub const fn new(nanos: u64) -> Self {
        Self(nanos)
    }

    /// A span of this many milliseconds, saturating at [`Nanos::MAX`].
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(Self::MILLISECOND.0))
    }

    /// A span of this many seconds, saturating at [`Nanos::MAX`].
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(Self::SECOND.0))
    }

    /// The nanoseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Microseconds, rounded up: waiting that long is never too short.
    pub const fn as_micros_ceil(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Seconds, rounded up: waiting that long is never too short.
    pub const fn as_secs_ceil(self) -> u64 {
        self.0.div_ceil(Self::SECOND.0)
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Duration::from_nanos(span.0)
    }
}

impl From<Duration> for Nanos {
    /// Saturates at [`Nanos::MAX`].
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Writes the span in the largest unit that divides it: `1500ms`, `2m`, `1ns`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 6] = [
            (Nanos::DAY.0, "d"),
            (Nanos::HOUR.0, "h"),
            (Nanos::MINUTE.0, "m"),
            (Nanos::SECOND.0, "s"),
            (Nanos::MILLISECOND.0, "ms"),
            (1_000, "us"),
        ];
        if self.0 == 0 {
            return f.write_str("0s");
        }
        match UNITS.iter().find(|(size, _)| self.0.is_multiple_of(*size)) {
            Some((size, unit)) => write!(f, "{}{unit}", self.0 / size),
            None => write!(f, "{}ns", self.0),
        }
    }
}

/// An instant: nanoseconds since the Unix epoch. Times before 1970 are taken as 1970.
///
/// ```
/// use sluicegate_core::{Nanos, Timestamp};
///
/// let start = Timestamp::from_millis(1_800_000_000_000);
/// let later = start.after(Nanos::SECOND);
/// assert_eq!(later.since(start), Nanos::SECOND);
/// // A clock that went back has made no progress.
/// assert_eq!(start.since(later), Nanos::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The instant this many nanoseconds after the epoch.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant this many milliseconds after the epoch, saturating in the year 2554.
    pub const fn from_millis(millis: u64) -> Self {
        Self(Nanos::from_millis(millis).0)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the epoch, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / Nanos::MILLISECOND.0
    }

    /// The span from `earlier` to this instant; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }

    /// The instant `span` later, saturating in the year 2554.
    pub const fn after(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The instant `span` earlier, saturating at the epoch.
    pub const fn before(self, span: Nanos) -> Self {
        Self(self.0.saturating_sub(span.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_never_lets_a_caller_come_back_early() {
        assert_eq!(Nanos::new(1).as_micros_ceil(), 1);
        assert_eq!(Nanos::new(1_000).as_micros_ceil(), 1);
        assert_eq!(Nanos::new(1_001).as_micros_ceil(), 2);
        assert_eq!(Nanos::new(1).as_secs_ceil(), 1);
        assert_eq!(Nanos::SECOND.as_secs_ceil(), 1);
        assert_eq!(Nanos::ZERO.as_secs_ceil(), 0);
    }

    #[test]
    fn spans_are_written_in_their_largest_whole_unit() {
        let written = [
            0,
            1,
            1_000,
            1_500_000,
            1_500_000_000,
            60_000_000_000,
            86_400_000_000_000,
        ]
        .map(|nanos| Nanos::new(nanos).to_string());
        assert_eq!(
            written,
            ["0s", "1ns", "1us", "1500us", "1500ms", "1m", "1d"]
        );
    }

    #[test]
    fn instants_saturate_at_both_ends() {
        let start = Timestamp::from_nanos(5);
        assert_eq!(start.before(Nanos::MAX), Timestamp::from_nanos(0));
        assert_eq!(start.after(Nanos::MAX), Timestamp::from_nanos(u64::MAX));
        assert_eq!(start.since(Timestamp::from_nanos(9)), Nanos::ZERO);
    }
}
