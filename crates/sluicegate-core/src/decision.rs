//! The decision on a request: one outcome per charge, and their consequence together.

use std::sync::Arc;

use crate::limit::Limit;
use crate::list::List;
use crate::own_rejection::OwnRejection;
use crate::policy::Policy;
use crate::quota::Quota;
use crate::time::Nanos;

/// The answer to one charge.
///
/// ```
/// use sluicegate_core::{Nanos, Outcome};
///
/// let denied = Outcome::Denied {
///     remaining: 0,
///     retry_after: Nanos::SECOND,
///     reset_after: Nanos::from_secs(3),
/// };
/// assert!(!denied.is_allowed());
/// assert_eq!(denied.retry_after(), Some(Nanos::SECOND));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The units were taken.
    Allowed {
        /// Units left for an immediate next charge.
        remaining: u64,
        /// The time until the counter is full again, counting the units just taken.
        reset_after: Nanos,
    },
    /// The units were not taken; the same charge passes after `retry_after` and not a nanosecond
    /// earlier.
    Denied {
        /// Units left; fewer than the charge asked for.
        remaining: u64,
        /// The wait after which the same charge passes if nobody else spends.
        retry_after: Nanos,
        /// The time until the counter is full again.
        reset_after: Nanos,
    },
    /// The charge is larger than the counter ever holds: no wait helps.
    TooLarge {
        /// Units left.
        remaining: u64,
        /// The time until the counter is full again.
        reset_after: Nanos,
    },
}

impl Outcome {
    /// Returns true when the units were taken.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }

    /// Units left for an immediate next charge.
    pub const fn remaining(&self) -> u64 {
        match *self {
            Self::Allowed { remaining, .. }
            | Self::Denied { remaining, .. }
            | Self::TooLarge { remaining, .. } => remaining,
        }
    }

    /// The wait that makes the charge pass: zero when allowed, `None` when no wait helps.
    pub const fn retry_after(&self) -> Option<Nanos> {
        match *self {
            Self::Allowed { .. } => Some(Nanos::ZERO),
            Self::Denied { retry_after, .. } => Some(retry_after),
            Self::TooLarge { .. } => None,
        }
    }

    /// The time until the counter is full again.
    pub const fn reset_after(&self) -> Nanos {
        match *self {
            Self::Allowed { reset_after, .. }
            | Self::Denied { reset_after, .. }
            | Self::TooLarge { reset_after, .. } => reset_after,
        }
    }
}

/// One charge of a decision and its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitOutcome {
    /// The index of the limit in its policy.
    pub limit_index: usize,
    /// The quota that was enforced, after factor or override.
    pub quota: Quota,
    /// The answer.
    pub outcome: Outcome,
    /// False for a charge that is only watched: it never stops the request.
    pub enforced: bool,
}

/// All outcomes of a request: either every enforced charge was taken or none was.
///
/// A decision has one entry per charge, in the order of the charges. An entry is `None` where the
/// charge went unchecked: the store was away and the limit's failure policy let it pass.
///
/// ```
/// use std::sync::Arc;
/// use sluicegate_core::{Decision, Limit, LimitOutcome, List, Nanos, Outcome, Policy, Quota};
///
/// let quota = Quota::per_second(10);
/// let policy = Arc::new(Policy::new([Limit::new("all", quota)])?);
/// let outcome = Outcome::Denied {
///     remaining: 0,
///     retry_after: Nanos::from_millis(100),
///     reset_after: Nanos::SECOND,
/// };
/// let charged = LimitOutcome {
///     limit_index: 0,
///     quota: quota.into(),
///     outcome,
///     enforced: true,
/// };
/// let decision = Decision::new(policy, List::One(Some(charged)));
/// assert!(!decision.is_allowed());
/// assert_eq!(decision.retry_after(), Some(Nanos::from_millis(100)));
/// let (limit, _) = decision.tightest().expect("one limit is enforced");
/// assert_eq!(limit.name, "all");
/// # Ok::<(), sluicegate_core::PolicyErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decision {
    /// The policy that the outcomes index: it may be replaced while the decision is written out.
    policy: Arc<Policy>,
    /// One per charge, in the order of the charges.
    entries: List<Option<LimitOutcome>>,
    /// Decided without the store, at least in part.
    degraded: bool,
}

impl Decision {
    /// Puts the entries of a request together; `policy` is the one whose limits they index.
    #[inline]
    pub fn new(policy: Arc<Policy>, entries: List<Option<LimitOutcome>>) -> Self {
        Self {
            policy,
            entries,
            degraded: false,
        }
    }

    /// Marks the outcomes as decided without the store.
    #[must_use]
    pub fn degraded(self) -> Self {
        Self {
            degraded: true,
            ..self
        }
    }

    /// Joins the outcomes of two stages of one request under one policy.
    #[must_use]
    pub fn and(mut self, later: &Self) -> Self {
        self.entries.extend(&later.entries);
        Self {
            degraded: self.degraded || later.degraded,
            ..self
        }
    }

    /// Returns true when this replica decided on its own because the store is or was away. Limits
    /// that went unchecked have no outcome.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Returns true when the outcomes index the limits of this very policy.
    pub fn is_under(&self, policy: &Arc<Policy>) -> bool {
        Arc::ptr_eq(&self.policy, policy)
    }

    /// One entry per charge, in the order of the charges; `None` for a charge that went unchecked.
    pub fn entries(&self) -> &[Option<LimitOutcome>] {
        &self.entries
    }

    /// Each limit that was asked, with its outcome; limits that went unchecked are left out.
    pub fn outcomes(&self) -> impl Iterator<Item = (&Limit, &LimitOutcome)> {
        self.entries
            .iter()
            .flatten()
            .map(|outcome| (self.policy.limit_at(outcome.limit_index), outcome))
    }

    /// Returns true when the request may go on: no enforced limit denied it.
    #[inline]
    pub fn is_allowed(&self) -> bool {
        let mut charged = self.entries.iter().flatten();
        !charged.any(|charged| charged.enforced && !charged.outcome.is_allowed())
    }

    /// The enforced limits that denied the request; shadow limits are left out.
    pub fn denials(&self) -> impl Iterator<Item = (&Limit, &LimitOutcome)> {
        self.outcomes()
            .filter(|(_, charged)| charged.enforced && !charged.outcome.is_allowed())
    }

    /// The response of its own that the first limit that denied the request has, with that limit.
    pub fn own_rejection(&self) -> Option<(&Limit, &OwnRejection)> {
        let (limit, _) = self.denials().next()?;
        Some((limit, limit.reject.as_deref()?))
    }

    /// The enforced limit that response headers describe: the denial with the longest wait, else
    /// the limit with the fewest units left.
    pub fn tightest(&self) -> Option<(&Limit, &LimitOutcome)> {
        let longest_wait = |(_, charged): &(&Limit, &LimitOutcome)| wait(&charged.outcome);
        self.denials().max_by_key(longest_wait).or_else(|| {
            self.outcomes()
                .filter(|(_, charged)| charged.enforced)
                .min_by_key(|(_, charged)| {
                    (
                        charged.outcome.remaining(),
                        std::cmp::Reverse(charged.outcome.reset_after()),
                    )
                })
        })
    }

    /// The wait after which every denied charge passes: zero when allowed, `None` when no wait
    /// helps.
    pub fn retry_after(&self) -> Option<Nanos> {
        self.denials()
            .map(|(_, charged)| charged.outcome.retry_after())
            .try_fold(Nanos::ZERO, |longest, wait| {
                wait.map(|wait| longest.max(wait))
            })
    }
}

/// The wait of a denial, for comparing: a charge that no wait helps counts as the longest.
fn wait(outcome: &Outcome) -> Nanos {
    outcome.retry_after().unwrap_or(Nanos::MAX)
}
