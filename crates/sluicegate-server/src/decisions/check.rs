//! Checks, refunds and resets of the JSON API, without the JSON: `http/routes.rs` reads and writes
//! it.

use sluicegate::{StoreError, Verdict};
use sluicegate_core::{Decision, MissingKey, Nanos, Subject};
use sluicegate_gate::admission::{Admitted, DescribedRequest, NamedCharges, Purpose, Refusal};
use sluicegate_gate::charging;
use sluicegate_gate::external::SpelledHeaders;
use sluicegate_gate::snapshot::Snapshot;

use super::{DecisionCall, DecisionsState};

/// The subject of a check: a request or a counter.
pub(super) enum CheckInput<'a> {
    /// A request: every limit that covers it.
    Request {
        subject: Subject<'a>,
        /// Every header line, for the limits service.
        headers: SpelledHeaders<'a>,
    },
    /// One counter, by the name of its limit and the parts of its key.
    Counter { limit: &'a str, key: &'a [&'a str] },
}

/// The answer to a check, allowed or not.
pub(crate) struct CheckAnswer {
    pub(crate) is_allowed: bool,
    /// The wait that makes it pass: zero when it passes already, `None` when no wait helps or
    /// nobody can say.
    pub(crate) retry_after: Option<Nanos>,
    /// A failure policy decided, because the store is away.
    pub(crate) is_degraded: bool,
    /// The decision of each limit; `None` when none was asked.
    pub(crate) decision: Option<Decision>,
}

/// The reason why a counter was not refunded or reset.
pub(super) enum CounterError {
    /// The limit is unknown, or a part of the counter's key is missing.
    Unidentified(MissingKey),
    /// The store is away, and nothing was done.
    Store(StoreError),
}

/// Charges all counters of a check or none, or peeks at them. A refusal that is no answer, such as
/// a missing key, is an error.
pub(super) async fn check(
    state: &DecisionsState,
    snapshot: &Snapshot,
    call: &DecisionCall,
    thing: &CheckInput<'_>,
    purpose: Purpose,
    cost: u64,
) -> Result<CheckAnswer, Refusal> {
    let cost = match purpose {
        Purpose::Spend => cost,
        Purpose::Peek(_) => 0,
    };
    let admission = match thing {
        CheckInput::Request { subject, headers } => {
            let candidate = DescribedRequest {
                subject,
                headers: *headers,
                cost,
            };
            call.admit(&state.gate, snapshot, candidate, purpose).await
        }
        CheckInput::Counter { limit, key } => {
            let charges = snapshot.policy.charge_named(limit, key, cost);
            let candidate = NamedCharges {
                subjects: &[],
                charges: charges.as_ref().map(Option::as_slice),
            };
            call.admit(&state.gate, snapshot, candidate, purpose).await
        }
    };
    CheckAnswer::of(admission, purpose)
}

/// Gives units of one counter back that were taken `age` ago.
pub(super) async fn refund(
    state: &DecisionsState,
    snapshot: &Snapshot,
    (limit, key): (&str, &[&str]),
    cost: u64,
    age: Nanos,
) -> Result<CheckAnswer, CounterError> {
    let charge = snapshot.policy.charge_named(limit, key, cost);
    let charge = charge.map_err(CounterError::Unidentified)?;
    match charging::refund(&state.gate, snapshot, charge.as_slice(), age).await {
        Verdict::Forward(decision) | Verdict::Reject(decision) => Ok(CheckAnswer {
            is_degraded: decision.is_degraded(),
            ..CheckAnswer::allowed(Some(decision))
        }),
        Verdict::Unavailable { error, .. } | Verdict::ForwardUnchecked(error) => {
            Err(CounterError::Store(error))
        }
        Verdict::Unidentified(missing) => Err(CounterError::Unidentified(missing)),
    }
}

/// Forgets one counter.
pub(super) async fn reset(
    state: &DecisionsState,
    snapshot: &Snapshot,
    (limit, key): (&str, &[&str]),
) -> Result<(), CounterError> {
    let charge = snapshot.policy.charge_named(limit, key, 0);
    let charge = charge.map_err(CounterError::Unidentified)?;
    charging::reset(&state.gate, snapshot, charge.as_slice())
        .await
        .map_err(CounterError::Store)
}

impl CheckAnswer {
    /// A store that heals is back within a second.
    const UNAVAILABLE_RETRY: Nanos = Nanos::SECOND;

    fn allowed(decision: Option<Decision>) -> Self {
        Self {
            is_allowed: true,
            retry_after: Some(Nanos::ZERO),
            is_degraded: false,
            decision,
        }
    }

    fn denied(retry_after: Option<Nanos>) -> Self {
        Self {
            is_allowed: false,
            retry_after,
            is_degraded: false,
            decision: None,
        }
    }

    fn of(admission: Result<Admitted, Refusal>, purpose: Purpose) -> Result<Self, Refusal> {
        Ok(match admission {
            Ok(Admitted {
                decision,
                is_unchecked,
                ..
            }) => Self {
                is_degraded: is_unchecked || decision.as_ref().is_some_and(Decision::is_degraded),
                ..Self::allowed(decision)
            },
            Err(Refusal::Limited(decision)) => Self {
                retry_after: match purpose {
                    Purpose::Spend => decision.retry_after(),
                    // A peek tells what is there now, not when there will be more.
                    Purpose::Peek(_) => None,
                },
                is_degraded: decision.is_degraded(),
                decision: Some(decision),
                ..Self::denied(None)
            },
            Err(Refusal::Unavailable { .. }) => Self {
                is_degraded: true,
                ..Self::denied(Some(Self::UNAVAILABLE_RETRY))
            },
            Err(Refusal::Banned) => Self::denied(None),
            Err(refusal) => return Err(refusal),
        })
    }
}
