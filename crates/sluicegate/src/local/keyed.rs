//! One quota for many keys, without policy or HTTP.
//!
//! The shortest way into the local store: a key is hashed and charged, with nothing in between.
//! Everything else (several limits, conditions, failure policies) is in
//! [`Limiter`](crate::Limiter).

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use sluicegate_core::{Nanos, Outcome, Quota};

use super::address::CounterId;
use super::{LocalOptions, LocalStore};
use crate::clock::{Clock, MonotonicClock};

/// Limits anything that can be hashed: one quota, a counter for each key.
///
/// ```
/// use std::net::IpAddr;
/// use sluicegate::{KeyedLimiter, LocalOptions, Quota};
///
/// let quota = Quota::per_second(1).burst(3);
/// let limiter: KeyedLimiter<IpAddr> = KeyedLimiter::new(quota, LocalOptions::default());
/// let caller = "203.0.113.7".parse()?;
/// let passed = (0..5).filter(|_| limiter.check(&caller, 1).is_allowed()).count();
/// assert_eq!(passed, 3);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
pub struct KeyedLimiter<K: ?Sized, C = MonotonicClock> {
    store: LocalStore,
    quota: Quota,
    clock: C,
    /// Keys are hashed and never kept, so none is owned.
    key: PhantomData<fn(&K)>,
}

impl<K: Hash + ?Sized> KeyedLimiter<K> {
    /// A limiter on a [`MonotonicClock`].
    pub fn new(quota: impl Into<Quota>, options: LocalOptions) -> Self {
        Self::with_clock(quota, options, MonotonicClock::new())
    }
}

impl<K: Hash + ?Sized, C: Clock> KeyedLimiter<K, C> {
    /// A limiter on another clock: in tests a [`ManualClock`](crate::ManualClock).
    pub fn with_clock(quota: impl Into<Quota>, options: LocalOptions, clock: C) -> Self {
        Self {
            store: LocalStore::new(options),
            quota: quota.into(),
            clock,
            key: PhantomData,
        }
    }

    /// Spends `cost` units of a key's counter if they are there; a cost of 0 only looks.
    #[inline]
    pub fn check(&self, key: &K, cost: u64) -> Outcome {
        self.store
            .counters
            .decide(self.id(key), &self.quota, cost, &self.clock)
    }

    /// Gives back units that were drawn `age` ago, never beyond full; an age of zero gives all of
    /// them back.
    pub fn refund(&self, key: &K, cost: u64, age: Nanos) -> Outcome {
        self.store
            .counters
            .refund(self.id(key), self.quota, cost, age, self.clock.now())
    }

    /// Forgets a key: its counter is full again.
    pub fn reset(&self, key: &K) {
        self.store
            .counters
            .reset(self.id(key), self.quota.pace(), self.clock.now());
    }

    #[inline]
    fn id(&self, key: &K) -> CounterId<'static> {
        CounterId::of_one_pace(self.store.hash(key))
    }

    /// The store with the counters, for its metrics.
    pub fn store(&self) -> &LocalStore {
        &self.store
    }
}

impl<K: ?Sized, C> fmt::Debug for KeyedLimiter<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLimiter")
            .field("quota", &self.quota)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}
