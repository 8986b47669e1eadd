//! What a front door does with a request.

use sluicegate_core::{Decision, FailureStatus, MissingKey};

use crate::store::StoreError;

/// The action that a front door takes on a request.
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
    /// True when the request goes on.
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
