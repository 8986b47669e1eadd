//! When a limit bans a caller, and for how long.

use crate::time::Nanos;

/// Bans a caller that a limit denies too often.
///
/// The caller is the principal of the limit's key, or else the client network as the limit counts
/// it. A further ban of the same caller lasts longer, as long as it begins within [`BanRule::max`]
/// of the end of the one before.
///
/// ```
/// use sluicegate_core::{BanRule, Nanos};
///
/// let rule = BanRule {
///     after: 100,
///     within: Nanos::MINUTE,
///     lasts: Nanos::from_secs(600),
///     grow: 2,
///     max: Nanos::HOUR,
/// };
/// let minutes = |earlier| rule.lasts_after(earlier).get() / Nanos::MINUTE.get();
/// assert_eq!([0, 1, 2, 3].map(minutes), [10, 20, 40, 60]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BanRule {
    /// Denials that ban the caller; at least 1.
    pub after: u64,
    /// The time within which they are counted.
    pub within: Nanos,
    /// The time that a first ban lasts.
    pub lasts: Nanos,
    /// The factor from one ban to the next; 1 keeps all of them as long as the first.
    pub grow: u32,
    /// The longest ban, and the time for which an ended ban is remembered; at least `lasts`.
    pub max: Nanos,
}

impl BanRule {
    /// The time that a ban lasts after so many earlier ones that are remembered.
    pub fn lasts_after(&self, earlier: u32) -> Nanos {
        let factor = u64::from(self.grow).checked_pow(earlier);
        let lasts = factor.and_then(|factor| self.lasts.get().checked_mul(factor));
        lasts.map_or(self.max, Nanos::new).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_grows_to_its_maximum_and_never_beyond() {
        let rule = BanRule {
            after: 1,
            within: Nanos::SECOND,
            lasts: Nanos::MINUTE,
            grow: 3,
            max: Nanos::HOUR,
        };
        let minutes = |earlier: u32| rule.lasts_after(earlier).get() / Nanos::MINUTE.get();
        assert_eq!([0, 1, 2, 3, 4].map(minutes), [1, 3, 9, 27, 60]);
        assert_eq!(
            [40, 41, 64, u32::MAX].map(minutes),
            [60; 4],
            "numbers that overflow are the maximum"
        );
        let same = BanRule { grow: 1, ..rule };
        assert_eq!(same.lasts_after(u32::MAX), Nanos::MINUTE);
    }
}
