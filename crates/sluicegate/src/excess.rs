//! Counters that owe more than their limit has, because somebody charges them under a larger one.
//!
//! While a new configuration is rolled out, some replicas still have the old one. Where the old burst
//! is larger and the load high, they keep a counter at the edge of it: more is owed than the new
//! burst has at all, each unit that flows back is taken under the old quota, and replicas with the new
//! one would admit nothing until all have it.
//!
//! The idea: such a counter is contended for at the edge that it has. A store notes how many units it
//! owed when a charge was denied for that reason. The engine sends later charges on it under
//! a quota with the pace of the stored debt and with those units as its burst: one passes as soon as a
//! unit has flowed back, whoever asks first. What was seen before it flowed back is the edge.
//!
//! **Invariant:** no counter owes more units by this than it owed before, so no more is admitted than
//! the largest quota in use allows. And no more than its own burst is admitted at once under the
//! smaller quota: the edge is at most that much above what the counter still owes at least.
//!
//! A counter of another pace is converted when its excess is forgiven, which is once a minute. Only a
//! charge under its own quota does that, so one of them is let through every second.
//!
//! Token buckets only: windows have no edge at which units flow back one by one. The memory is one
//! store's, bounded, and empty in normal times; then a request pays one load for it.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use foldhash::fast::RandomState;
use sluicegate_core::{Nanos, Pace, Quota, Timestamp, TokenBucket};

/// The counters of one store that were seen to owe more than a limit has, by the hash of their key.
#[derive(Debug, Default)]
pub(crate) struct ExcessTable {
    /// The number of entries.
    len: AtomicUsize,
    counters: RwLock<HashMap<u64, Excess, RandomState>>,
    /// When entries that are too old are next removed, in nanoseconds since the epoch.
    sweep_at: AtomicU64,
}

/// The debt of a counter when a charge was last denied because of it.
#[derive(Debug)]
struct Excess {
    /// Nanoseconds in which one unit flows back.
    interval: u64,
    /// Units that were owed, rounded up.
    units: u64,
    /// The most units that were owed since the entry was made.
    edge: u64,
    seen_at: Timestamp,
    /// When a charge was last let through under its own quota, in nanoseconds since the epoch.
    own_nanos: AtomicU64,
    /// True when the last charge was one of those.
    was_own: AtomicBool,
}

/// Counters that are remembered at the same time.
const COUNTERS_MAX: usize = 4_096;
/// How long an entry is kept without being seen again.
const LIFE: Nanos = Nanos::from_secs(10);
/// How often a charge goes under its own quota though the counter is of another pace.
const OWN_INTERVAL: Nanos = Nanos::SECOND;

impl ExcessTable {
    /// Returns true when no counter owes more than a limit has: all that a request asks in normal
    /// times.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Relaxed) == 0
    }

    /// Notes that a charge was denied at `now` because the counter owed `units`, which flow back at
    /// `pace`: more than its quota has.
    #[cold]
    pub(crate) fn note(&self, hash: u64, pace: Pace, units: u64, now: Timestamp) {
        let Pace::TokenBucket { interval } = pace else {
            return;
        };
        let mut counters = self.write();
        if let Some(known) = counters.get_mut(&hash)
            && known.interval == interval
        {
            known.edge = known.edge.max(units);
            known.units = units;
            known.seen_at = known.seen_at.max(now);
            return;
        }
        if counters.len() < COUNTERS_MAX {
            let excess = Excess {
                interval,
                units,
                edge: units,
                seen_at: now,
                own_nanos: AtomicU64::new(now.as_nanos()),
                was_own: AtomicBool::new(true),
            };
            counters.insert(hash, excess);
            self.len.store(counters.len(), Relaxed);
        }
    }

    /// The quota under which a charge is to be decided whose counter owes more than `own` has; `None`
    /// for its own.
    #[cold]
    pub(crate) fn larger_quota(&self, hash: u64, own: &Quota, now: Timestamp) -> Option<Quota> {
        self.sweep(now);
        let counters = self.counters.read();
        let counters = counters.unwrap_or_else(PoisonError::into_inner);
        let known = counters.get(&hash)?;
        let burst = known.burst(own.limit(), now)?;
        let is_own_turn = own.pace() != known.pace() && known.takes_own_turn(now);
        if is_own_turn {
            return None;
        }
        let bucket = TokenBucket::with_interval(Nanos::new(known.interval), burst).ok()?;
        Some(Quota::TokenBucket(bucket))
    }

    /// Removes entries that were not seen for a while, once a second.
    fn sweep(&self, now: Timestamp) {
        let due = self.sweep_at.load(Relaxed);
        if now.as_nanos() < due {
            return;
        }
        let mut counters = self.write();
        counters.retain(|_, excess| now.since(excess.seen_at) < LIFE);
        self.len.store(counters.len(), Relaxed);
        self.sweep_at
            .store(now.after(Nanos::SECOND).as_nanos(), Relaxed);
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<u64, Excess, RandomState>> {
        self.counters
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Excess {
    fn pace(&self) -> Pace {
        Pace::TokenBucket {
            interval: self.interval,
        }
    }

    /// The burst at whose edge a charge under a quota of `limit` is decided; `None` when the counter
    /// may owe no more than that by now.
    fn burst(&self, limit: u64, now: Timestamp) -> Option<u64> {
        let flowed_back = now.since(self.seen_at).get() / self.interval;
        let owed_at_least = self.units.saturating_sub(flowed_back);
        (owed_at_least > limit).then(|| self.edge.min(owed_at_least.saturating_add(limit)))
    }

    /// Lets one charge through every [`OWN_INTERVAL`], but never two in a row: a caller that asks
    /// seldom would otherwise always be the one.
    fn takes_own_turn(&self, now: Timestamp) -> bool {
        let last = Timestamp::from_nanos(self.own_nanos.load(Relaxed));
        let is_turn = now.since(last) >= OWN_INTERVAL && !self.was_own.load(Relaxed);
        if is_turn {
            self.own_nanos.store(now.as_nanos(), Relaxed);
        }
        self.was_own.store(is_turn, Relaxed);
        is_turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn quota(interval_ms: u64, burst: u64) -> Quota {
        let interval = Nanos::from_millis(interval_ms);
        Quota::TokenBucket(TokenBucket::with_interval(interval, burst).unwrap())
    }

    fn at(ms: u64) -> Timestamp {
        START.after(Nanos::from_millis(ms))
    }

    #[test]
    fn a_charge_is_decided_at_the_edge_that_was_seen() {
        let table = ExcessTable::default();
        let own = quota(10, 20);
        assert!(table.is_empty());
        table.note(7, own.pace(), 199, at(0));
        table.note(7, own.pace(), 200, at(1));
        table.note(7, own.pace(), 199, at(2));
        assert!(!table.is_empty());
        assert_eq!(table.larger_quota(7, &own, at(2)), Some(quota(10, 200)));
        assert_eq!(table.larger_quota(8, &own, at(2)), None, "another counter");
        assert_eq!(table.larger_quota(7, &quota(10, 200), at(2)), None);
    }

    #[test]
    fn no_more_than_the_own_burst_is_admitted_at_once() {
        let table = ExcessTable::default();
        let own = quota(10, 20);
        table.note(7, own.pace(), 200, at(0));
        let burst_at = |ms| {
            table
                .larger_quota(7, &own, at(ms))
                .map(|quota| quota.limit())
        };
        assert_eq!(burst_at(200), Some(200), "180 are owed at least");
        assert_eq!(burst_at(300), Some(190));
        assert_eq!(burst_at(1_790), Some(41));
        assert_eq!(burst_at(1_800), None, "it may fit into its own");
    }

    #[test]
    fn a_counter_of_another_pace_is_asked_under_its_own_quota_every_second() {
        let table = ExcessTable::default();
        let own = quota(20, 20);
        table.note(7, quota(1_000, 1).pace(), 200, at(0));
        let own_turns = |from: u64, to: u64, step| {
            let mut turns = (from..to).step_by(step);
            let is_own = |ms: &u64| table.larger_quota(7, &own, at(*ms)).is_none();
            (turns.by_ref().filter(is_own).count(), turns.count())
        };
        assert_eq!(own_turns(1, 999, 10).0, 0);
        assert_eq!(own_turns(1_000, 5_000, 10).0, 4);
        assert_eq!(own_turns(6_000, 9_900, 1_300).0, 2, "every other one");
    }

    #[test]
    fn what_is_not_seen_again_is_forgotten() {
        let table = ExcessTable::default();
        let own = quota(60_000, 1);
        for hash in 0..10_000 {
            table.note(hash, own.pace(), 200, at(0));
        }
        assert_eq!(table.len.load(Relaxed), COUNTERS_MAX);
        assert!(table.larger_quota(0, &own, at(9_000)).is_some());
        assert!(table.larger_quota(0, &own, at(11_000)).is_none());
        assert!(table.is_empty());
    }
}
