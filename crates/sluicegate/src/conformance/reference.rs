//! The store that is right by being simple.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use sluicegate_core::algorithm::{self, Next, State, Step};
use sluicegate_core::{Charge, Key, List, Nanos, Outcome};

use crate::clock::Clock;
use crate::store::{Store, StoreError};

/// The machines over a map, one lock around all of it, nothing ever thrown away. What it answers is what every store
/// has to answer.
#[derive(Debug, Default)]
pub struct ReferenceStore {
    states: Mutex<HashMap<String, State>>,
}

impl ReferenceStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is stored for a key.
    pub fn state(&self, key: &Key<'_>) -> Option<State> {
        self.lock().get(&key.to_string()).copied()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, State>> {
        self.states.lock().expect("no holder of this lock panics")
    }
}

impl Store for ReferenceStore {
    async fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> Result<List<Outcome>, StoreError> {
        let now = clock.now();
        let mut states = self.lock();
        let look = |cost: u64, charge: &Charge<'_>, states: &HashMap<String, State>| {
            algorithm::decide(
                states.get(&charge.key.to_string()).copied(),
                charge.quota,
                cost,
                now,
            )
        };
        let steps: Vec<Step> = charges
            .iter()
            .map(|charge| look(charge.cost, charge, &states))
            .collect();
        let goes_on = charges
            .iter()
            .zip(&steps)
            .all(|(charge, step)| !charge.enforced || step.outcome.is_allowed());
        let mut outcomes = List::Empty;
        for (charge, step) in charges.iter().zip(steps) {
            if !goes_on && step.outcome.is_allowed() {
                // Another charge stopped the request: this one is not taken, and answers as to a look.
                outcomes.push(look(0, charge, &states).outcome);
                continue;
            }
            // A denial writes too, when it repairs a stored time that was absurdly far ahead.
            write(&mut states, &charge.key, step.next);
            outcomes.push(step.outcome);
        }
        Ok(outcomes)
    }

    async fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> Result<Outcome, StoreError> {
        let mut states = self.lock();
        let state = states.get(&charge.key.to_string()).copied();
        let step = algorithm::refund(state, charge.quota, charge.cost, age, clock.now());
        write(&mut states, &charge.key, step.next);
        Ok(step.outcome)
    }

    async fn reset<C: Clock>(&self, key: &Key<'_>, _clock: &C) -> Result<(), StoreError> {
        self.lock().remove(&key.to_string());
        Ok(())
    }
}

fn write(states: &mut HashMap<String, State>, key: &Key<'_>, next: Next<State>) {
    match next {
        Next::Same => {}
        Next::Set(state) => {
            states.insert(key.to_string(), state);
        }
        Next::Clear => {
            states.remove(&key.to_string());
        }
    }
}
