//! The numbers of a bucket that drains in whole drips: leaky bucket and fixed window.

use super::error::{QuotaError, at_least, at_most, whole_millis};
use crate::time::Nanos;

/// A bucket of `size` units that loses `drip` of its level every `interval`, in whole drips only.
///
/// Made by [`Quota::leaky_bucket`](crate::Quota::leaky_bucket) and
/// [`Quota::fixed_window`](crate::Quota::fixed_window).
///
/// ```
/// use sluicegate_core::{Nanos, Quota};
///
/// let Quota::Drip(bucket) = Quota::leaky_bucket(10, Nanos::MINUTE, 2)? else { unreachable!() };
/// assert_eq!((bucket.drip(), bucket.interval()), (2, Nanos::MINUTE));
/// assert!(!bucket.is_fixed_window());
/// # Ok::<(), sluicegate_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DripBucket {
    /// Milliseconds between two drips; at least 1.
    pub(crate) interval_ms: u64,
    /// Units that one drip takes off the level; 1 to `DRIP_MAX`.
    pub(crate) drip: u64,
    /// Units that fit; 1 to `SIZE_MAX`.
    pub(crate) size: u64,
    /// True when drips fall on multiples of the interval since the epoch: a fixed window.
    pub(crate) aligned: bool,
}

/// When the first drip of an empty bucket falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// One interval after the request that found it empty.
    FirstRequest,
    /// On multiples of the interval since the epoch.
    Clock,
}

impl DripBucket {
    /// The slack of a drip is packed into six decimal digits.
    pub(super) const DRIP_MAX: u64 = 1_000_000;
    /// A full bucket drains within 139 years, so its end fits a signed 64-bit count of nanoseconds.
    pub(super) const DRAIN_MAX_MS: u64 = 1 << 42;
    /// Level and cost together stay exact in every store (Lua numbers hold 2^53).
    const SIZE_MAX: u64 = 1 << 51;

    /// Checks every number against its bound; errors use the names of the kind of bucket.
    pub(super) fn new(
        size: u64,
        interval: Nanos,
        drip: u64,
        phase: Phase,
    ) -> Result<Self, QuotaError> {
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

    /// The same bucket with another size; a fixed window stays one, so its drip grows with it.
    pub(super) fn resized(self, size: u64) -> Result<Self, QuotaError> {
        let (drip, phase) = match self.aligned {
            true => (size, Phase::Clock),
            false => (self.drip, Phase::FirstRequest),
        };
        Self::new(size, self.interval(), drip, phase)
    }

    /// Drips until a full bucket is empty, the last one perhaps only in part.
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

    /// Returns true when drips fall on the clock: a fixed window.
    pub const fn is_fixed_window(&self) -> bool {
        self.aligned
    }
}
