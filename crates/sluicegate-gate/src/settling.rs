//! Settling: what the answer to a request does to the limits that count by it.
//!
//! Nobody waits for the store here. The work is done at once with counters in this process; what
//! has to wait for Redis goes on in the background, in bounds ([`Backlog`](sluicegate::Backlog)).

use std::sync::Arc;

use sluicegate::{BackgroundWork, PendingCharges};
use sluicegate_core::Answer;

use crate::charging::record_one;
use crate::gate::Gate;

/// Settles the charges of a request by its answer; `None` when the client went away before it came.
/// Returns at once.
pub fn settle_later(gate: &Arc<Gate>, pending: Box<PendingCharges>, answer: Option<Answer>) {
    if pending.is_settled_by(answer) {
        return;
    }
    let shared = Arc::clone(gate);
    let work = Box::pin(async move { settle(&shared, &pending, answer).await });
    let spawn = |rest: BackgroundWork| drop(gate.background.spawn(rest));
    if !gate.backlog.run(work, spawn) {
        gate.metrics.settlement_lost();
    }
}

/// Settles the charges of a request by the response that we refuse it with.
pub(crate) async fn settle_refused(gate: &Gate, pending: &PendingCharges, status: u16) {
    let answer = Answer::http(status);
    settle(gate, pending, Some(answer)).await;
}

async fn settle(gate: &Gate, pending: &PendingCharges, answer: Option<Answer>) {
    let taken = gate.engine.settle(pending, answer).await;
    let snapshot = gate.snapshot();
    for (charge, outcome) in &taken {
        record_one(gate, &snapshot, charge, outcome);
    }
}
