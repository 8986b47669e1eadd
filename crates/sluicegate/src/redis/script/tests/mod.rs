//! The scripts in a real Redis: worked rows, random programs against the pure code, and faults.

mod faults;
mod golden;
mod random;
mod server;
mod wire_format;

use sluicegate_core::{List, Outcome, Timestamp};

use super::{ChargeReply, DecideReply, outcome};
use crate::redis::charge::StoreCharge;
use crate::redis::wire::Reply;

/// The results of one call, request by request.
#[derive(Debug)]
struct DecidedCall {
    now: Timestamp,
    requests: Vec<Result<List<ChargeReply>, String>>,
}

/// Reads the reply to a call over these requests.
fn read_decide(mut reply: Reply, requests: &[&[StoreCharge]]) -> Result<DecidedCall, String> {
    let mut reading = DecideReply::new(
        &mut reply,
        requests.iter().map(|request| request.len()).sum(),
    )?;
    let answers = requests
        .iter()
        .map(|request| reading.request(request))
        .collect::<Result<_, _>>()?;
    Ok(DecidedCall {
        now: reading.now,
        requests: answers,
    })
}

/// The outcome of a charge.
fn outcome_of(item: &StoreCharge, answer: &ChargeReply, now: Timestamp) -> Outcome {
    outcome(item.quota, item.cost, answer, now)
}
