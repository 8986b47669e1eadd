//! A request whose counters are not in one place: taken part by part, and given back if any part denies.

use std::collections::VecDeque;

use sluicegate_core::algorithm::State;
use sluicegate_core::{List, Nanos, Outcome, Quota, Timestamp};

use super::ask::{Fault, Told, Work};
use super::script::{self, Answer, Drawn};
use super::store::{Errand, answer};
use super::{Item, Items};

/// Decides the charges in parallel, one call for all that `place` puts together.
///
/// What was taken is given back when another part denies, less what has flowed back since: never too much. A part that
/// cannot say means that nobody can.
pub(super) async fn decide<P: PartialEq>(
    errand: &Errand<'_>,
    items: Items,
    place: impl Fn(&Item) -> P,
) -> Result<List<Outcome>, Fault> {
    let send = |indices: Vec<usize>| {
        let part = indices.iter().map(|index| items[*index].clone()).collect();
        (indices, errand.send(Work::Decide(part)))
    };
    let mut under_way: VecDeque<_> = together(0..items.len(), |index| place(&items[index]))
        .map(send)
        .collect();
    let mut results: Vec<Heard> = (0..items.len()).map(|_| Heard::Unknown).collect();
    let mut fault = None;
    while let Some((indices, awaited)) = under_way.pop_front() {
        match answer(awaited).await {
            Ok(told) => note(told, &indices, &items, &mut results),
            // The keys of this part are on two nodes for the moment: each goes alone.
            Err(Fault::Split) => {
                under_way.extend(together(indices, |index| items[index].hash).map(send))
            }
            Err(why) => fault = Some(why),
        }
    }
    let denied = results
        .iter()
        .zip(&items)
        .any(|(result, item)| item.enforced && result.is_denied());
    if let Some(fault) = fault {
        give_back_unheard(errand, &items, &results);
        return Err(fault);
    }
    if denied {
        return Ok(give_back(errand, &items, &results).await);
    }
    Ok(results
        .iter()
        .zip(&items)
        .map(|(result, item)| result.outcome(item))
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
enum Heard {
    Unknown,
    /// Decided by the store.
    Told {
        now: Timestamp,
        answer: Answer,
        taken: bool,
    },
    /// Denied, or looked at beside a denial, from memory.
    Remembered(Outcome),
}

impl Heard {
    fn is_denied(&self) -> bool {
        match self {
            Self::Told { answer, .. } => !answer.allowed,
            Self::Remembered(outcome) => !outcome.is_allowed(),
            Self::Unknown => false,
        }
    }

    fn outcome(&self, item: &Item) -> Outcome {
        match self {
            Self::Told { now, answer, .. } => script::outcome(item.quota, item.cost, answer, *now),
            Self::Remembered(outcome) => *outcome,
            Self::Unknown => Outcome::Allowed {
                remaining: 0,
                reset_after: Nanos::ZERO,
            },
        }
    }
}

fn note(told: Told, indices: &[usize], items: &[Item], results: &mut [Heard]) {
    match told {
        Told::Decided { now, answers } => {
            let goes_on = indices
                .iter()
                .zip(&answers)
                .all(|(index, answer)| answer.allowed || !items[*index].enforced);
            for (index, answer) in indices.iter().zip(&answers) {
                let taken = goes_on && answer.allowed && items[*index].cost > 0;
                results[*index] = Heard::Told {
                    now,
                    answer: *answer,
                    taken,
                };
            }
        }
        Told::Remembered(outcomes) => {
            for (index, outcome) in indices.iter().zip(&outcomes) {
                results[*index] = Heard::Remembered(*outcome);
            }
        }
        Told::Refunded(_) | Told::Deleted | Told::Found(_) | Told::Kept | Told::Swapped(_) => {}
    }
}

/// Gives back what was taken; those charges are answered as looks.
async fn give_back(errand: &Errand<'_>, items: &[Item], results: &[Heard]) -> List<Outcome> {
    let refund =
        |(item, result): (&Item, &Heard)| refund_of(item, result).map(|work| errand.send(work));
    let refunds: Vec<_> = items.iter().zip(results).map(refund).collect();
    let mut outcomes = List::Empty;
    for ((item, result), refund) in items.iter().zip(results).zip(refunds) {
        let given_back = match refund {
            Some(awaited) => answer(awaited).await.ok(),
            None => None,
        };
        outcomes.push(match given_back {
            Some(Told::Refunded(refunded)) => refunded.outcome(item.quota),
            _ => result.outcome(item),
        });
    }
    outcomes
}

fn give_back_unheard(errand: &Errand<'_>, items: &[Item], results: &[Heard]) {
    for (item, result) in items.iter().zip(results) {
        refund_of(item, result)
            .into_iter()
            .for_each(|work| errand.send_and_forget(work));
    }
}

fn refund_of(item: &Item, result: &Heard) -> Option<Work> {
    let Heard::Told {
        now,
        answer,
        taken: true,
    } = result
    else {
        return None;
    };
    let drawn = Drawn::At(idle_from(item, answer, *now));
    Some(Work::Refund {
        item: item.clone(),
        drawn,
    })
}

/// Without the charge, the counter would have been full, and idle, from here on at the earliest; what would have been
/// lost to it by being idle is not given back.
fn idle_from(item: &Item, answer: &Answer, taken_at: Timestamp) -> Timestamp {
    match (item.quota, answer.state) {
        (Quota::TokenBucket(bucket), Some(State::Instant(full_at))) => {
            let worth = Nanos::new(item.cost.saturating_mul(bucket.interval().get()));
            full_at.before(worth).max(taken_at)
        }
        _ => taken_at,
    }
}
