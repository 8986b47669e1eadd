//! What a front door does with a request.

use sluicegate_core::{Charge, Decision, FailurePolicy, FailureStatus, List, MissingKey};

use crate::store::StoreError;

/// What to do with a request.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Let it pass.
    Forward(Decision),
    /// Answer 429: a limit is spent.
    Reject(Decision),
    /// Answer with this status: the store is away and the policy of a limit is closed.
    Unavailable {
        /// 503, or as the first closed limit has it.
        status: FailureStatus,
        /// Why nobody knows.
        error: StoreError,
    },
    /// Let it pass uncounted: the store is away and the policy is open.
    ForwardUnchecked(StoreError),
    /// Answer 400: the request lacks what a limit is keyed by.
    Unidentified(MissingKey),
}

impl Verdict {
    /// Whether the request goes on.
    pub fn is_forwarded(&self) -> bool {
        matches!(self, Self::Forward(_) | Self::ForwardUnchecked(_))
    }

    /// The outcomes of every limit, when there was a decision.
    pub fn decision(&self) -> Option<&Decision> {
        match self {
            Self::Forward(decision) | Self::Reject(decision) => Some(decision),
            Self::Unavailable { .. } | Self::ForwardUnchecked(_) | Self::Unidentified(_) => None,
        }
    }
}

impl From<Decision> for Verdict {
    fn from(decision: Decision) -> Self {
        if decision.is_allowed() {
            Self::Forward(decision)
        } else {
            Self::Reject(decision)
        }
    }
}

/// What happens to a request that the store could not decide.
pub(crate) enum Instead<'a> {
    Refuse(FailureStatus),
    Pass,
    /// These charges are decided on this replica; the others go unchecked.
    Local(List<Charge<'a>>),
}

/// Open, closed or local is decided here and nowhere else. A limit that is not enforced refuses nobody.
pub(crate) fn instead<'a>(charges: &[Charge<'a>], by_default: FailurePolicy) -> Instead<'a> {
    let mut local = List::Empty;
    for charge in charges {
        match (policy_of(charge, by_default), charge.enforced) {
            (FailurePolicy::Closed(status), true) => return Instead::Refuse(status),
            (FailurePolicy::Local, _) => local.push(*charge),
            (FailurePolicy::Open, _) | (FailurePolicy::Closed(_), false) => {}
        }
    }
    if local.is_empty() {
        Instead::Pass
    } else {
        Instead::Local(local)
    }
}

/// Whose policy holds: the charge's own, which is its limit's or its tenant's, before the limiter's.
pub(crate) fn policy_of(charge: &Charge<'_>, by_default: FailurePolicy) -> FailurePolicy {
    charge.on_failure.unwrap_or(by_default)
}
