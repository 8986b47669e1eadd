//! The store that is right by being simple: what the other stores are compared with.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use sluicegate_core::algorithm::{self, Next, State, Step};
use sluicegate_core::{Charge, Key, List, Nanos, Outcome};

use crate::clock::Clock;
use crate::store::{Store, StoreError};

/// The algorithms over a map, one lock around all of it, nothing ever thrown away. Its answers are
/// what every store has to answer.
///
/// For tests of a store of your own: play random charges against both and compare.
///
/// ```
/// use sluicegate::conformance::ReferenceStore;
/// use sluicegate::{Limit, Limiter, ManualClock, Policy, Quota, Subject};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let policy = Policy::new([Limit::new("all", Quota::per_second(1))])?;
/// let limiter = Limiter::new(policy, ReferenceStore::new(), ManualClock::default());
/// assert!(limiter.check(&Subject::ANONYMOUS, 1).await.is_forwarded());
/// assert!(!limiter.check(&Subject::ANONYMOUS, 1).await.is_forwarded());
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ReferenceStore {
    /// By the text of the key. A counter that is full is absent.
    states: Mutex<HashMap<String, State>>,
}

impl ReferenceStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state that is stored for a key; `None` when its counter is full or was never charged.
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
        let is_admitted = charges
            .iter()
            .zip(&steps)
            .all(|(charge, step)| !charge.enforced || step.outcome.is_allowed());
        let mut outcomes = List::Empty;
        for (charge, step) in charges.iter().zip(steps) {
            if !is_admitted && step.outcome.is_allowed() {
                // Another charge stopped the request: this one is not taken, and is answered as if
                // it had cost nothing.
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

/// Stores what an algorithm left.
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
