//! One charge in the form in which it travels to Redis.
//!
//! The library's `Charge` borrows from the caller. A request outlives that borrow, because it waits
//! in queues of other tasks, so the store copies the little that a script needs.

use sluicegate_core::{Draw, Pace, Quota};
use smallvec::SmallVec;

/// One charge on its way to Redis.
#[derive(Clone, Debug)]
pub(super) struct StoreCharge {
    /// Name of the counter in Redis, prefix included.
    pub(super) key: String,
    /// Hash of the same key. It is seeded per process and never leaves it; shadows and queues find
    /// counters by it.
    pub(super) hash: u64,
    /// Limits that the counter is decided under.
    pub(super) quota: Quota,
    /// The pace at which a value without a mark was written, where that is not the quota's own.
    pub(super) base: Option<Pace>,
    /// True when the value may hold digits only, because other programs read it, or because quotas come
    /// with the request: no mark is written to it.
    pub(super) digits_only: bool,
    /// Units to spend; 0 only looks at the counter.
    pub(super) cost: u64,
    /// False for a limit that only reports: its denial does not stop the request.
    pub(super) enforced: bool,
    /// Whether the units are taken, or only looked for.
    pub(super) draw: Draw,
}

/// The charges of one request, nearly always one: that one needs no allocation of its own.
pub(super) type StoreCharges = SmallVec<[StoreCharge; 1]>;
