//! The numbers of a sliding window.

use super::error::{QuotaError, at_least, at_most, whole_millis};
use crate::time::Nanos;

/// At most `limit` units in any window, the window before weighed by how much of it is still in
/// view.
///
/// Made by [`Quota::sliding_window`](crate::Quota::sliding_window).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    /// The length of a window in milliseconds; at least 1.
    pub(crate) window_ms: u64,
    /// Units per window; at least 1, and `limit * window_ms` is at most `PRODUCT_MAX`.
    pub(crate) limit: u64,
}

impl SlidingWindow {
    /// `limit * window_ms` stays exact in every store (Lua numbers hold 2^53).
    const PRODUCT_MAX: u64 = (1 << 53) - 1;

    /// Checks both numbers and their product.
    pub(super) fn new(limit: u64, window: Nanos) -> Result<Self, QuotaError> {
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
