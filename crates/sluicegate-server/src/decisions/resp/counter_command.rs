//! Commands about counters: read, carried out through admission, and answered.

use std::sync::Arc;

use sluicegate::{Charge, Nanos, StoreError, Verdict};
use sluicegate_gate::admission::{
    self, AdmissionRequest, Admitted, NamedCharges, Purpose, Refusal,
};
use sluicegate_gate::charging;
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};

use super::command::{CommandName, NamedCounter, ThrottleCommand};
use super::reply::{CounterReply, RespReply, number};
use crate::decisions::{DecisionCall, DecisionsState};

/// A command about one counter.
pub(super) enum CounterCommand<'a> {
    Throttle(ThrottleCommand<'a>),
    Check(NamedCounter<'a>),
    Peek(NamedCounter<'a>),
    Refund(NamedCounter<'a>),
    Reset(NamedCounter<'a>),
}

impl<'a> CounterCommand<'a> {
    /// Reads a command; an error is the reply that names the mistake.
    pub(super) fn of(
        snapshot: &Snapshot,
        name: CommandName,
        arguments: &[&'a [u8]],
    ) -> Result<Self, RespReply> {
        let named = || NamedCounter::with_cost(&snapshot.policy, arguments);
        match name {
            CommandName::Throttle => ThrottleCommand::of(arguments).map(Self::Throttle),
            CommandName::Check => named().map(Self::Check),
            CommandName::Peek => named().map(Self::Peek),
            CommandName::Refund => named().map(Self::Refund),
            CommandName::Reset => NamedCounter::whole(&snapshot.policy, arguments).map(Self::Reset),
            _ => Err(RespReply::wrong("this is no question about a counter")),
        }
    }

    /// Carries the command out.
    pub(super) async fn run(self, state: &DecisionsState, snapshot: &Arc<Snapshot>) -> RespReply {
        match self {
            Self::Throttle(throttle) => {
                let parts = [throttle.key];
                let charge = throttle.charge(&snapshot.policy, &parts);
                let admission = admit(state, snapshot, &[charge], Purpose::Spend).await;
                RespReply::to_check(admission, number(throttle.quota.limit()))
            }
            Self::Check(named) => match named.charge(&snapshot.policy, named.cost()) {
                Ok(charges) => {
                    let admission = admit(state, snapshot, &charges, Purpose::Spend).await;
                    RespReply::to_check(admission, -1)
                }
                Err(mistake) => refused(state, mistake),
            },
            Self::Peek(named) => match named.charge(&snapshot.policy, 0) {
                Ok(charges) => {
                    let purpose = Purpose::Peek(named.cost());
                    RespReply::to_peek(admit(state, snapshot, &charges, purpose).await)
                }
                Err(mistake) => refused(state, mistake),
            },
            Self::Refund(named) => match named.charge(&snapshot.policy, named.cost()) {
                Ok(charges) => {
                    let age = Nanos::ZERO;
                    let verdict = charging::refund(&state.gate, snapshot, &charges, age).await;
                    to_refund(state, verdict)
                }
                Err(mistake) => refused(state, mistake),
            },
            Self::Reset(named) => match named.charge(&snapshot.policy, 0) {
                Ok(charges) => {
                    let done = charging::reset(&state.gate, snapshot, &charges).await;
                    to_reset(state, done)
                }
                Err(mistake) => refused(state, mistake),
            },
        }
    }
}

/// Asks admission about one counter. It is the future of admission itself and not one around it:
/// pipelined commands are decided by the million.
fn admit<'a>(
    state: &'a DecisionsState,
    snapshot: &'a Snapshot,
    charges: &'a [Charge<'a>],
    purpose: Purpose,
) -> impl Future<Output = Result<Admitted, Refusal>> + 'a {
    let question = AdmissionRequest {
        candidate: NamedCharges {
            subjects: &[],
            charges: Ok(charges),
        },
        purpose,
        protocol: Some(DecisionProtocol::Resp),
        record: None,
    };
    admission::admit(&state.gate, snapshot, question)
}

/// Counts a command about counters with invalid arguments: it never comes to admission, which
/// counts all others.
pub(super) fn refused(state: &DecisionsState, mistake: RespReply) -> RespReply {
    DecisionCall::untraced(DecisionProtocol::Resp).refuse(&state.gate, DecisionAnswer::Refused);
    mistake
}

fn to_refund(state: &DecisionsState, verdict: Verdict) -> RespReply {
    match verdict {
        Verdict::Forward(decision) | Verdict::Reject(decision) => {
            RespReply::Counter(CounterReply::of(&decision, false, -1))
        }
        Verdict::ForwardUnchecked(error) | Verdict::Unavailable { error, .. } => {
            unavailable(state, &error)
        }
        Verdict::Unidentified(missing) => refused(state, RespReply::wrong(missing.to_string())),
    }
}

fn to_reset(state: &DecisionsState, done: Result<(), StoreError>) -> RespReply {
    match done {
        Ok(()) => RespReply::Word("OK"),
        Err(error) => unavailable(state, &error),
    }
}

/// Counts a refund or a reset that the store could not do.
fn unavailable(state: &DecisionsState, error: &StoreError) -> RespReply {
    DecisionCall::untraced(DecisionProtocol::Resp).refuse(&state.gate, DecisionAnswer::Unavailable);
    RespReply::unavailable(error)
}
