//! The decision about one question: the charges of its descriptors are taken, and the answer is
//! written.

use std::sync::Arc;

use sluicegate::{Decision, Nanos, Verdict};
use sluicegate_gate::access::Ruling;
use sluicegate_gate::admission::{Admitted, NamedCharges, Purpose, Refusal, ruling_of_caller};
use sluicegate_gate::charging;
use sluicegate_gate::gate::Gate;
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_gate::telemetry::metrics::DecisionAnswer;
use tonic::Status;

use super::answer::{self, ChargeOutcomes};
use super::descriptors::{DescriptorCharges, DescriptorError, DescriptorParts};
use super::question::Question;
use crate::decisions::{DecisionCall, DecisionsState};

/// Takes the charges of all descriptors or none. If they pass, the refunds of descriptors with
/// negative hits follow: nothing is given back for a request that is denied.
pub(super) async fn decide(
    state: &DecisionsState,
    call: &DecisionCall,
    question: &Question<'_>,
) -> Result<Vec<u8>, Status> {
    let (gate, snapshot) = (&state.gate, Arc::clone(&state.gate.snapshot()));
    // An invalid message never comes to admission, which counts all others.
    let refused = |status: Status| {
        call.refuse(gate, DecisionAnswer::Refused);
        status
    };
    let parts = DescriptorParts::of(question).map_err(refused)?;
    let subjects = parts.subjects();
    let charges = match DescriptorCharges::of(&snapshot.policy, &parts, &subjects) {
        Err(DescriptorError::Invalid(status)) => return Err(refused(status)),
        Err(DescriptorError::Unidentified(missing)) => Err(missing),
        Ok(charges) => Ok(charges),
    };
    let candidate = NamedCharges {
        subjects: &subjects,
        charges: charges.as_ref().map(|charges| &*charges.take),
    };
    let admission = call.admit(gate, &snapshot, candidate, Purpose::Spend).await;
    let taken = match admission {
        Ok(Admitted {
            decision,
            is_unchecked,
            ..
        }) if decision.is_some() || is_unchecked => decision,
        Err(Refusal::Limited(decision)) => Some(decision),
        // Lists and bans have decided, and no limit was asked.
        Ok(_) | Err(Refusal::Banned) => {
            let are_denied = subjects
                .iter()
                .map(|subject| ruling_of_caller(gate, &snapshot, subject) == Some(Ruling::Deny));
            return Ok(answer::without_limits(are_denied));
        }
        Err(refusal) => return Err(status_of(&refusal)),
    };
    let charges = charges.map_err(|missing| Status::invalid_argument(missing.to_string()))?;
    let is_allowed = taken.as_ref().is_none_or(Decision::is_allowed);
    let given = match charges.give.is_empty() || !is_allowed {
        true => None,
        false => refunded(gate, &snapshot, &charges).await?,
    };
    let outcomes = ChargeOutcomes::of(&charges, taken.as_ref(), given.as_ref());
    Ok(answer::answer(
        question.descriptors.len(),
        &charges,
        &outcomes,
        taken.as_ref(),
        &snapshot.headers,
    ))
}

/// The gRPC status of a refusal that has no code in Envoy's protocol.
fn status_of(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Unavailable { error, .. } => Status::unavailable(error.to_string()),
        Refusal::Unidentified(missing) => Status::invalid_argument(missing.to_string()),
        // Limits and bans are answers, and descriptors have neither a path nor credentials.
        Refusal::Limited(_)
        | Refusal::Banned
        | Refusal::Misread(_)
        | Refusal::Unauthorized(_)
        | Refusal::KeysUnavailable(_) => Status::permission_denied("the caller may not pass"),
    }
}

/// Refunds the charges of descriptors with negative hits.
async fn refunded(
    gate: &Gate,
    snapshot: &Snapshot,
    charges: &DescriptorCharges<'_>,
) -> Result<Option<Decision>, Status> {
    match charging::refund(gate, snapshot, &charges.give, Nanos::ZERO).await {
        Verdict::Forward(decision) | Verdict::Reject(decision) => Ok(Some(decision)),
        Verdict::ForwardUnchecked(_) => Ok(None),
        Verdict::Unavailable { error, .. } => Err(Status::unavailable(error.to_string())),
        Verdict::Unidentified(missing) => Err(Status::invalid_argument(missing.to_string())),
    }
}
