//! A request whose counters are not in one place: taken part by part, and given back if any part denies.

use std::collections::VecDeque;

use sluicegate_core::algorithm::State;
use sluicegate_core::{List, Nanos, Outcome, Quota, Timestamp};

use super::request::{Operation, RequestError, StoreResponse};
use super::script::{self, ChargeReply, ChargeTime};
use super::store::{RequestSender, answer};
use super::{StoreCharge, StoreCharges};

/// Decides the charges in parallel, one call for all that `place` puts together.
///
/// What was taken is given back when another part denies, less what has flowed back since: never too much. A part that
/// cannot say means that nobody can.
pub(super) async fn decide<P: PartialEq>(
    errand: &RequestSender<'_>,
    charges: StoreCharges,
    place: impl Fn(&StoreCharge) -> P,
) -> Result<List<Outcome>, RequestError> {
    let send = |indices: Vec<usize>| {
        let part = indices
            .iter()
            .map(|index| charges[*index].clone())
            .collect();
        (indices, errand.send(Operation::Decide(part)))
    };
    let mut under_way: VecDeque<_> = together(0..charges.len(), |index| place(&charges[index]))
        .map(send)
        .collect();
    let mut results: Vec<PartResult> = (0..charges.len()).map(|_| PartResult::Unknown).collect();
    let mut fault = None;
    while let Some((indices, awaited)) = under_way.pop_front() {
        match answer(awaited).await {
            Ok(told) => note(told, &indices, &charges, &mut results),
            // The keys of this part are on two nodes for the moment: each goes alone.
            Err(RequestError::SplitKeys) => {
                under_way.extend(together(indices, |index| charges[index].hash).map(send))
            }
            Err(why) => fault = Some(why),
        }
    }
    let denied = results
        .iter()
        .zip(&charges)
        .any(|(result, charge)| charge.enforced && result.is_denied());
    if let Some(fault) = fault {
        give_back_unheard(errand, &charges, &results);
        return Err(fault);
    }
    if denied {
        return Ok(give_back(errand, &charges, &results).await);
    }
    Ok(results
        .iter()
        .zip(&charges)
        .map(|(result, charge)| result.outcome(charge))
        .collect())
}

/// The indices, those with the same place together.
fn together<P: PartialEq>(
    indices: impl IntoIterator<Item = usize>,
    place: impl Fn(usize) -> P,
) -> impl Iterator<Item = Vec<usize>> {
    let mut groups: Vec<(P, Vec<usize>)> = Vec::new();
    for index in indices {
        let place = place(index);
        match groups.iter_mut().find(|(known, _)| *known == place) {
            Some((_, group)) => group.push(index),
            None => groups.push((place, vec![index])),
        }
    }
    groups.into_iter().map(|(_, group)| group)
}

/// What is known of one charge.
enum PartResult {
    Unknown,
    /// Decided by the store.
    Decided {
        now: Timestamp,
        answer: ChargeReply,
        taken: bool,
    },
    /// Denied, or looked at beside a denial, from memory.
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

fn note(
    told: StoreResponse,
    indices: &[usize],
    charges: &[StoreCharge],
    results: &mut [PartResult],
) {
    match told {
        StoreResponse::Decided { now, answers } => {
            let goes_on = indices
                .iter()
                .zip(&answers)
                .all(|(index, answer)| answer.allowed || !charges[*index].enforced);
            for (index, answer) in indices.iter().zip(&answers) {
                let taken = goes_on && answer.allowed && charges[*index].cost > 0;
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

/// Gives back what was taken; those charges are answered as looks.
async fn give_back(
    errand: &RequestSender<'_>,
    charges: &[StoreCharge],
    results: &[PartResult],
) -> List<Outcome> {
    let refund = |(charge, result): (&StoreCharge, &PartResult)| {
        refund_of(charge, result).map(|operation| errand.send(operation))
    };
    let refunds: Vec<_> = charges.iter().zip(results).map(refund).collect();
    let mut outcomes = List::Empty;
    for ((charge, result), refund) in charges.iter().zip(results).zip(refunds) {
        let given_back = match refund {
            Some(awaited) => answer(awaited).await.ok(),
            None => None,
        };
        outcomes.push(match given_back {
            Some(StoreResponse::Refunded(refunded)) => refunded.outcome(charge.quota),
            _ => result.outcome(charge),
        });
    }
    outcomes
}

fn give_back_unheard(errand: &RequestSender<'_>, charges: &[StoreCharge], results: &[PartResult]) {
    for (charge, result) in charges.iter().zip(results) {
        refund_of(charge, result)
            .into_iter()
            .for_each(|operation| errand.send_and_forget(operation));
    }
}

fn refund_of(charge: &StoreCharge, result: &PartResult) -> Option<Operation> {
    let PartResult::Decided {
        now,
        answer,
        taken: true,
    } = result
    else {
        return None;
    };
    let drawn = ChargeTime::At(idle_from(charge, answer, *now));
    Some(Operation::Refund {
        charge: charge.clone(),
        drawn,
    })
}

/// Without the charge, the counter would have been full, and idle, from here on at the earliest; what would have been
/// lost to it by being idle is not given back.
fn idle_from(charge: &StoreCharge, answer: &ChargeReply, taken_at: Timestamp) -> Timestamp {
    match (charge.quota, answer.state) {
        (Quota::TokenBucket(bucket), Some(State::Instant(full_at))) => {
            let worth = Nanos::new(charge.cost.saturating_mul(bucket.interval().get()));
            full_at.before(worth).max(taken_at)
        }
        _ => taken_at,
    }
}
