//! A decision whose counters lie in several slots of a cluster.
//!
//! The idea: one script call decides all charges of a request at once, but only for keys of one
//! slot. So the charges are grouped by slot, each group is decided by its own node in parallel, and
//! if any enforced charge is denied, every group that was charged gets a compensating refund.
//!
//! **Invariant:** a refund never gives back more than the charge still holds: units that would have
//! flowed back unused stay lost. So a denied request leaves no charge behind, unless a node goes
//! away before its refund; such units come back with time. Between charge and refund another
//! request may be denied wrongly, but none is ever admitted wrongly.
//!
//! A two-phase protocol would avoid that, but needs locks in Redis that outlive a dead client.

use std::collections::VecDeque;

use sluicegate_core::algorithm::State;
use sluicegate_core::{Draw, List, Nanos, Outcome, Quota, Timestamp};

use super::charge::{StoreCharge, StoreCharges};
use super::request::{Operation, RequestError, StoreResponse};
use super::script::{self, ChargeReply, ChargeTime};
use super::sender::{RequestSender, response};

/// Decides the charges in parallel, one request for all charges with the same `group_of`.
///
/// An error of one part is the error of the whole: nobody knows whether that part admits it.
pub(super) async fn decide<P: PartialEq>(
    sender: &RequestSender<'_>,
    charges: StoreCharges,
    group_of: impl Fn(&StoreCharge) -> P,
) -> Result<List<Outcome>, RequestError> {
    let send = |indices: Vec<usize>| {
        let part = indices
            .iter()
            .map(|index| charges[*index].clone())
            .collect();
        (indices, sender.send(Operation::Decide(part)))
    };
    let mut in_flight: VecDeque<_> = grouped(0..charges.len(), |index| group_of(&charges[index]))
        .map(send)
        .collect();
    let mut results: Vec<PartResult> = (0..charges.len()).map(|_| PartResult::Unknown).collect();
    let mut failure = None;
    while let Some((indices, receiver)) = in_flight.pop_front() {
        match response(receiver).await {
            Ok(response) => record(response, &indices, &charges, &mut results),
            // The slot of this part is moving and its keys are on two nodes: each key goes alone.
            Err(RequestError::SplitKeys) => {
                in_flight.extend(grouped(indices, |index| charges[index].hash).map(send))
            }
            Err(error) => failure = Some(error),
        }
    }
    let denied = results
        .iter()
        .zip(&charges)
        .any(|(result, charge)| charge.enforced && result.is_denied());
    if let Some(error) = failure {
        refund_unheard(sender, &charges, &results);
        return Err(error);
    }
    if denied {
        return Ok(refund_all(sender, &charges, &results).await);
    }
    Ok(results
        .iter()
        .zip(&charges)
        .map(|(result, charge)| result.outcome(charge))
        .collect())
}

/// The indices in groups. There are few groups, so a search through a list is enough.
fn grouped<P: PartialEq>(
    indices: impl IntoIterator<Item = usize>,
    group_of: impl Fn(usize) -> P,
) -> impl Iterator<Item = Vec<usize>> {
    let mut groups: Vec<(P, Vec<usize>)> = Vec::new();
    for index in indices {
        let name = group_of(index);
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, group)) => group.push(index),
            None => groups.push((name, vec![index])),
        }
    }
    groups.into_iter().map(|(_, group)| group)
}

/// The result of one charge so far.
enum PartResult {
    /// Its part has not been answered; the counter may have been charged.
    Unknown,
    /// Decided by a node.
    Decided {
        /// The server's time of the decision.
        now: Timestamp,
        answer: ChargeReply,
        /// True when the units were spent: the charge and all others of its part were admitted.
        taken: bool,
    },
    /// Decided from a shadow. Nothing was spent.
    FromMemory(Outcome),
}

impl PartResult {
    fn is_denied(&self) -> bool {
        match self {
            Self::Decided { answer, .. } => !answer.allowed,
            Self::FromMemory(outcome) => !outcome.is_allowed(),
            Self::Unknown => false,
        }
    }

    fn outcome(&self, charge: &StoreCharge) -> Outcome {
        match self {
            Self::Decided { now, answer, .. } => {
                script::outcome(charge.quota, charge.cost, answer, *now)
            }
            Self::FromMemory(outcome) => *outcome,
            Self::Unknown => Outcome::Allowed {
                remaining: 0,
                reset_after: Nanos::ZERO,
            },
        }
    }
}

/// Files the response to one part under the charges of that part.
fn record(
    response: StoreResponse,
    indices: &[usize],
    charges: &[StoreCharge],
    results: &mut [PartResult],
) {
    match response {
        StoreResponse::Decided { now, answers } => {
            let is_admitted = indices
                .iter()
                .zip(&answers)
                .all(|(index, answer)| answer.allowed || !charges[*index].enforced);
            for (index, answer) in indices.iter().zip(&answers) {
                let StoreCharge { cost, draw, .. } = charges[*index];
                let taken = is_admitted && answer.allowed && cost > 0 && draw == Draw::Take;
                results[*index] = PartResult::Decided {
                    now,
                    answer: *answer,
                    taken,
                };
            }
        }
        StoreResponse::FromMemory(outcomes) => {
            for (index, outcome) in indices.iter().zip(&outcomes) {
                results[*index] = PartResult::FromMemory(*outcome);
            }
        }
        StoreResponse::Refunded(_)
        | StoreResponse::Deleted
        | StoreResponse::Value(_)
        | StoreResponse::Stored
        | StoreResponse::Swapped(_) => {}
    }
}

/// Refunds everything that was spent, and waits: the outcome of such a charge shows the counter as
/// the refund left it.
async fn refund_all(
    sender: &RequestSender<'_>,
    charges: &[StoreCharge],
    results: &[PartResult],
) -> List<Outcome> {
    let refund = |(charge, result): (&StoreCharge, &PartResult)| {
        refund_of(charge, result).map(|operation| sender.send(operation))
    };
    let refunds: Vec<_> = charges.iter().zip(results).map(refund).collect();
    let mut outcomes = List::Empty;
    for ((charge, result), refund) in charges.iter().zip(results).zip(refunds) {
        let refunded = match refund {
            Some(receiver) => response(receiver).await.ok(),
            None => None,
        };
        outcomes.push(match refunded {
            Some(StoreResponse::Refunded(reply)) => reply.outcome(charge.quota),
            _ => result.outcome(charge),
        });
    }
    outcomes
}

/// Refunds everything that was spent without waiting: the caller gets an error in any case.
fn refund_unheard(sender: &RequestSender<'_>, charges: &[StoreCharge], results: &[PartResult]) {
    for (charge, result) in charges.iter().zip(results) {
        refund_of(charge, result)
            .into_iter()
            .for_each(|operation| sender.send_and_forget(operation));
    }
}

/// The refund of a charge whose units were spent; `None` for any other.
fn refund_of(charge: &StoreCharge, result: &PartResult) -> Option<Operation> {
    let PartResult::Decided {
        now,
        answer,
        taken: true,
    } = result
    else {
        return None;
    };
    let charged = ChargeTime::At(idle_from(charge, answer, *now));
    Some(Operation::Refund {
        charge: charge.clone(),
        charged,
    })
}

/// The instant that the refund counts from: without the charge, the counter would have been full
/// from here on at the earliest. A full counter gains nothing, so the units that would have flowed
/// back since then are lost and are not refunded.
fn idle_from(charge: &StoreCharge, answer: &ChargeReply, taken_at: Timestamp) -> Timestamp {
    match (charge.quota, answer.state) {
        (Quota::TokenBucket(bucket), Some(State::Instant(full_at))) => {
            let worth = Nanos::new(charge.cost.saturating_mul(bucket.interval().get()));
            full_at.before(worth).max(taken_at)
        }
        _ => taken_at,
    }
}
