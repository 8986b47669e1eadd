//! Where a counter is: by the hash of its key and the pace of its quota.
//!
//! The idea: a state means something only at the pace it was written at. A slot has no room to say
//! which that was, and a look at it would cost every request. So the pace is part of the address:
//! what is found where a quota says was written at its pace. A key that is not there may still be
//! at another pace that its limit was charged at before; [`LimitPaces`] remembers the last of them.
//! Neither policy nor gate has to say what a quota was before, so a reload, an override and a new
//! plan of a caller all work alike.
//!
//! **Invariant:** all addresses of one key belong to one stripe, so one lock covers a move.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use sluicegate_core::algorithm;
use sluicegate_core::{Key, Pace, Timestamp};

use super::table::stored_hash;

/// A counter, whatever quota it is charged under.
#[derive(Clone, Copy)]
pub(super) struct CounterId<'a> {
    /// The seeded hash of the key.
    key_hash: u64,
    /// The name of its limit; `None` for a counter whose address depends on its key alone.
    limit: Option<&'a str>,
}

impl<'a> CounterId<'a> {
    /// The counter of a key. Quotas that come with the request may be as many as there are requests,
    /// so those counters keep their address, and their debt as time.
    #[inline]
    pub(super) fn of(key_hash: u64, key: &Key<'a>) -> Self {
        let limit = key.limit();
        Self {
            key_hash,
            limit: (!limit.is_ad_hoc()).then_some(limit.name.as_str()),
        }
    }

    /// The counter with this hash of a limit whose quota may change.
    #[cfg(test)]
    pub(super) fn of_limit(key_hash: u64, limit: &'a str) -> Self {
        Self {
            key_hash,
            limit: Some(limit),
        }
    }

    /// A counter whose quota never changes.
    #[inline]
    pub(super) fn of_one_pace(key_hash: u64) -> Self {
        Self {
            key_hash,
            limit: None,
        }
    }

    /// The hash of the key, at whatever pace.
    pub(super) fn key_hash(&self) -> u64 {
        self.key_hash
    }

    /// Returns true when the counter belongs to a limit, whose quota may change.
    #[inline]
    pub(super) fn has_limit(&self) -> bool {
        self.limit.is_some()
    }

    /// The hash under which the counter is stored at a pace.
    #[inline(always)]
    pub(super) fn address(&self, pace: Pace) -> u64 {
        match self.limit {
            Some(_) => address_in_policy(self.key_hash, pace),
            None => stored_hash(self.key_hash),
        }
    }
}

/// The hash under which the counter of a limit is stored at a pace.
#[inline(always)]
pub(super) fn address_in_policy(key_hash: u64, pace: Pace) -> u64 {
    stored_hash(key_hash ^ pace_bits(pace))
}

/// The lowest bit of a stored hash and the eight that choose a stripe.
const STRIPE_BITS: u64 = 0x1ff;

/// Bits that differ from pace to pace and leave the stripe as it is.
///
/// The factor is 2^64 over the golden ratio: the multiples of it by any two intervals below 2^52
/// are more than 2^9 apart, so no two token buckets share an address of a key.
#[inline(always)]
fn pace_bits(pace: Pace) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let number = match pace {
        Pace::TokenBucket { interval } => interval,
        Pace::Drip {
            interval_ms,
            drip,
            aligned,
        } => (interval_ms << 21 | drip << 1 | u64::from(aligned)).wrapping_mul(SPREAD ^ 0xd),
        Pace::SlidingWindow { window_ms } => window_ms.wrapping_mul(SPREAD ^ 0x3d),
    };
    number.wrapping_mul(SPREAD) & !STRIPE_BITS
}

/// The paces that each limit was charged at by the keys of one stripe, the latest last.
#[derive(Default)]
pub(super) struct LimitPaces(HashMap<Box<str>, Vec<Pace>, RandomState>);

impl LimitPaces {
    /// Paces that are remembered for a limit. Each is one more place to look for a key that is new,
    /// so these are enough for plans and reloads, and few enough for a flood of new keys.
    const PACES_MAX: usize = 16;

    /// Remembers that the limit of a counter is charged at `pace`, and returns the other paces that
    /// it was charged at before, the latest first; nearly always none.
    pub(super) fn learn(&mut self, id: CounterId<'_>, pace: Pace) -> Vec<Pace> {
        let Some(limit) = id.limit else {
            return Vec::new();
        };
        let Some(known) = self.0.get_mut(limit) else {
            self.0.insert(limit.into(), vec![pace]);
            return Vec::new();
        };
        if !known.contains(&pace) {
            if known.len() == Self::PACES_MAX {
                known.remove(0);
            }
            known.push(pace);
        }
        let others = known.iter().rev().filter(|known| **known != pace);
        others.copied().collect()
    }
}

/// The keys of one stripe whose excess was forgiven, and when: within the last minute, or longer ago
/// and not yet forgotten.
#[derive(Default)]
pub(super) struct Forgivenesses(Vec<(u64, Timestamp)>);

impl Forgivenesses {
    /// More keys are not forgiven within a minute: they wait until their units fit.
    const KEYS_MAX: usize = 1_024;

    /// Returns true when the excess of a counter may be forgiven now.
    pub(super) fn may_forgive(&mut self, id: CounterId<'_>, now: Timestamp) -> bool {
        // Only when there are too many: a clock that goes back makes an old one recent again.
        if self.0.len() == Self::KEYS_MAX {
            self.0
                .retain(|(_, at)| !algorithm::may_forgive(Some(*at), now));
        }
        let forbids = |(hash, at): &(u64, Timestamp)| {
            *hash == id.key_hash && !algorithm::may_forgive(Some(*at), now)
        };
        self.0.len() < Self::KEYS_MAX && !self.0.iter().any(forbids)
    }

    /// Remembers that the excess of a counter was forgiven now.
    pub(super) fn add(&mut self, id: CounterId<'_>, now: Timestamp) {
        self.remove(id);
        self.0.push((id.key_hash, now));
    }

    /// Forgets a counter that was reset.
    pub(super) fn remove(&mut self, id: CounterId<'_>) {
        self.0.retain(|(hash, _)| *hash != id.key_hash);
    }
}

#[cfg(all(test, not(sluicegate_loom)))]
mod tests {
    use sluicegate_core::{Nanos, Quota};

    use super::*;

    fn id(key_hash: u64) -> CounterId<'static> {
        CounterId::of_limit(key_hash, "per-ip")
    }

    /// Another key of the stripe looks at the clock while it is ahead.
    #[test]
    fn a_clock_that_goes_back_forgives_nothing_twice() {
        let mut forgiven = Forgivenesses::default();
        let (now, later) = (Timestamp::from_nanos(1), Nanos::from_secs(3_600));
        forgiven.add(id(1), now);
        assert!(forgiven.may_forgive(id(2), now.after(later)));
        assert!(forgiven.may_forgive(id(1), now.after(later)));
        assert!(!forgiven.may_forgive(id(1), now));
    }

    #[test]
    fn all_addresses_of_a_key_are_apart_and_in_one_stripe() {
        let mut paces: Vec<Pace> = (0..52)
            .flat_map(|bit| [1 << bit, (1 << bit) + 1, (1 << bit) + 10])
            .map(|interval| Pace::TokenBucket { interval })
            .collect();
        for number in 1..500 {
            let drip = |drip, aligned| Pace::Drip {
                interval_ms: 1_000 * number,
                drip,
                aligned,
            };
            paces.extend([drip(number, false), drip(1, false), drip(number, true)]);
            paces.push(Pace::SlidingWindow {
                window_ms: 1_000 * number,
            });
        }
        paces.sort_unstable_by_key(ToString::to_string);
        paces.dedup();
        let addresses: std::collections::HashSet<u64> =
            paces.iter().map(|pace| id(77).address(*pace)).collect();
        assert_eq!(addresses.len(), paces.len());
        let stripes: std::collections::HashSet<u64> = addresses
            .iter()
            .map(|address| address & STRIPE_BITS)
            .collect();
        assert_eq!(stripes.len(), 1);
    }

    #[test]
    fn the_latest_sixteen_paces_of_a_limit_are_remembered() {
        let mut paces = LimitPaces::default();
        let pace = |number| Quota::from(Quota::per_second(number)).pace();
        assert!(paces.learn(id(1), pace(1)).is_empty(), "the first");
        assert_eq!(paces.learn(id(2), pace(2)), [pace(1)]);
        assert_eq!(paces.learn(id(1), pace(1)), [pace(2)]);
        (3..=17).for_each(|number| drop(paces.learn(id(1), pace(number))));
        let others = paces.learn(id(1), pace(17));
        assert_eq!((others.len(), others[0]), (15, pace(16)));
        assert!(!others.contains(&pace(1)), "the first was the first to go");
        let other_limit = CounterId::of_limit(1, "other");
        assert!(paces.learn(other_limit, pace(1)).is_empty());
    }

    #[test]
    fn a_key_is_forgiven_once_a_minute_and_nobody_once_too_many_were() {
        let mut forgivenesses = Forgivenesses::default();
        let now = Timestamp::from_millis(1_800_000_000_000);
        assert!(forgivenesses.may_forgive(id(1), now));
        forgivenesses.add(id(1), now);
        let just_before = now.after(Nanos::from_millis(59_999));
        assert!(!forgivenesses.may_forgive(id(1), just_before));
        assert!(forgivenesses.may_forgive(id(2), just_before), "another key");
        assert!(forgivenesses.may_forgive(id(1), now.after(Nanos::MINUTE)));
        (0..Forgivenesses::KEYS_MAX as u64).for_each(|hash| forgivenesses.add(id(hash), now));
        assert!(!forgivenesses.may_forgive(id(5_000), just_before));
        assert!(forgivenesses.may_forgive(id(5_000), now.after(Nanos::MINUTE)));
        forgivenesses.add(id(1), now);
        forgivenesses.remove(id(1));
        assert!(forgivenesses.may_forgive(id(1), now), "it was reset");
    }
}
