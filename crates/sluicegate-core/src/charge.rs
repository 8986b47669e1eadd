//! A charge: units to spend from one counter.

use crate::failure::FailurePolicy;
use crate::key::Key;
use crate::limit::QuotaSource;
use crate::quota::Quota;

/// Spends `cost` units of `quota` at `key`; a cost of 0 is a peek.
///
/// Usually made by [`Policy::charges_for`](crate::Policy::charges_for); a store decides all charges
/// of a request together.
///
/// ```
/// use sluicegate_core::{algorithm, Limit, Policy, Quota, Subject, Timestamp};
///
/// let policy = Policy::new([Limit::new("all", Quota::per_second(3))])?;
/// let charge = policy.charges_for(&Subject::ANONYMOUS, 1)?[0];
/// assert!(charge.enforced);
/// // Any store decides it with the arithmetic of its quota.
/// let now = Timestamp::from_millis(1_800_000_000_000);
/// let step = algorithm::decide(None, charge.quota, charge.cost, now);
/// assert_eq!(step.outcome.remaining(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The counter.
    pub key: Key<'a>,
    /// The numbers to enforce, after factor or override.
    pub quota: Quota,
    /// Units to spend.
    pub cost: u64,
    /// The limit's index in its policy.
    pub limit_index: usize,
    /// True when a denial stops the request. A shadow charge is taken or not on its own.
    pub enforced: bool,
    /// The treatment of the request while the store is away; `None` is the limiter's default.
    pub on_failure: Option<FailurePolicy>,
}

impl Charge<'_> {
    /// Returns true when the limit has no quota of its own and a service may know one. `quota` is
    /// then a stand-in: without an answer of the service, the charge is not limited.
    pub fn awaits_quota(&self) -> bool {
        let limit = self.key.limit();
        limit.quota.is_none() && limit.quota_from == QuotaSource::External
    }
}
