//! The cache of this process: a caller that was looked up costs neither a call nor a wait.
//!
//! Each entry goes through three phases. While it is *fresh* it answers requests; in the last tenth
//! of that time one request is asked to renew it, so that a busy caller never waits for an expired
//! entry. Afterwards it is *stale*: it answers only when no newer reply can be had. Then it is
//! dropped. The Redis cache has the same two lifetimes, but is shared by all replicas.
//!
//! Invariants: there are at most [`LocalCache::ENTRIES_MAX`] entries, whatever callers send; an
//! entry answers only for the limit and key that it stores, so a collision of hashes costs a lookup
//! and never shows one caller another's limits.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{ExternalLimits, ResolvedLimits};

/// A bounded number of results, by the hash of limit and key.
#[derive(Debug)]
pub(super) struct LocalCache {
    shards: Vec<CacheShard>,
}

/// Keyed by a hash that is random enough already.
type CacheEntries = HashMap<u64, CacheEntry, BuildHasherDefault<PassThroughHasher>>;

/// One part of the cache. Aligned to a cache line, so that a busy shard does not slow down the lock
/// of its neighbour.
#[derive(Debug, Default)]
#[repr(align(64))]
struct CacheShard(Mutex<CacheEntries>);

/// Uses a `u64` key as its own hash: hashing it again would cost time and add nothing.
#[derive(Default)]
struct PassThroughHasher(u64);

impl Hasher for PassThroughHasher {
    /// Not reached with `u64` keys; the trait asks for it.
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A cached result and its deadlines.
#[derive(Debug)]
struct CacheEntry {
    /// The caller, compared on every access because hashes can collide.
    limit: Box<str>,
    key: Box<str>,
    resolved: ResolvedLimits,
    /// Until here the entry answers requests.
    fresh_until: Instant,
    /// From here on, the next request is asked to renew the entry. Taken by that request, so that
    /// only one is asked; `None` from the start for an entry that is never renewed.
    renew_from: Option<Instant>,
    /// Until here the entry can stand in for a reply that did not come.
    stale_until: Instant,
    renewal: Renewal,
}

/// A caller of a limit, with the hash of both.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallerKey<'a> {
    /// The hash of limit and key, with the seed of this process.
    pub(super) hash: u64,
    pub(super) limit: &'a str,
    pub(super) key: &'a str,
}

/// The source from which an entry is renewed before it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// Nowhere: it stands in for a reply that could not be had, or the reply asked not to be
    /// cached.
    None,
    /// From Redis, where another replica has put it and may have renewed it.
    FromRedis,
    /// From the service: this process wrote it to Redis, where it is no newer than here.
    FromService,
}

/// A fresh entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CacheHit {
    pub(super) resolved: ResolvedLimits,
    /// Set for one request per entry: that request has to start the renewal.
    pub(super) renew: Option<Renewal>,
}

/// The two lifetimes of an entry, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheTtl {
    /// From now on.
    pub(super) fresh: Duration,
    /// From the end of `fresh` on.
    pub(super) stale: Duration,
}

impl LocalCache {
    /// Enough that threads rarely meet at one lock.
    const SHARDS: usize = 64;
    /// The most entries; some 3 MB with the longest tenant keys.
    pub(super) const ENTRIES_MAX: usize = 10_240;
    /// The bound of each shard. Callers spread evenly, because their hash is seeded.
    const SHARD_ENTRIES_MAX: usize = Self::ENTRIES_MAX / Self::SHARDS;

    pub(super) fn new() -> Self {
        Self {
            shards: (0..Self::SHARDS).map(|_| CacheShard::default()).collect(),
        }
    }

    /// The caller's result while it is fresh.
    pub(super) fn get(&self, caller: CallerKey<'_>, now: Instant) -> Option<CacheHit> {
        let mut shard = self.shard(caller.hash);
        let entry = shard
            .get_mut(&caller.hash)
            .filter(|entry| entry.belongs_to(caller) && now < entry.fresh_until)?;
        let renew = entry
            .renew_from
            .take_if(|from| *from <= now)
            .map(|_| entry.renewal);
        Some(CacheHit {
            resolved: entry.resolved.clone(),
            renew,
        })
    }

    /// The caller's limits, fresh or expired, marked as stale. `None` after the stale time, and for
    /// an entry that holds no limits.
    pub(super) fn get_stale(
        &self,
        caller: CallerKey<'_>,
        now: Instant,
    ) -> Option<Arc<ExternalLimits>> {
        let shard = self.shard(caller.hash);
        let entry = shard
            .get(&caller.hash)
            .filter(|entry| entry.belongs_to(caller) && now < entry.stale_until)?;
        match &entry.resolved {
            ResolvedLimits::External(limits) => Some(Arc::new(limits.as_stale())),
            ResolvedLimits::Configured => None,
        }
    }

    /// Stores limits; they are renewed in the last tenth of their fresh time.
    pub(super) fn insert(
        &self,
        caller: CallerKey<'_>,
        limits: Arc<ExternalLimits>,
        ttl: CacheTtl,
        renewal: Renewal,
        now: Instant,
    ) {
        self.insert_entry(caller, now, || CacheEntry {
            limit: caller.limit.into(),
            key: caller.key.into(),
            resolved: ResolvedLimits::External(limits),
            fresh_until: now + ttl.fresh,
            renew_from: (renewal != Renewal::None).then(|| now + ttl.fresh - ttl.fresh / 10),
            stale_until: now + ttl.fresh + ttl.stale,
            renewal,
        });
    }

    /// Stores the result of a lookup that failed, until the service may be called again.
    ///
    /// Expired limits that are in the cache already become fresh again for that time and keep their
    /// own end, so that a placeholder never makes them live longer.
    pub(super) fn insert_placeholder(
        &self,
        caller: CallerKey<'_>,
        resolved: &ResolvedLimits,
        until: Instant,
        now: Instant,
    ) {
        let mut shard = self.shard(caller.hash);
        if let Some(entry) = shard
            .get_mut(&caller.hash)
            .filter(|entry| entry.belongs_to(caller) && now < entry.stale_until)
            && let ResolvedLimits::External(_) = resolved
        {
            (entry.resolved, entry.fresh_until, entry.renew_from) = (resolved.clone(), until, None);
            return;
        }
        drop(shard);
        self.insert_entry(caller, now, || CacheEntry {
            limit: caller.limit.into(),
            key: caller.key.into(),
            resolved: resolved.clone(),
            fresh_until: until,
            renew_from: None,
            stale_until: until,
            renewal: Renewal::None,
        });
    }

    /// Removes the caller's entry: its newest reply must not be stored.
    pub(super) fn remove_caller(&self, caller: CallerKey<'_>) {
        let mut shard = self.shard(caller.hash);
        if shard
            .get(&caller.hash)
            .is_some_and(|entry| entry.belongs_to(caller))
        {
            shard.remove(&caller.hash);
        }
    }

    /// Inserts an entry. A full shard first drops what has expired, then the entry that would be
    /// asked for again soonest.
    fn insert_entry(
        &self,
        caller: CallerKey<'_>,
        now: Instant,
        entry: impl FnOnce() -> CacheEntry,
    ) {
        let mut shard = self.shard(caller.hash);
        let is_new = !shard.contains_key(&caller.hash);
        if is_new && shard.len() >= Self::SHARD_ENTRIES_MAX {
            shard.retain(|_, entry| now < entry.stale_until);
        }
        if is_new && shard.len() >= Self::SHARD_ENTRIES_MAX {
            let first = shard
                .iter()
                .min_by_key(|(_, entry)| entry.fresh_until)
                .map(|(hash, _)| *hash);
            first.and_then(|hash| shard.remove(&hash));
        }
        shard.insert(caller.hash, entry());
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|CacheShard(shard)| shard.lock().expect("no holder of this lock panics").len())
            .sum()
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, CacheEntries> {
        // The upper bits, because the map inside the shard uses the lower ones.
        self.shards[(hash >> 32) as usize % Self::SHARDS]
            .0
            .lock()
            .expect("no holder of this lock panics")
    }
}

impl CacheEntry {
    fn belongs_to(&self, caller: CallerKey<'_>) -> bool {
        *self.limit == *caller.limit && *self.key == *caller.key
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::Nanos;

    use super::*;

    const TTL: CacheTtl = CacheTtl {
        fresh: Duration::from_secs(10),
        stale: Duration::from_secs(5),
    };

    fn caller(hash: u64, key: &str) -> CallerKey<'_> {
        CallerKey {
            hash,
            limit: "tenant",
            key,
        }
    }

    fn limits() -> Arc<ExternalLimits> {
        let request_timeout = Some(Nanos::SECOND);
        let (quota, tenant, on_failure, failure_status, backend) = (None, None, None, None, None);
        Arc::new(ExternalLimits {
            quota,
            tenant,
            on_failure,
            failure_status,
            backend,
            request_timeout,
            is_stale: false,
        })
    }

    fn at(start: Instant, millis: u64) -> Instant {
        start + Duration::from_millis(millis)
    }

    #[test]
    fn an_answer_is_fresh_then_stale_then_gone() {
        let (local_cache, start, a) = (LocalCache::new(), Instant::now(), caller(1, "a"));
        local_cache.insert(a, limits(), TTL, Renewal::None, start);
        assert_eq!(
            local_cache.get(a, at(start, 9_999)).unwrap().resolved,
            ResolvedLimits::External(limits())
        );
        assert_eq!(local_cache.get(a, at(start, 10_000)), None);
        assert!(
            local_cache
                .get_stale(a, at(start, 14_999))
                .is_some_and(|limits| limits.is_stale)
        );
        assert_eq!(local_cache.get_stale(a, at(start, 15_000)), None);
    }

    #[test]
    fn one_who_comes_in_the_last_tenth_is_asked_to_renew() {
        let (local_cache, start, a) = (LocalCache::new(), Instant::now(), caller(1, "a"));
        local_cache.insert(a, limits(), TTL, Renewal::FromService, start);
        assert_eq!(local_cache.get(a, at(start, 8_999)).unwrap().renew, None);
        assert_eq!(
            local_cache.get(a, at(start, 9_000)).unwrap().renew,
            Some(Renewal::FromService)
        );
        assert_eq!(
            local_cache.get(a, at(start, 9_000)).unwrap().renew,
            None,
            "only one"
        );
    }

    #[test]
    fn a_caller_with_the_same_hash_is_another() {
        let (local_cache, start) = (LocalCache::new(), Instant::now());
        local_cache.insert(caller(1, "a"), limits(), TTL, Renewal::None, start);
        let other_limit = CallerKey {
            limit: "other",
            ..caller(1, "a")
        };
        assert_eq!(local_cache.get(caller(1, "b"), start), None);
        assert_eq!(local_cache.get(other_limit, start), None);
        assert_eq!(local_cache.get_stale(other_limit, start), None);
        local_cache.remove_caller(other_limit);
        assert!(local_cache.get(caller(1, "a"), start).is_some());
    }

    #[test]
    fn what_stands_in_is_held_without_losing_the_copy_for_later() {
        let (local_cache, start, a) = (LocalCache::new(), Instant::now(), caller(1, "a"));
        local_cache.insert(a, limits(), TTL, Renewal::FromService, start);
        let stale = ResolvedLimits::External(local_cache.get_stale(a, at(start, 10_000)).unwrap());
        local_cache.insert_placeholder(a, &stale, at(start, 11_000), at(start, 10_000));
        assert_eq!(
            local_cache.get(a, at(start, 10_500)),
            Some(CacheHit {
                resolved: stale,
                renew: None
            })
        );
        assert_eq!(local_cache.get(a, at(start, 11_000)), None);
        assert!(local_cache.get_stale(a, at(start, 14_000)).is_some());
        let b = caller(2, "b");
        local_cache.insert_placeholder(b, &ResolvedLimits::Configured, at(start, 1_000), start);
        assert_eq!(
            local_cache.get(b, start),
            Some(CacheHit {
                resolved: ResolvedLimits::Configured,
                renew: None
            })
        );
        assert_eq!(local_cache.get_stale(b, start), None);
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let (local_cache, start) = (LocalCache::new(), Instant::now());
        for number in 0..100_000_u64 {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            local_cache.insert(caller(hash, "a"), limits(), TTL, Renewal::None, start);
            assert!(
                local_cache.get(caller(hash, "a"), start).is_some(),
                "the newest is there"
            );
        }
        assert_eq!(local_cache.len(), LocalCache::ENTRIES_MAX);
    }
}
