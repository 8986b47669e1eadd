//! The numbers of a limit. Every constructor checks, so a [`Quota`] that exists can be enforced exactly.

use std::error::Error;
use std::fmt;

use crate::time::Nanos;

/// What a counter may spend: one of three machines, each with numbers that were checked when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Quota {
    /// Refills continuously; GCRA is the same arithmetic under another name.
    TokenBucket(TokenBucket),
    /// Refills in whole drips; also the leaky bucket, the fixed window, and limits slower than 52 days per burst.
    Drip(DripBucket),
    /// The last window counts in part, by how much of it is still in view.
    SlidingWindow(SlidingWindow),
}

impl Quota {
    /// `count` units every `period`, at most `burst` at once.
    ///
    /// Quotas that need more than 52 days to refill run on the drip machine, which counts in milliseconds.
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
    /// When `count` is 0 or beyond what can be represented exactly; at compile time where the call is `const`.
    /// For numbers from outside use [`Quota::new`].
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

    /// `limit` units in each window of the clock: twice that may pass within one window's length, across an edge.
    pub fn fixed_window(limit: u64, window: Nanos) -> Result<Self, QuotaError> {
        DripBucket::new(limit, window, limit, Phase::Clock).map(Self::Drip)
    }

    /// `limit` units in any window, taking the window before as evenly spread.
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

    /// The time in which an empty counter is full again; the window of the two window machines.
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
            Self::Drip(bucket) => {
                let (drip, phase) = match bucket.aligned {
                    true => (size, Phase::Clock),
                    false => (bucket.drip, Phase::FirstRequest),
                };
                DripBucket::new(size, Nanos::from_millis(bucket.interval_ms), drip, phase)
                    .map(Self::Drip)
            }
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

/// A bucket of `burst` units that gains one unit every `interval`; one instant is its whole state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    pub(crate) interval: u64,
    pub(crate) burst: u64,
    /// `burst * interval`: the debt of an empty bucket.
    pub(crate) tolerance: u64,
    /// `2^64 / interval`, rounded down and at most 2^64 − 1: divides without a division.
    reciprocal: u64,
}

impl TokenBucket {
    /// Debts up to here stay exact in every store (Lua numbers hold 2^53).
    const TOLERANCE_MAX: u64 = 1 << 52;

    /// One unit every `interval`, at most `burst` at once; a burst of 0 blocks everything.
    pub fn with_interval(interval: Nanos, burst: u64) -> Result<Self, QuotaError> {
        at_least("interval", interval.get(), 1)?;
        match interval.get().checked_mul(burst) {
            Some(tolerance) if tolerance <= Self::TOLERANCE_MAX => {
                let interval = interval.get();
                Ok(Self {
                    interval,
                    burst,
                    tolerance,
                    reciprocal: reciprocal(interval),
                })
            }
            _ => Err(QuotaError::TooSlow {
                max: Nanos::new(Self::TOLERANCE_MAX),
            }),
        }
    }

    /// The same rate with another burst.
    ///
    /// # Panics
    /// When `burst` is 0 or needs more than 52 days to refill. For numbers from outside use [`Quota::new`].
    #[must_use]
    pub const fn burst(self, burst: u32) -> Self {
        assert!(burst > 0, "burst: must be at least 1 (got 0)");
        let Some(tolerance) = self.interval.checked_mul(burst as u64) else {
            panic!("burst: takes more than 52 days to refill");
        };
        assert!(
            tolerance <= Self::TOLERANCE_MAX,
            "burst: takes more than 52 days to refill"
        );
        Self {
            burst: burst as u64,
            tolerance,
            ..self
        }
    }

    const fn literal(count: u32, period: Nanos) -> Self {
        assert!(count > 0, "rate: must be at least 1 (got 0)");
        let interval = period.get().div_ceil(count as u64);
        assert!(
            interval * count as u64 - period.get() <= period.get() / RATE_ERROR_DEN,
            "rate: too fast to be represented exactly"
        );
        Self {
            interval,
            burst: 0,
            tolerance: 0,
            reciprocal: reciprocal(interval),
        }
        .burst(count)
    }

    /// The time one unit takes to come back.
    pub const fn interval(&self) -> Nanos {
        Nanos::new(self.interval)
    }

    /// The time in which an empty bucket fills: a charge fits while the debt with it is no more than this.
    pub const fn tolerance(&self) -> Nanos {
        Nanos::new(self.tolerance)
    }

    /// Whole units that come back within `span`, which is at most the tolerance: `span / interval`, rounded down.
    #[inline]
    pub(crate) const fn units_in(&self, span: u64) -> u64 {
        // The reciprocal is short of the true one by less than 2^-64, and the span is below 2^53: the product is short
        // of the quotient by less than 2^-11, so its whole part is the quotient's or one less.
        let units = ((span as u128 * self.reciprocal as u128) >> 64) as u64;
        if span - units * self.interval >= self.interval {
            units + 1
        } else {
            units
        }
    }
}

const fn reciprocal(interval: u64) -> u64 {
    if interval == 1 {
        u64::MAX
    } else {
        ((1_u128 << 64) / interval as u128) as u64
    }
}

/// When the first drip of an empty bucket falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// One interval after the request that found it empty.
    FirstRequest,
    /// On multiples of the interval since the epoch.
    Clock,
}

/// A bucket of `size` units that loses `drip` of its level every `interval`, in whole drips only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DripBucket {
    pub(crate) interval_ms: u64,
    pub(crate) drip: u64,
    pub(crate) size: u64,
    pub(crate) aligned: bool,
}

impl DripBucket {
    /// The slack of a drip is packed into six decimal digits.
    const DRIP_MAX: u64 = 1_000_000;
    /// A full bucket drains within 139 years, so its end fits a signed 64-bit count of nanoseconds.
    const DRAIN_MAX_MS: u64 = 1 << 42;
    /// Level and cost together stay exact in every store (Lua numbers hold 2^53).
    const SIZE_MAX: u64 = 1 << 51;

    fn new(size: u64, interval: Nanos, drip: u64, phase: Phase) -> Result<Self, QuotaError> {
        let aligned = phase == Phase::Clock;
        at_least("size", size, 1)?;
        at_least("drip_size", drip, 1)?;
        at_most("size", size, Self::SIZE_MAX)?;
        at_most(
            if aligned { "limit" } else { "drip_size" },
            drip,
            Self::DRIP_MAX,
        )?;
        let interval_ms = whole_millis(if aligned { "window" } else { "drip_rate" }, interval)?;
        match size.div_ceil(drip).checked_mul(interval_ms) {
            Some(drain_ms) if drain_ms <= Self::DRAIN_MAX_MS => Ok(Self {
                interval_ms,
                drip,
                size,
                aligned,
            }),
            _ => Err(QuotaError::TooSlow {
                max: Nanos::from_millis(Self::DRAIN_MAX_MS),
            }),
        }
    }

    pub(crate) const fn drips_when_full(&self) -> u64 {
        self.size.div_ceil(self.drip)
    }

    /// The time between two drips.
    pub const fn interval(&self) -> Nanos {
        Nanos::from_millis(self.interval_ms)
    }

    /// Units that drain at once.
    pub const fn drip(&self) -> u64 {
        self.drip
    }

    /// Whether drips fall on the clock: a fixed window.
    pub const fn is_fixed_window(&self) -> bool {
        self.aligned
    }
}

/// At most `limit` units in any window, the window before weighed by how much of it is still in view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    pub(crate) window_ms: u64,
    pub(crate) limit: u64,
}

impl SlidingWindow {
    /// `limit * window` stays exact in every store (Lua numbers hold 2^53).
    const PRODUCT_MAX: u64 = (1 << 53) - 1;

    fn new(limit: u64, window: Nanos) -> Result<Self, QuotaError> {
        at_least("limit", limit, 1)?;
        let window_ms = whole_millis("window", window)?;
        at_most("limit", limit, Self::PRODUCT_MAX / window_ms)?;
        Ok(Self { window_ms, limit })
    }

    /// The length of a window.
    pub const fn window(&self) -> Nanos {
        Nanos::from_millis(self.window_ms)
    }
}

/// Numbers that cannot be enforced exactly, with the bound they break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaError {
    /// A number below its least value.
    TooSmall {
        /// Which number.
        what: &'static str,
        /// What was given.
        got: u64,
        /// The least that is accepted.
        min: u64,
    },
    /// A number above its greatest value.
    TooLarge {
        /// Which number.
        what: &'static str,
        /// What was given.
        got: u64,
        /// The most that is accepted.
        max: u64,
    },
    /// Whole milliseconds were expected.
    NotMillis {
        /// Which number.
        what: &'static str,
        /// What was given.
        got: Nanos,
    },
    /// The rate would be off by more than one in a thousand.
    TooFast {
        /// Units per period that were asked for.
        count: u64,
        /// The period.
        period: Nanos,
    },
    /// An empty counter would take too long to refill.
    TooSlow {
        /// The longest time to refill.
        max: Nanos,
    },
}

impl fmt::Display for QuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { what, got, min } => {
                write!(f, "{what}: must be at least {min} (got {got})")
            }
            Self::TooLarge { what, got, max } => {
                write!(f, "{what}: must be at most {max} (got {got})")
            }
            Self::NotMillis { what, got } => {
                write!(f, "{what}: must be whole milliseconds (got {got})")
            }
            Self::TooFast { count, period } => write!(
                f,
                "rate: {count} per {period} cannot be kept exactly (at most 1000000 per second, or a divisor of 1000000000)"
            ),
            Self::TooSlow { max } => {
                write!(
                    f,
                    "burst: takes more than {} days to refill; lower it or raise the rate",
                    max.get() / Nanos::DAY.get()
                )
            }
        }
    }
}

impl Error for QuotaError {}

/// Rounding an interval up may slow a rate by at most one part in so many.
const RATE_ERROR_DEN: u64 = 1_000;

/// Time per unit, rounded up so that the quota is never exceeded.
fn emission_interval(count: u64, period: u64) -> Result<u64, QuotaError> {
    let interval = period.div_ceil(count);
    let rounding = u128::from(interval) * u128::from(count) - u128::from(period);
    if rounding > u128::from(period / RATE_ERROR_DEN) {
        return Err(QuotaError::TooFast {
            count,
            period: Nanos::new(period),
        });
    }
    Ok(interval)
}

/// One unit per drip obeys the same law in milliseconds, for buckets that take more than 52 days to refill.
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

fn at_least(what: &'static str, got: u64, min: u64) -> Result<(), QuotaError> {
    if got < min {
        Err(QuotaError::TooSmall { what, got, min })
    } else {
        Ok(())
    }
}

fn at_most(what: &'static str, got: u64, max: u64) -> Result<(), QuotaError> {
    if got > max {
        Err(QuotaError::TooLarge { what, got, max })
    } else {
        Ok(())
    }
}

fn whole_millis(what: &'static str, span: Nanos) -> Result<u64, QuotaError> {
    at_least(what, span.get(), 1)?;
    if !span.get().is_multiple_of(Nanos::MILLISECOND.get()) {
        return Err(QuotaError::NotMillis { what, got: span });
    }
    Ok(span.get() / Nanos::MILLISECOND.get())
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
    fn dividing_by_the_reciprocal_is_exact() {
        let intervals = [
            1,
            2,
            3,
            7,
            10,
            999,
            1_000,
            142_857_143,
            333_333_334,
            1 << 31,
            (1 << 32) - 1,
            (1 << 52) - 1,
            1 << 52,
        ];
        for interval in intervals {
            let bucket =
                TokenBucket::with_interval(Nanos::new(interval), (1 << 52) / interval).unwrap();
            let edges = (0..64).flat_map(|bit| {
                [
                    (1_u64 << bit) - 1,
                    1 << bit,
                    (1_u64 << bit).saturating_add(1),
                ]
            });
            let multiples =
                (0..100).flat_map(|units| [(units * interval).saturating_sub(1), units * interval]);
            for span in edges
                .chain(multiples)
                .filter(|span| *span <= bucket.tolerance)
            {
                assert_eq!(
                    bucket.units_in(span),
                    span / interval,
                    "{span} / {interval}"
                );
            }
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
