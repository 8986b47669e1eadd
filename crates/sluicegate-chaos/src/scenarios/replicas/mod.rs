//! Several replicas on one Redis. Each scenario is told where the `replica` program is.

mod calls;
mod clocks;
mod retry;
mod rollout;
mod sharing;
mod soak;

pub use calls::{hot_allowed_key, hot_denied_key};
pub use clocks::{redis_clock_steps, suspended_replica, time_before_1970};
pub use retry::{retry_after_by_given_clock, retry_after_in_real_time};
pub use rollout::rollout;
pub use sharing::{
    four_replicas, skewed_replicas, skewed_replicas_by_their_own_clocks, two_replicas,
};
pub use soak::soak;

use std::time::Duration;

use crate::Report;
use crate::replica::{ReplicaHistory, ReplicaRule};

/// Checks the bound of a limit with one key, for all replicas together.
fn check_bound(report: &mut Report, rule: ReplicaRule, history: &ReplicaHistory, bursts_lost: u64) {
    let admissions = history.run.admissions();
    let bound = rule
        .bound()
        .with_bursts_lost(bursts_lost)
        .check(&admissions);
    report.promise(
        !admissions.is_empty() && bound.holds(),
        format!("over every interval, {bound}"),
    );
}

/// No question met the failure policy: otherwise something else was measured.
fn check_answers(report: &mut Report, history: &ReplicaHistory) {
    let answers = history.run.answers();
    report.fact(format!("{answers:?}"));
    report.promise(
        history.run.last_failure().is_none(),
        "every question was decided by Redis, or from memory of it",
    );
}

/// From the first question to the last answer.
fn span(history: &ReplicaHistory) -> Duration {
    let asked = &history.run.asked;
    let first = asked.iter().map(|asked| asked.sent).min().unwrap_or(0);
    let last = asked.iter().map(|asked| asked.received).max().unwrap_or(0);
    Duration::from_nanos(last - first)
}
