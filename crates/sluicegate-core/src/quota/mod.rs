//! The numbers of a limit: units, period and burst, for one of three algorithms.
//!
//! Every constructor checks, so a [`Quota`] that exists can be enforced exactly: its products fit
//! the integers of Rust and the doubles of Lua, and rounding slows a rate by at most one part in a
//! thousand and never speeds it up.

mod drip_bucket;
mod error;
mod pace;
mod scale;
mod sliding_window;
mod token_bucket;

pub use drip_bucket::DripBucket;
pub use error::QuotaError;
pub use pace::{Pace, ParsePaceError};
pub(crate) use scale::Ratio;
pub use scale::ScaledPart;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

use crate::time::Nanos;
use drip_bucket::Phase;
use error::at_least;
use token_bucket::{RATE_ERROR_DEN, emission_interval};

/// The units that a counter may spend: the numbers of one of three algorithms, checked when they
/// were put together.
///
/// ```
/// use sluicegate_core::{Nanos, Quota};
///
/// // Ten requests every second, twenty at once.
/// let quota = Quota::from(Quota::per_second(10).burst(20));
/// assert_eq!(quota, Quota::new(10, Nanos::SECOND, 20)?);
/// // A spent quota is whole again after two seconds.
/// assert_eq!((quota.limit(), quota.window()), (20, Nanos::from_secs(2)));
///
/// // Two of ten come back every minute, both at the same instant.
/// let leaky = Quota::leaky_bucket(10, Nanos::MINUTE, 2)?;
/// assert_eq!((leaky.limit(), leaky.window()), (10, Nanos::from_secs(300)));
/// # Ok::<(), sluicegate_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quota {
    /// Refills continuously; GCRA is the same arithmetic under another name.
    TokenBucket(TokenBucket),
    /// Refills in whole drips; also the leaky bucket, the fixed window, and limits slower than 52
    /// days per burst.
    Drip(DripBucket),
    /// Counts per window of the clock; the last window counts in part, by how much of it is still
    /// in view.
    SlidingWindow(SlidingWindow),
}

impl Quota {
    /// `count` units every `period`, at most `burst` at once.
    ///
    /// Quotas that need more than 52 days to refill run on drips of one unit, which count in
    /// milliseconds.
    ///
    /// ```
    /// use sluicegate_core::{Nanos, Quota};
    ///
    /// let quota = Quota::new(10, Nanos::SECOND, 5)?; // ten every second, five at once
    /// assert_eq!(quota.limit(), 5);
    /// assert!(Quota::new(0, Nanos::SECOND, 5).is_err());
    /// # Ok::<(), sluicegate_core::QuotaError>(())
    /// ```
    pub fn new(count: u64, period: Nanos, burst: u64) -> Result<Self, QuotaError> {
        at_least("rate", count, 1)?;
        at_least("period", period.get(), 1)?;
        at_least("burst", burst, 1)?;
        let interval = emission_interval(count, period.get())?;
        match TokenBucket::with_interval(Nanos::new(interval), burst) {
            Ok(bucket) => Ok(Self::TokenBucket(bucket)),
            Err(_) => slow_quota(count, period, burst),
        }
    }

    /// `count` units every second, as many at once unless [`TokenBucket::burst`] says otherwise.
    ///
    /// # Panics
    /// When `count` is 0 or beyond what can be represented exactly; at compile time where the call
    /// is `const`. For numbers from outside use [`Quota::new`].
    pub const fn per_second(count: u32) -> TokenBucket {
        TokenBucket::literal(count, Nanos::SECOND)
    }

    /// `count` units every minute; panics like [`Quota::per_second`].
    pub const fn per_minute(count: u32) -> TokenBucket {
        TokenBucket::literal(count, Nanos::MINUTE)
    }

    /// `count` units every hour; panics like [`Quota::per_second`].
    pub const fn per_hour(count: u32) -> TokenBucket {
        TokenBucket::literal(count, Nanos::HOUR)
    }

    /// `count` units every day; panics like [`Quota::per_second`].
    pub const fn per_day(count: u32) -> TokenBucket {
        TokenBucket::literal(count, Nanos::DAY)
    }

    /// A leaky bucket as a meter: `drip_size` units drain every `drip_rate`, at most `size` fit.
    pub fn leaky_bucket(size: u64, drip_rate: Nanos, drip_size: u64) -> Result<Self, QuotaError> {
        DripBucket::new(size, drip_rate, drip_size, Phase::FirstRequest).map(Self::Drip)
    }

    /// `limit` units in each window of the clock. Twice that may pass within one window's length,
    /// around the end of a window; a sliding window or a token bucket has no such edge.
    pub fn fixed_window(limit: u64, window: Nanos) -> Result<Self, QuotaError> {
        DripBucket::new(limit, window, limit, Phase::Clock).map(Self::Drip)
    }

    /// `limit` units in any window. The window before is taken as evenly spread, so the bound is
    /// exact only for callers who are.
    pub fn sliding_window(limit: u64, window: Nanos) -> Result<Self, QuotaError> {
        SlidingWindow::new(limit, window).map(Self::SlidingWindow)
    }

    /// The most units one charge can take: burst, size or window limit.
    pub const fn limit(&self) -> u64 {
        match self {
            Self::TokenBucket(bucket) => bucket.burst,
            Self::Drip(bucket) => bucket.size,
            Self::SlidingWindow(window) => window.limit,
        }
    }

    /// The time in which a spent counter is full again; the window's length where there is one.
    pub const fn window(&self) -> Nanos {
        match self {
            Self::TokenBucket(bucket) => Nanos::new(bucket.tolerance),
            Self::Drip(bucket) => Nanos::from_millis(bucket.drips_when_full() * bucket.interval_ms),
            Self::SlidingWindow(window) => Nanos::from_millis(window.window_ms),
        }
    }

    /// The same quota with another size (burst, size or window limit).
    pub fn resized(self, size: u64) -> Result<Self, QuotaError> {
        match self {
            Self::TokenBucket(bucket) => {
                at_least("burst", size, 1)?;
                TokenBucket::with_interval(Nanos::new(bucket.interval), size).map(Self::TokenBucket)
            }
            Self::Drip(bucket) => bucket.resized(size).map(Self::Drip),
            Self::SlidingWindow(window) => {
                Self::sliding_window(size, Nanos::from_millis(window.window_ms))
            }
        }
    }
}

impl From<TokenBucket> for Quota {
    fn from(bucket: TokenBucket) -> Self {
        Self::TokenBucket(bucket)
    }
}

/// Drips of one unit are a token bucket that counts in milliseconds: for quotas that take more than
/// 52 days to refill, whose debt in nanoseconds would not fit a Lua number.
fn slow_quota(count: u64, period: Nanos, burst: u64) -> Result<Quota, QuotaError> {
    let interval_ns = u128::from(period.get()).div_ceil(u128::from(count));
    let interval_ms = interval_ns.div_ceil(u128::from(Nanos::MILLISECOND.get()));
    let rounding = interval_ms * u128::from(Nanos::MILLISECOND.get()) - interval_ns;
    if rounding > interval_ns / u128::from(RATE_ERROR_DEN) {
        return Err(QuotaError::TooSlow {
            max: Nanos::new(TokenBucket::TOLERANCE_MAX),
        });
    }
    let interval = Nanos::from_millis(u64::try_from(interval_ms).unwrap_or(u64::MAX));
    DripBucket::new(burst, interval, 1, Phase::FirstRequest).map(Quota::Drip)
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Nanos = Nanos::from_secs(365 * 86_400);

    #[test]
    fn rate_and_burst_equal_average_period_and_burst() {
        let by_rate = Quota::from(Quota::per_second(100).burst(50));
        let by_average = Quota::new(100, Nanos::SECOND, 50).unwrap();
        assert_eq!(by_rate, by_average);
    }

    #[test]
    fn zero_is_refused_by_name() {
        let messages = [
            Quota::new(0, Nanos::SECOND, 1),
            Quota::new(1, Nanos::ZERO, 1),
            Quota::new(1, Nanos::SECOND, 0),
            Quota::leaky_bucket(0, Nanos::SECOND, 1),
            Quota::leaky_bucket(1, Nanos::ZERO, 1),
            Quota::leaky_bucket(1, Nanos::SECOND, 0),
            Quota::fixed_window(0, Nanos::SECOND),
            Quota::sliding_window(0, Nanos::SECOND),
        ]
        .map(|refused| refused.unwrap_err().to_string());
        assert_eq!(messages[0], "rate: must be at least 1 (got 0)");
        assert_eq!(messages[2], "burst: must be at least 1 (got 0)");
        assert!(
            messages
                .iter()
                .all(|message| message.ends_with("must be at least 1 (got 0)")),
            "{messages:?}"
        );
    }

    #[test]
    fn rates_from_one_a_year_to_a_million_a_second_keep_their_long_run_rate() {
        for (count, period) in [
            (1, YEAR),
            (3, YEAR),
            (1_000_000, YEAR),
            (7, Nanos::SECOND),
            (999_983, Nanos::SECOND),
        ] {
            let interval = match Quota::new(count, period, 1).unwrap() {
                Quota::TokenBucket(bucket) => bucket.interval().get(),
                Quota::Drip(bucket) => bucket.interval().get(),
                Quota::SlidingWindow(_) => panic!("a rate is never a window"),
            };
            let spent = u128::from(interval) * u128::from(count);
            let wanted = u128::from(period.get());
            assert!(spent >= wanted, "{count} per {period} admits too much");
            assert!(
                spent - wanted <= wanted / 1_000,
                "{count} per {period} admits too little"
            );
        }
    }

    #[test]
    fn slow_quotas_run_on_drips_of_one() {
        let Quota::Drip(bucket) = Quota::new(1, YEAR, 1).unwrap() else {
            panic!("expected drips")
        };
        assert_eq!((bucket.interval(), bucket.drip()), (YEAR, 1));
    }

    #[test]
    fn what_cannot_be_represented_is_refused() {
        assert!(matches!(
            Quota::new(700_000_000, Nanos::SECOND, 1),
            Err(QuotaError::TooFast { .. })
        ));
        assert!(matches!(
            Quota::new(u64::MAX, Nanos::new(1), 1),
            Err(QuotaError::TooFast { .. })
        ));
        assert!(matches!(
            Quota::new(1, YEAR, 1_000),
            Err(QuotaError::TooSlow { .. })
        ));
        assert!(matches!(
            Quota::fixed_window(1_000_001, Nanos::DAY),
            Err(QuotaError::TooLarge { .. })
        ));
        assert!(matches!(
            Quota::sliding_window(u64::MAX, Nanos::DAY),
            Err(QuotaError::TooLarge { .. })
        ));
        assert!(Quota::leaky_bucket(1 << 51, Nanos::MILLISECOND, 1_000_000).is_ok());
        let beyond_lua = Quota::leaky_bucket((1 << 51) + 1, Nanos::MILLISECOND, 1_000_000);
        assert!(matches!(
            beyond_lua,
            Err(QuotaError::TooLarge { what: "size", .. })
        ));
        assert!(matches!(
            Quota::leaky_bucket(1, Nanos::new(1_500_000), 1),
            Err(QuotaError::NotMillis { .. })
        ));
        assert_eq!(
            Quota::new(1_000_000_000, Nanos::SECOND, 1).unwrap().limit(),
            1
        );
    }

    #[test]
    #[should_panic(expected = "burst: must be at least 1 (got 0)")]
    fn a_literal_burst_of_zero_panics_where_it_is_written() {
        let _ = Quota::per_second(1).burst(0);
    }

    #[test]
    fn a_fixed_window_keeps_its_shape_when_resized() {
        let halved = Quota::fixed_window(100, Nanos::MINUTE)
            .unwrap()
            .resized(50)
            .unwrap();
        assert_eq!(halved, Quota::fixed_window(50, Nanos::MINUTE).unwrap());
    }
}
