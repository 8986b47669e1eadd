//! What a front door does with a request.

use tollgate_core::{Decision, MissingKey};

use crate::store::StoreError;

/// What to do with a request.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// Let it pass.
    Forward(Decision),
    /// Answer 429: a limit is spent.
    Reject(Decision),
    /// Answer 503: the store is away and the policy is closed.
    Unavailable(StoreError),
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
            Self::Unavailable(_) | Self::ForwardUnchecked(_) | Self::Unidentified(_) => None,
        }
    }
}

/// What happens to requests while the store is away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// They pass uncounted.
    Open,
    /// They are answered with 503.
    #[default]
    Closed,
}

/// Open or closed is decided here and nowhere else.
pub(crate) fn verdict(decided: Result<Decision, StoreError>, on_failure: FailurePolicy) -> Verdict {
    match (decided, on_failure) {
        (Ok(decision), _) if decision.is_allowed() => Verdict::Forward(decision),
        (Ok(decision), _) => Verdict::Reject(decision),
        (Err(error), FailurePolicy::Open) => Verdict::ForwardUnchecked(error),
        (Err(error), FailurePolicy::Closed) => Verdict::Unavailable(error),
    }
}
