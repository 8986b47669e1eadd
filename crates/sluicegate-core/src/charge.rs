//! A charge: units to spend from one counter.

use crate::failure::FailurePolicy;
use crate::key::{DetachedKey, Key};
use crate::limit::{Limit, QuotaSource};
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
    /// Whether the units are taken, or only looked for.
    pub draw: Draw,
    /// The limit's index in its policy.
    pub limit_index: usize,
    /// True when a denial stops the request. A shadow charge is taken or not on its own.
    pub enforced: bool,
    /// The treatment of the request while the store is away; `None` is the limiter's default.
    pub on_failure: Option<FailurePolicy>,
}

/// What becomes of the units of a charge that is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// They are taken.
    #[default]
    Take,
    /// They stay where they are: the charge is denied as if it took them, and when it is allowed it
    /// is answered as if it had cost nothing. Whoever takes them later may find them gone.
    Look,
}

impl Charge<'_> {
    /// The same charge, for use when its request is over.
    pub fn detach(&self) -> DetachedCharge {
        DetachedCharge {
            key: self.key.detach(),
            quota: self.quota,
            cost: self.cost,
            limit_index: self.limit_index,
            enforced: self.enforced,
            on_failure: self.on_failure,
        }
    }

    /// Returns true when the limit has no quota of its own and a service may know one. `quota` is
    /// then a stand-in: without an answer of the service, the charge is not limited.
    pub fn awaits_quota(&self) -> bool {
        let limit = self.key.limit();
        limit.quota.is_none() && limit.quota_from == QuotaSource::External
    }
}

/// A charge that outlives its request: its units are taken or given back after the answer.
///
/// ```
/// use sluicegate_core::{Limit, Policy, Quota};
///
/// let policy = Policy::new([Limit::per_client("per-ip", Quota::per_second(1))])?;
/// let detached = policy.charge_named("per-ip", &["203.0.113.7"], 1)?.map(|charge| charge.detach());
/// let detached = detached.expect("the limit has a quota");
/// let charge = detached.on(policy.limit_at(detached.limit_index()));
/// assert_eq!(charge.key.to_string(), "per-ip:203.0.113.7");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DetachedCharge {
    key: DetachedKey,
    quota: Quota,
    cost: u64,
    limit_index: usize,
    enforced: bool,
    on_failure: Option<FailurePolicy>,
}

impl DetachedCharge {
    /// The index of its limit in the policy.
    pub fn limit_index(&self) -> usize {
        self.limit_index
    }

    /// The charge on its limit, to be taken.
    pub fn on<'a>(&'a self, limit: &'a Limit) -> Charge<'a> {
        Charge {
            key: self.key.on(limit),
            quota: self.quota,
            cost: self.cost,
            draw: Draw::Take,
            limit_index: self.limit_index,
            enforced: self.enforced,
            on_failure: self.on_failure,
        }
    }
}
