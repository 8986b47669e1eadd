//! The size of a store: how many keys each of its parts has room for.

use super::table::CounterTable;

/// The room of each part of a store, in keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterCapacity {
    /// Keys that the table holds for certain; it has places for a third more.
    pub(super) table_keys: usize,
    /// Keys that found every slot of their window live.
    pub(super) overflow_keys: usize,
    /// Sliding windows and slow quotas, which no slot can hold.
    pub(super) apart_keys: usize,
    /// The number of locks that the side maps are spread over; a power of two.
    pub(super) stripes: usize,
}

/// More would make a sweep of all of them long, and new keys are rare enough for these.
const STRIPES_MAX: usize = 256;
const OVERFLOW_MIN: usize = if cfg!(sluicegate_loom) { 1 } else { 64 };

impl CounterCapacity {
    /// Room for `max_keys` of either kind, which are kept for certain; there is room for more.
    ///
    /// With the table three quarters full, one key in 72 finds its window full: measured, with
    /// little variance. So one key in 64 has room in the overflow.
    pub(super) fn keeping(max_keys: usize) -> Self {
        Self {
            table_keys: max_keys,
            overflow_keys: max_keys / 64 + OVERFLOW_MIN,
            apart_keys: max_keys,
            stripes: stripes(max_keys),
        }
    }

    /// Room for no more than `keys_max` keys of all kinds together, whatever happens. Three quarters
    /// are for keys in slots, which are nearly all, and a quarter for those beside the table.
    ///
    /// The side maps of each kind may exceed their room by one key for each stripe (`side_map.rs`), so
    /// that much is left free.
    pub(super) fn at_most(keys_max: usize) -> Self {
        let stripes = stripes(keys_max);
        let apart = keys_max / 4;
        let overflow = keys_max / 128 + OVERFLOW_MIN + stripes;
        Self {
            table_keys: CounterTable::keys_in(keys_max.saturating_sub(apart + overflow)),
            overflow_keys: overflow - stripes,
            apart_keys: apart.saturating_sub(stripes),
            stripes,
        }
    }
}

fn stripes(keys: usize) -> usize {
    (keys / 64).next_power_of_two().clamp(1, STRIPES_MAX)
}

#[cfg(all(test, not(sluicegate_loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_places_together_are_no_more_than_promised() {
        for keys_max in [4_096, 10_000, 65_536, 1_000_000] {
            let capacity = CounterCapacity::at_most(keys_max);
            let places = CounterTable::new(capacity.table_keys).places();
            let beside = capacity.overflow_keys + capacity.apart_keys + 2 * capacity.stripes;
            let all = places + beside;
            assert!(all <= keys_max, "{all} places for {keys_max}");
            assert!(
                all > keys_max - keys_max / 100,
                "{all} places for {keys_max}"
            );
        }
    }
}
