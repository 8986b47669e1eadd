//! What has happened between us and the service.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalCounts {
    /// Calls of the service.
    pub calls: u64,
    /// Calls that brought no answer that can be used.
    pub errors: u64,
    /// Calls under way.
    pub in_flight: u64,
    /// Questions answered by what this process remembers.
    pub local_hits: u64,
    /// Questions answered by a flight: its own, or one that somebody else began.
    pub waited: u64,
    /// Flights that found their answer in Redis.
    pub redis_hits: u64,
    /// Values in Redis that are none of ours.
    pub poisoned: u64,
    /// Times Redis could not be asked, or did not keep an answer.
    pub redis_errors: u64,
    /// Questions answered with an older answer.
    pub stale: u64,
    /// Questions answered with the limit's own quota.
    pub statics: u64,
    /// Calls that had to wait for others to end.
    pub waits: u64,
    /// Times the service was given up on for a while, for one key or as a whole.
    pub openings: u64,
    /// Answers renewed before they ended.
    pub renewals: u64,
    /// Tenant keys that are none, and were ignored.
    pub invalid_tenants: u64,
    /// Backends that may not be used, and were ignored.
    pub refused_backends: u64,
}

/// The same while it goes on.
#[derive(Debug, Default)]
pub(super) struct ExternalCounters {
    pub(super) calls: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) local_hits: AtomicU64,
    pub(super) waited: AtomicU64,
    pub(super) redis_hits: AtomicU64,
    pub(super) poisoned: AtomicU64,
    pub(super) redis_errors: AtomicU64,
    pub(super) stale: AtomicU64,
    pub(super) statics: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) openings: AtomicU64,
    pub(super) renewals: AtomicU64,
    pub(super) invalid_tenants: AtomicU64,
    pub(super) refused_backends: AtomicU64,
}

impl ExternalCounters {
    /// One more.
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn read(&self) -> ExternalCounts {
        ExternalCounts {
            calls: self.calls.load(Relaxed),
            errors: self.errors.load(Relaxed),
            // The slots know.
            in_flight: 0,
            local_hits: self.local_hits.load(Relaxed),
            waited: self.waited.load(Relaxed),
            redis_hits: self.redis_hits.load(Relaxed),
            poisoned: self.poisoned.load(Relaxed),
            redis_errors: self.redis_errors.load(Relaxed),
            stale: self.stale.load(Relaxed),
            statics: self.statics.load(Relaxed),
            waits: self.waits.load(Relaxed),
            openings: self.openings.load(Relaxed),
            renewals: self.renewals.load(Relaxed),
            invalid_tenants: self.invalid_tenants.load(Relaxed),
            refused_backends: self.refused_backends.load(Relaxed),
        }
    }
}
