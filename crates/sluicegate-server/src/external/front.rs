//! Answers that this process remembers, so that a busy caller costs no call and no wait.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use super::told::{Known, Told};

/// A bounded number of answers, by the hash of limit and key.
#[derive(Debug)]
pub(super) struct Front {
    shards: Vec<Shard>,
}

/// By hash, which needs no other.
type Entries = HashMap<u64, Entry, BuildHasherDefault<Itself>>;

/// On a line of the cache of its own: one busy caller does not slow down others.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Shard(Mutex<Entries>);

/// The hash of a hash.
#[derive(Default)]
struct Itself(u64);

impl Hasher for Itself {
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
struct Entry {
    /// What the hash is of: another caller with the same one is not told.
    limit: Box<str>,
    key: Box<str>,
    known: Known,
    fresh_until: Instant,
    /// From here on, who comes first has it renewed; `None` when somebody has, or nobody should.
    renew_from: Option<Instant>,
    stale_until: Instant,
    renewal: Renewal,
}

/// A caller of a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caller<'a> {
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
pub(super) struct Found {
    pub(super) known: Known,
    /// Set once for each answer, for whoever is to renew it.
    pub(super) renew: Option<Renewal>,
}

/// How long an answer is remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spans {
    pub(super) fresh: Duration,
    pub(super) stale: Duration,
}

impl Front {
    const SHARDS: usize = 64;
    /// Some 3 MB with the longest tenant keys.
    pub(super) const ENTRIES_MAX: usize = 10_240;

    pub(super) fn new() -> Self {
        Self {
            shards: (0..Self::SHARDS).map(|_| Shard::default()).collect(),
        }
    }

    /// The answer, if it is fresh.
    pub(super) fn look(&self, caller: Caller<'_>, now: Instant) -> Option<Found> {
        let mut shard = self.shard(caller.hash);
        let entry = shard
            .get_mut(&caller.hash)
            .filter(|entry| entry.is_of(caller) && now < entry.fresh_until)?;
        let renew = entry
            .renew_from
            .take_if(|from| *from <= now)
            .map(|_| entry.renewal);
        Some(Found {
            known: entry.known.clone(),
            renew,
        })
    }

    /// The answer, fresh or not, as one of a while ago.
    pub(super) fn stale(&self, caller: Caller<'_>, now: Instant) -> Option<Arc<Told>> {
        let shard = self.shard(caller.hash);
        let entry = shard
            .get(&caller.hash)
            .filter(|entry| entry.is_of(caller) && now < entry.stale_until)?;
        match &entry.known {
            Known::Told(told) => Some(Arc::new(told.stale())),
            Known::Static => None,
        }
    }

    /// Remembers an answer. It is renewed in the last tenth of its time.
    pub(super) fn keep(
        &self,
        caller: Caller<'_>,
        told: Arc<Told>,
        spans: Spans,
        renewal: Renewal,
        now: Instant,
    ) {
        self.put(caller, now, || Entry {
            limit: caller.limit.into(),
            key: caller.key.into(),
            known: Known::Told(told),
            fresh_until: now + spans.fresh,
            renew_from: (renewal != Renewal::None).then(|| now + spans.fresh - spans.fresh / 10),
            stale_until: now + spans.fresh + spans.stale,
            renewal,
        });
    }

    /// Remembers what stands in for an answer until somebody may ask again. A copy for later stays as it is.
    pub(super) fn hold(&self, caller: Caller<'_>, known: &Known, until: Instant, now: Instant) {
        let mut shard = self.shard(caller.hash);
        if let Some(entry) = shard
            .get_mut(&caller.hash)
            .filter(|entry| entry.is_of(caller) && now < entry.stale_until)
            && let Known::Told(_) = known
        {
            (entry.known, entry.fresh_until, entry.renew_from) = (known.clone(), until, None);
            return;
        }
        drop(shard);
        self.put(caller, now, || Entry {
            limit: caller.limit.into(),
            key: caller.key.into(),
            known: known.clone(),
            fresh_until: until,
            renew_from: None,
            stale_until: until,
            renewal: Renewal::None,
        });
    }

    /// Forgets an answer that is not to be kept.
    pub(super) fn forget(&self, caller: Caller<'_>) {
        let mut shard = self.shard(caller.hash);
        if shard
            .get(&caller.hash)
            .is_some_and(|entry| entry.is_of(caller))
        {
            shard.remove(&caller.hash);
        }
    }

    fn put(&self, caller: Caller<'_>, now: Instant, entry: impl FnOnce() -> Entry) {
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
            .map(|Shard(shard)| shard.lock().expect("no holder of this lock panics").len())
            .sum()
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Entries> {
        // Other bits than those the map goes by.
        self.shards[(hash >> 32) as usize % Self::SHARDS]
            .0
            .lock()
            .expect("no holder of this lock panics")
    }
}

impl Entry {
    fn is_of(&self, caller: Caller<'_>) -> bool {
        *self.limit == *caller.limit && *self.key == *caller.key
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::Nanos;

    use super::*;

    const SPANS: Spans = Spans {
        fresh: Duration::from_secs(10),
        stale: Duration::from_secs(5),
    };

    fn caller(hash: u64, key: &str) -> Caller<'_> {
        Caller {
            hash,
            limit: "tenant",
            key,
        }
    }

    fn told() -> Arc<Told> {
        let request_timeout = Some(Nanos::SECOND);
        let (quota, tenant, on_failure, failure_status, backend) = (None, None, None, None, None);
        Arc::new(Told {
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
        let (front, start, a) = (Front::new(), Instant::now(), caller(1, "a"));
        front.keep(a, told(), SPANS, Renewal::None, start);
        assert_eq!(
            front.look(a, at(start, 9_999)).unwrap().known,
            Known::Told(told())
        );
        assert_eq!(front.look(a, at(start, 10_000)), None);
        assert!(
            front
                .stale(a, at(start, 14_999))
                .is_some_and(|told| told.is_stale)
        );
        assert_eq!(front.stale(a, at(start, 15_000)), None);
    }

    #[test]
    fn one_who_comes_in_the_last_tenth_is_asked_to_renew() {
        let (front, start, a) = (Front::new(), Instant::now(), caller(1, "a"));
        front.keep(a, told(), SPANS, Renewal::FromService, start);
        assert_eq!(front.look(a, at(start, 8_999)).unwrap().renew, None);
        assert_eq!(
            front.look(a, at(start, 9_000)).unwrap().renew,
            Some(Renewal::FromService)
        );
        assert_eq!(
            front.look(a, at(start, 9_000)).unwrap().renew,
            None,
            "only one"
        );
    }

    #[test]
    fn a_caller_with_the_same_hash_is_another() {
        let (front, start) = (Front::new(), Instant::now());
        front.keep(caller(1, "a"), told(), SPANS, Renewal::None, start);
        let other_limit = Caller {
            limit: "other",
            ..caller(1, "a")
        };
        assert_eq!(front.look(caller(1, "b"), start), None);
        assert_eq!(front.look(other_limit, start), None);
        assert_eq!(front.stale(other_limit, start), None);
        front.forget(other_limit);
        assert!(front.look(caller(1, "a"), start).is_some());
    }

    #[test]
    fn what_stands_in_is_held_without_losing_the_copy_for_later() {
        let (front, start, a) = (Front::new(), Instant::now(), caller(1, "a"));
        front.keep(a, told(), SPANS, Renewal::FromService, start);
        let stale = Known::Told(front.stale(a, at(start, 10_000)).unwrap());
        front.hold(a, &stale, at(start, 11_000), at(start, 10_000));
        assert_eq!(
            front.look(a, at(start, 10_500)),
            Some(Found {
                known: stale,
                renew: None
            })
        );
        assert_eq!(front.look(a, at(start, 11_000)), None);
        assert!(front.stale(a, at(start, 14_000)).is_some());
        let b = caller(2, "b");
        front.hold(b, &Known::Static, at(start, 1_000), start);
        assert_eq!(
            front.look(b, start),
            Some(Found {
                known: Known::Static,
                renew: None
            })
        );
        assert_eq!(front.stale(b, start), None);
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let (front, start) = (Front::new(), Instant::now());
        for number in 0..100_000_u64 {
            let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            front.keep(caller(hash, "a"), told(), SPANS, Renewal::None, start);
            assert!(
                front.look(caller(hash, "a"), start).is_some(),
                "the newest is there"
            );
        }
        assert_eq!(front.len(), Front::ENTRIES_MAX);
    }
}
