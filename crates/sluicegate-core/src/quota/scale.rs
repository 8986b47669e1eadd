//! Quotas scaled by an exact ratio: smaller or larger, slower or faster.
//!
//! The idea: a factor divides. The size of a quota is divided by it, and so is its rate, which
//! means that the time for one unit is multiplied. Sizes and times are rounded up, so a scaled
//! rate is never faster than the quotient.

use super::drip_bucket::{DripBucket, Phase};
use super::{Quota, TokenBucket};
use crate::time::Nanos;

/// The numbers of a quota that a factor scales.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScaledPart {
    /// The units at once: burst, size or window limit.
    #[default]
    Size,
    /// The units per time.
    Rate,
    /// The units at once and the units per time.
    Both,
}

impl ScaledPart {
    fn has_size(self) -> bool {
        self != Self::Rate
    }

    fn has_rate(self) -> bool {
        self != Self::Size
    }
}

/// A positive fraction. Its terms are bounded so that products with the numbers of a quota fit 128
/// bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    /// At least 1.
    pub(crate) numerator: u64,
    /// A power of ten, at most `DENOMINATOR_MAX`.
    pub(crate) denominator: u128,
}

impl Ratio {
    /// 10^22 is less than 2^74; sizes and intervals stay below 2^54.
    pub(crate) const DENOMINATOR_MAX: u128 = 10_u128.pow(22);

    /// `number / self`, rounded up; `u64::MAX` when it is larger.
    fn divide_ceil(self, number: u64) -> u64 {
        let product = u128::from(number) * self.denominator;
        saturated(product.div_ceil(u128::from(self.numerator)))
    }

    /// `number * self`, rounded up; `u64::MAX` when it is larger.
    fn multiply_ceil(self, number: u64) -> u64 {
        let product = u128::from(number) * u128::from(self.numerator);
        saturated(product.div_ceil(self.denominator))
    }

    /// Returns true for a fraction above 1, which makes quotas tighter.
    fn is_above_one(self) -> bool {
        u128::from(self.numerator) > self.denominator
    }
}

impl Quota {
    /// The quota with a part of its numbers divided by `ratio`. A window has one number for size
    /// and rate, so it is scaled once for any part.
    ///
    /// A ratio below 1 that asks for more than can be enforced exactly keeps the quota as it is, so
    /// that a mistake never makes a limit looser. Where a ratio above 1 asks for a slower rate than
    /// can be kept, the slowest one takes its place.
    pub(crate) fn scaled(self, ratio: Ratio, part: ScaledPart) -> Self {
        let scaled = match self {
            Self::TokenBucket(bucket) => scaled_bucket(bucket, ratio, part),
            Self::Drip(bucket) if !bucket.aligned => scaled_drips(bucket, ratio, part),
            Self::Drip(_) | Self::SlidingWindow(_) => {
                self.resized(ratio.divide_ceil(self.limit())).ok()
            }
        };
        scaled.unwrap_or(self)
    }
}

/// The bucket with its burst divided, its interval multiplied, or both.
fn scaled_bucket(bucket: TokenBucket, ratio: Ratio, part: ScaledPart) -> Option<Quota> {
    let burst = match part.has_size() {
        true => ratio.divide_ceil(bucket.burst),
        false => bucket.burst,
    };
    let interval = match part.has_rate() {
        true => ratio.multiply_ceil(bucket.interval).max(1),
        false => bucket.interval,
    };
    let scaled = TokenBucket::with_interval(Nanos::new(interval), burst).map(Quota::TokenBucket);
    match scaled {
        Ok(quota) => Some(quota),
        // Drips of one unit keep slower rates than a token bucket can; see `slow_quota`.
        Err(_) if ratio.is_above_one() => {
            let interval_ms = interval.div_ceil(Nanos::MILLISECOND.get());
            slowest_drips(burst, interval_ms, 1)
        }
        Err(_) => None,
    }
}

/// The bucket with its size divided, its interval multiplied, or both. Where the interval would be
/// shorter than a millisecond, the drips grow instead.
fn scaled_drips(bucket: DripBucket, ratio: Ratio, part: ScaledPart) -> Option<Quota> {
    let size = match part.has_size() {
        true => ratio.divide_ceil(bucket.size),
        false => bucket.size,
    };
    if !part.has_rate() {
        let resized = DripBucket::new(size, bucket.interval(), bucket.drip, Phase::FirstRequest);
        return resized.ok().map(Quota::Drip);
    }
    let interval_ms = ratio.multiply_ceil(bucket.interval_ms).max(1);
    let exact = u128::from(bucket.interval_ms) * u128::from(ratio.numerator);
    let drip = match exact < ratio.denominator {
        // Rounded down, so that the rate is not exceeded.
        true => saturated(u128::from(bucket.drip) * ratio.denominator / exact),
        false => bucket.drip,
    };
    let drip = drip.min(DripBucket::DRIP_MAX);
    match ratio.is_above_one() {
        true => slowest_drips(size, interval_ms, drip),
        false => {
            let interval = Nanos::from_millis(interval_ms);
            let scaled = DripBucket::new(size, interval, drip, Phase::FirstRequest);
            scaled.ok().map(Quota::Drip)
        }
    }
}

/// Drips at this interval, or at the longest at which the bucket can be enforced.
fn slowest_drips(size: u64, interval_ms: u64, drip: u64) -> Option<Quota> {
    let longest_ms = DripBucket::DRAIN_MAX_MS / size.div_ceil(drip).max(1);
    let interval = Nanos::from_millis(interval_ms.min(longest_ms));
    let scaled = DripBucket::new(size, interval, drip, Phase::FirstRequest);
    scaled.ok().map(Quota::Drip)
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
