//! Counts of calls, cache hits and errors. Every part of this module adds to them; the metrics read
//! them when they are scraped.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::optional_field::OptionalField;

/// A snapshot of the counts since the client was made. Read one by one, so sums may be off by the
/// requests of that moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExternalCounts {
    /// Calls to the service.
    pub calls: u64,
    /// Calls without a usable reply.
    pub errors: u64,
    /// Calls that run now; the only one that goes down.
    pub in_flight: u64,
    /// Requests answered from the local cache.
    pub local_hits: u64,
    /// Requests that waited for a lookup, their own or one that another request had started.
    pub waited: u64,
    /// Lookups that ended in Redis.
    pub redis_hits: u64,
    /// Values in Redis that are not replies of ours, or of another caller.
    pub poisoned: u64,
    /// Failed reads and writes of the Redis cache.
    pub redis_errors: u64,
    /// Requests answered with an expired reply.
    pub stale: u64,
    /// Requests answered with the configured quota, as there was no reply.
    pub statics: u64,
    /// Calls that waited for a slot.
    pub waits: u64,
    /// Times a circuit breaker opened, for one caller or for the service.
    pub openings: u64,
    /// Renewals that were started before a reply expired.
    pub renewals: u64,
    /// Fields of replies that were ignored because they are invalid or not allowed, in the order of
    /// [`OptionalField::ALL`].
    pub ignored: [u64; OptionalField::ALL.len()],
}

/// The counters behind [`ExternalCounts`]. They are independent, so relaxed ordering is enough.
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
    pub(super) ignored: [AtomicU64; OptionalField::ALL.len()],
}

impl ExternalCounts {
    /// How often a field was ignored.
    pub fn ignored(&self, field: OptionalField) -> u64 {
        self.ignored[field as usize]
    }
}

impl ExternalCounters {
    /// Adds one.
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    /// A snapshot without `in_flight`.
    pub(super) fn read(&self) -> ExternalCounts {
        ExternalCounts {
            calls: self.calls.load(Relaxed),
            errors: self.errors.load(Relaxed),
            // Filled in by `External::counts`, from the call slots.
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
            ignored: std::array::from_fn(|field| self.ignored[field].load(Relaxed)),
        }
    }
}
