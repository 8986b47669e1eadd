//! The counters that are in no slot, in stripes that have a lock each.

use super::address::{Forgivenesses, LimitPaces};
use super::side_map::SideMap;

/// The side maps for the keys of one stripe. Its lock also makes sure that a new key gets one
/// counter, however many threads see it first.
pub(super) struct Stripe {
    /// Keys whose quota fits into a slot, but which found every slot of their window live.
    pub(super) overflow: SideMap,
    /// Sliding windows and slow quotas, which no slot can hold.
    pub(super) apart: SideMap,
    /// The paces of the limits that these keys belong to.
    pub(super) paces: LimitPaces,
    /// Keys whose excess was forgiven within the last minute.
    pub(super) forgivenesses: Forgivenesses,
}

impl Stripe {
    /// The map that holds `hash`, or that it would go to. A limit whose quota was changed may have
    /// left it in the other one.
    pub(super) fn map_for(&mut self, hash: u64, in_table: bool) -> &mut SideMap {
        let [own, other] = if in_table {
            self.maps()
        } else {
            [&mut self.apart, &mut self.overflow]
        };
        if own.get(hash).is_none() && other.get(hash).is_some() {
            other
        } else {
            own
        }
    }

    pub(super) fn maps(&mut self) -> [&mut SideMap; 2] {
        [&mut self.overflow, &mut self.apart]
    }
}
