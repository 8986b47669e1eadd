//! The scripts through a real Redis: every worked row, random programs against the machines, and faults.

mod faults;
mod golden;
mod model;
mod random;
mod server;
mod words;

use sluicegate_core::{List, Outcome, Timestamp};

use super::{Answer, Reading, outcome};
use crate::redis::Item;
use crate::redis::wire::Reply;

/// The answers to one call.
#[derive(Debug)]
struct Answers {
    now: Timestamp,
    requests: Vec<Result<List<Answer>, String>>,
}

/// Reads the reply to a call over these requests.
fn read_decide(mut reply: Reply, requests: &[&[Item]]) -> Result<Answers, String> {
    let mut reading = Reading::new(
        &mut reply,
        requests.iter().map(|request| request.len()).sum(),
    )?;
    let answers = requests
        .iter()
        .map(|request| reading.request(request))
        .collect::<Result<_, _>>()?;
    Ok(Answers {
        now: reading.now,
        requests: answers,
    })
}

/// The outcome that an answer to this charge means.
fn told(item: &Item, answer: &Answer, now: Timestamp) -> Outcome {
    outcome(item.quota, item.cost, answer, now)
}
