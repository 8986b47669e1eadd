//! Answers that this process remembers, so that a busy caller costs no call and no wait.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{ExternalLimits, ResolvedLimits};

/// A bounded number of answers, by the hash of limit and key.
#[derive(Debug)]
pub(super) struct LocalCache {
    shards: Vec<CacheShard>,
}

/// By hash, which needs no other.
type CacheEntries = HashMap<u64, CacheEntry, BuildHasherDefault<PassThroughHasher>>;

/// On a line of the cache of its own: one busy caller does not slow down others.
#[derive(Debug, Default)]
#[repr(align(64))]
struct CacheShard(Mutex<CacheEntries>);

/// The hash of a hash.
#[derive(Default)]
struct PassThroughHasher(u64);

impl Hasher for PassThroughHasher {
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

#[derive(Debug)]
struct CacheEntry {
    /// What the hash is of: another caller with the same one is not told.
    limit: Box<str>,
    key: Box<str>,
    resolved: ResolvedLimits,
    fresh_until: Instant,
    /// From here on, who comes first has it renewed; `None` when somebody has, or nobody should.
    renew_from: Option<Instant>,
    stale_until: Instant,
    renewal: Renewal,
}

/// A caller of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallerKey<'a> {
    pub(super) hash: u64,
    pub(super) limit: &'a str,
    pub(super) key: &'a str,
}

/// How an answer is renewed before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    /// Not at all: it stands in for an answer that could not be had.
    None,
    /// From Redis, where somebody else has put it.
    FromRedis,
    /// From the service: this process put it into Redis, where it is as old as here.
    FromService,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CacheHit {
    pub(super) resolved: ResolvedLimits,
    /// Set once for each answer, for whoever is to renew it.
    pub(super) renew: Option<Renewal>,
}

/// How long an answer is remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheTtl {
    pub(super) fresh: Duration,
    pub(super) stale: Duration,
}

impl LocalCache {
    const SHARDS: usize = 64;
    /// Some 3 MB with the longest tenant keys.
    pub(super) const ENTRIES_MAX: usize = 10_240;

    pub(super) fn new() -> Self {
        Self {
            shards: (0..Self::SHARDS).map(|_| CacheShard::default()).collect(),
        }
    }

    /// The answer, if it is fresh.
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

    /// The answer, fresh or not, as one of a while ago.
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

    /// Remembers an answer. It is renewed in the last tenth of its time.
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

    /// Remembers what stands in for an answer until somebody may ask again. A copy for later stays as it is.
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

    /// Forgets an answer that is not to be kept.
    pub(super) fn remove_caller(&self, caller: CallerKey<'_>) {
        let mut shard = self.shard(caller.hash);
        if shard
            .get(&caller.hash)
            .is_some_and(|entry| entry.belongs_to(caller))
        {
            shard.remove(&caller.hash);
        }
    }

    fn insert_entry(
        &self,
        caller: CallerKey<'_>,
        now: Instant,
        entry: impl FnOnce() -> CacheEntry,
    ) {
        let mut shard = self.shard(caller.hash);
        if shard.len() >= Self::ENTRIES_MAX / Self::SHARDS && !shard.contains_key(&caller.hash) {
            shard.retain(|_, entry| now < entry.stale_until);
        }
        if shard.len() >= Self::ENTRIES_MAX / Self::SHARDS && !shard.contains_key(&caller.hash) {
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
        // Other bits than those the map goes by.
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
