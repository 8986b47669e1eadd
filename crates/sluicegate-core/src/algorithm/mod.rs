//! The algorithms: each decides from stored state, quota, cost and time, and from nothing else.
//!
//! One file per algorithm, each with a twin in Lua that runs inside Redis. Stores read a state,
//! call [`decide`], and write what [`Step::next`] says; the functions here do neither.
//!
//! ```
//! use sluicegate_core::algorithm::{self, Next};
//! use sluicegate_core::{Nanos, Quota, Timestamp};
//!
//! let quota = Quota::from(Quota::per_second(1).burst(2));
//! let now = Timestamp::from_millis(1_800_000_000_000);
//! let mut state = None;
//! for _ in 0..2 {
//!     let step = algorithm::decide(state, quota, 1, now);
//!     assert!(step.outcome.is_allowed());
//!     state = step.next.apply(state);
//! }
//! let denied = algorithm::decide(state, quota, 1, now);
//! assert_eq!(denied.outcome.retry_after(), Some(Nanos::SECOND));
//! assert_eq!(denied.next, Next::Same);
//! ```
//!
//! **Invariant:** an algorithm never reads a clock, never writes, and gives the same digits as its
//! Lua twin.

mod changed;
pub mod drip;
pub mod sliding_window;
pub mod token_bucket;

pub use changed::{
    ChangedStep, Conversion, FORGIVENESS_INTERVAL, UNITS_MAX, change, convert, decide_changed,
    decide_written_at, may_forgive, outcome_of_excess, owing, refund_changed, repairs, units_owed,
};

use crate::decision::Outcome;
use crate::quota::Quota;
use crate::time::{Nanos, Timestamp};

/// The largest clock step that is believed. A stored time further ahead is a step or garbage, and
/// is repaired.
pub const MAX_CLOCK_STEP: Nanos = Nanos::from_secs(60);

/// The state of a counter between two charges. A counter without a state is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// One instant: when a token bucket is full again, or a drip bucket's packed end.
    Instant(Timestamp),
    /// The counts of a sliding window.
    Windows(sliding_window::Windows),
}

/// The change to a counter's state after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<S> {
    /// Leave it as it is: nothing is written.
    Same,
    /// Store this.
    Set(S),
    /// Remove it: the counter is full.
    Clear,
}

impl<S> Next<S> {
    /// The state after the step, given the state before it.
    pub fn apply(self, before: Option<S>) -> Option<S> {
        match self {
            Self::Same => before,
            Self::Set(state) => Some(state),
            Self::Clear => None,
        }
    }

    /// The same change with its state in another form.
    #[inline(always)]
    pub(crate) fn map<R>(self, wrap: impl FnOnce(S) -> R) -> Next<R> {
        match self {
            Self::Same => Next::Same,
            Self::Set(state) => Next::Set(wrap(state)),
            Self::Clear => Next::Clear,
        }
    }
}

/// The answer of an algorithm and the state it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<S = State> {
    /// The state to store.
    pub next: Next<S>,
    /// The answer to the charge.
    pub outcome: Outcome,
}

impl Step {
    /// The step of an algorithm that keeps one instant; a state of two windows counts as none.
    pub fn instants(self) -> Step<Timestamp> {
        let next = match self.next {
            Next::Set(State::Instant(instant)) => Next::Set(instant),
            Next::Same => Next::Same,
            Next::Set(State::Windows(_)) | Next::Clear => Next::Clear,
        };
        Step {
            next,
            outcome: self.outcome,
        }
    }
}

impl<S> Step<S> {
    /// A step that writes nothing.
    pub(crate) fn same(outcome: Outcome) -> Self {
        Self {
            next: Next::Same,
            outcome,
        }
    }

    /// The same step with its state in another form.
    #[inline(always)]
    pub fn map<R>(self, wrap: impl FnOnce(S) -> R) -> Step<R> {
        Step {
            next: self.next.map(wrap),
            outcome: self.outcome,
        }
    }
}

/// Decides one charge; a cost of 0 is a peek and writes nothing.
///
/// The state was written at the pace of this quota; one of another pace goes to [`decide_changed`].
#[inline(always)]
pub fn decide(state: Option<State>, quota: Quota, cost: u64, now: Timestamp) -> Step {
    match quota {
        Quota::TokenBucket(bucket) => {
            token_bucket::decide(instant(state), bucket, cost, now).map(State::Instant)
        }
        Quota::Drip(bucket) => drip::decide(instant(state), bucket, cost, now).map(State::Instant),
        Quota::SlidingWindow(window) => {
            sliding_window::decide(windows(state), window, cost, now).map(State::Windows)
        }
    }
}

/// Gives back `cost` units that were drawn `age` ago, never beyond full.
///
/// Units come back by themselves as time passes, so a refund is worth less the older it is. Without
/// the age a refund would create units: the counter has refilled past what it would have held.
pub fn refund(state: Option<State>, quota: Quota, cost: u64, age: Nanos, now: Timestamp) -> Step {
    match quota {
        Quota::TokenBucket(bucket) => {
            token_bucket::refund(instant(state), bucket, cost, age, now).map(State::Instant)
        }
        Quota::Drip(bucket) => {
            drip::refund(instant(state), bucket, cost, age, now).map(State::Instant)
        }
        Quota::SlidingWindow(window) => {
            sliding_window::refund(windows(state), window, cost, age, now).map(State::Windows)
        }
    }
}

/// Merges two observations of one counter: each unit that either saw taken is still taken.
///
/// Both were written at the pace of this quota; a state of another algorithm counts as none.
pub fn later(one: Option<State>, other: Option<State>, quota: Quota) -> Option<State> {
    match quota {
        Quota::TokenBucket(_) => instant(one).max(instant(other)).map(State::Instant),
        Quota::Drip(bucket) => both(instant(one), instant(other), |one, other| {
            drip::later(one, other, bucket)
        })
        .map(State::Instant),
        Quota::SlidingWindow(_) => {
            both(windows(one), windows(other), sliding_window::later).map(State::Windows)
        }
    }
}

/// Merges two states, or takes the one there is.
fn both<S>(one: Option<S>, other: Option<S>, later: impl FnOnce(S, S) -> S) -> Option<S> {
    match (one, other) {
        (Some(one), Some(other)) => Some(later(one, other)),
        (one, other) => one.or(other),
    }
}

/// The state of an algorithm that keeps one instant.
fn instant(state: Option<State>) -> Option<Timestamp> {
    match state {
        Some(State::Instant(instant)) => Some(instant),
        Some(State::Windows(_)) | None => None,
    }
}

/// The state of an algorithm that keeps two windows.
fn windows(state: Option<State>) -> Option<sliding_window::Windows> {
    match state {
        Some(State::Windows(windows)) => Some(windows),
        Some(State::Instant(_)) | None => None,
    }
}

/// The span from `now` to the instant `millis` after the whole millisecond that `now` is in.
///
/// Algorithms that count in milliseconds compute waits from a rounded-down now; the wait of a
/// caller begins at the true one and is shorter by the difference.
fn nanos_to(millis: u64, now: Timestamp) -> Nanos {
    let past_the_millisecond = now.as_nanos() % Nanos::MILLISECOND.get();
    Nanos::new(
        Nanos::from_millis(millis)
            .get()
            .saturating_sub(past_the_millisecond),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_counters_is_never_fuller_than_either() {
        let quotas = [
            Quota::from(Quota::per_second(10).burst(20)),
            Quota::leaky_bucket(20, Nanos::from_millis(300), 3).unwrap(),
            Quota::fixed_window(20, Nanos::SECOND).unwrap(),
            Quota::sliding_window(20, Nanos::SECOND).unwrap(),
        ];
        let start = Timestamp::from_millis(1_800_000_000_000);
        let spent = |quota, cost, at_ms| {
            decide(None, quota, cost, start.after(Nanos::from_millis(at_ms)))
                .next
                .apply(None)
        };
        for quota in quotas {
            for (first, second, at_ms) in pairs_of_charges(20, &[0, 1, 299, 300, 999, 1_000, 1_700])
            {
                let (one, other) = (spent(quota, first, 0), spent(quota, second, at_ms));
                let both = later(one, other, quota);
                assert_eq!(both, later(other, one, quota));
                assert_eq!(
                    both,
                    later(both, one, quota),
                    "{quota:?}: {first}, then {second} after {at_ms} ms"
                );
                for read_ms in (at_ms..at_ms + 2_000).step_by(50) {
                    let left = |state| {
                        decide(state, quota, 0, start.after(Nanos::from_millis(read_ms)))
                            .outcome
                            .remaining()
                    };
                    assert!(
                        left(both) <= left(one).min(left(other)),
                        "{quota:?}: {first}, {second} after {at_ms} ms"
                    );
                }
                assert_eq!(later(None, one, quota), one);
            }
        }
    }

    fn pairs_of_charges(most: u64, times: &[u64]) -> Vec<(u64, u64, u64)> {
        let costs = move || (1..=most).step_by(3);
        costs()
            .flat_map(|first| {
                costs().flat_map(move |second| times.iter().map(move |at| (first, second, *at)))
            })
            .collect()
    }
}
