//! Runs programs and records their steps.

use proptest::prelude::*;
use sluicegate_core::algorithm::{self, Next, State};
use sluicegate_core::{Outcome, Quota, Timestamp};

use crate::program::{END, ProgramStep};

/// One step of a run: state and cost before, change and outcome after.
#[derive(Debug)]
pub struct StepTaken {
    pub before: Option<State>,
    pub cost: u64,
    pub now: u64,
    pub next: Next<State>,
    pub outcome: Outcome,
}

/// Runs a program and checks every step.
pub fn run(
    quota: Quota,
    moves: &[ProgramStep],
    start: u64,
    mut check: impl FnMut(&StepTaken) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let (mut state, mut now, mut last) = (None, start, None);
    for step in moves {
        now += step.wait(quota, last);
        if now > END {
            break;
        }
        let cost = step.cost(quota);
        let decided = algorithm::decide(state, quota, cost, Timestamp::from_nanos(now));
        check(&StepTaken {
            before: state,
            cost,
            now,
            next: decided.next,
            outcome: decided.outcome,
        })?;
        state = decided.next.apply(state);
        last = Some(decided.outcome);
    }
    Ok(())
}

/// Units that were taken, and when, in the unit of time that the bound uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    pub at: u64,
    pub cost: u64,
}

/// Every admission of a program, times in nanoseconds.
pub fn admissions(quota: Quota, moves: &[ProgramStep], start: u64) -> Vec<Admission> {
    let mut admitted = Vec::new();
    let kept = run(quota, moves, start, |step| {
        if step.outcome.is_allowed() && step.cost > 0 {
            admitted.push(Admission {
                at: step.now,
                cost: step.cost,
            });
        }
        Ok(())
    });
    kept.expect("looking finds no fault");
    admitted
}

/// The span from admission `i` to admission `j` in which more was taken than `most` allows, over
/// all pairs.
pub fn broken_span(admitted: &[Admission], most: impl Fn(u64) -> u128) -> Option<String> {
    admitted.iter().enumerate().find_map(|(i, first)| {
        let mut taken = 0_u128;
        admitted[i..].iter().find_map(|last| {
            taken += u128::from(last.cost);
            let span = last.at - first.at;
            let bound = most(span);
            (taken > bound).then(|| {
                format!("{taken} taken within {span} from {first:?} to {last:?}, at most {bound}")
            })
        })
    })
}

/// The state that a program leaves, and the instant of its last step.
pub fn state_after(quota: Quota, moves: &[ProgramStep], start: u64) -> (Option<State>, Timestamp) {
    let (mut state, mut now, mut last) = (None, start, None);
    for step in moves {
        now = (now + step.wait(quota, last)).min(END);
        let decided = algorithm::decide(state, quota, step.cost(quota), Timestamp::from_nanos(now));
        state = decided.next.apply(state);
        last = Some(decided.outcome);
    }
    (state, Timestamp::from_nanos(now))
}
