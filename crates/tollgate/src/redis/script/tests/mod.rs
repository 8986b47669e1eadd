//! The scripts through a real Redis: every worked row, random programs against the machines, and faults.

mod faults;
mod golden;
mod model;
mod random;
mod server;
mod words;

use tollgate_core::{Outcome, Timestamp};

use super::{Answer, outcome};
use crate::redis::Item;

/// The outcome that an answer to this charge means.
fn told(item: &Item, answer: &Answer, now: Timestamp) -> Outcome {
    outcome(item.quota, item.cost, answer, now)
}
