//! The store that is right by being simple: what the other stores are compared with.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use sluicegate_core::algorithm::{self, ChangedStep, Next, State};
use sluicegate_core::{Charge, Draw, Key, List, Nanos, Outcome, Pace, Timestamp};

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
    /// By the text of the key.
    counters: Mutex<HashMap<String, ReferenceCounter>>,
}

/// All that there is to know of a counter.
#[derive(Clone, Copy, Debug)]
struct ReferenceCounter {
    /// `None` when it is full.
    state: Option<State>,
    /// The pace at which the state was written.
    pace: Pace,
    /// When it was last forgiven that it owed more than its quota had.
    forgiven_at: Option<Timestamp>,
}

impl ReferenceStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// The state that is stored for a key; `None` when its counter is full or was never charged.
    pub fn state(&self, key: &Key<'_>) -> Option<State> {
        self.lock().get(&key.to_string())?.state
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ReferenceCounter>> {
        self.counters.lock().expect("no holder of this lock panics")
    }
}

impl Store for ReferenceStore {
    async fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> Result<List<Outcome>, StoreError> {
        let now = clock.now();
        let mut counters = self.lock();
        let steps: Vec<ChangedStep> = charges
            .iter()
            .map(|charge| counter_of(&counters, charge).charge(charge, charge.cost, now))
            .collect();
        let is_admitted = charges
            .iter()
            .zip(&steps)
            .all(|(charge, changed)| !charge.enforced || changed.step.outcome.is_allowed());
        let mut outcomes = List::Empty;
        for (charge, changed) in charges.iter().zip(steps) {
            let mut counter = counter_of(&counters, charge);
            let is_taken = is_admitted && charge.draw == Draw::Take;
            if !is_taken && changed.step.outcome.is_allowed() {
                // Another charge stopped the request, or this one only looks: it is not taken, and
                // is answered as if it had cost nothing.
                outcomes.push(counter.charge(charge, 0, now).step.outcome);
                continue;
            }
            // A denial writes too, when it repairs a stored time that was absurdly far ahead, or
            // when the quota was changed.
            counter.write(changed, charge.quota.pace(), now);
            counters.insert(charge.key.to_string(), counter);
            outcomes.push(changed.step.outcome);
        }
        Ok(outcomes)
    }

    async fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> Result<Outcome, StoreError> {
        let now = clock.now();
        let mut counters = self.lock();
        let mut counter = counter_of(&counters, charge);
        let refunded = counter.refund(charge, age, now);
        counter.write(refunded, charge.quota.pace(), now);
        counters.insert(charge.key.to_string(), counter);
        Ok(refunded.step.outcome)
    }

    async fn reset<C: Clock>(&self, charge: &Charge<'_>, _clock: &C) -> Result<(), StoreError> {
        self.lock().remove(&charge.key.to_string());
        Ok(())
    }
}

/// The counter of a charge; a full one when it was never charged.
fn counter_of(
    counters: &HashMap<String, ReferenceCounter>,
    charge: &Charge<'_>,
) -> ReferenceCounter {
    let pace = charge.quota.pace();
    let full = ReferenceCounter {
        state: None,
        pace,
        forgiven_at: None,
    };
    let counter = counters.get(&charge.key.to_string());
    let counter = counter.copied().unwrap_or(full);
    // Quotas that come with the request read whatever is there as their own.
    if charge.key.limit().is_ad_hoc() {
        ReferenceCounter { pace, ..counter }
    } else {
        counter
    }
}

impl ReferenceCounter {
    /// The step of a charge of `cost`.
    fn charge(&self, charge: &Charge<'_>, cost: u64, now: Timestamp) -> ChangedStep {
        // What comes with the request is decided as it comes, whatever was forgiven before.
        let may_forgive =
            charge.key.limit().is_ad_hoc() || algorithm::may_forgive(self.forgiven_at, now);
        algorithm::decide_written_at(self.state, self.pace, charge.quota, cost, may_forgive, now)
    }

    /// The step of a refund.
    fn refund(&self, charge: &Charge<'_>, age: Nanos, now: Timestamp) -> ChangedStep {
        let Charge { quota, cost, .. } = *charge;
        if self.pace == quota.pace() {
            return ChangedStep {
                step: algorithm::refund(self.state, quota, cost, age, now),
                forgives: false,
            };
        }
        let may_forgive = algorithm::may_forgive(self.forgiven_at, now);
        algorithm::refund_changed(self.state, self.pace, quota, cost, age, may_forgive, now)
    }

    /// Stores what a step at `pace` left.
    fn write(&mut self, changed: ChangedStep, pace: Pace, now: Timestamp) {
        if changed.step.next != Next::Same {
            self.state = changed.step.next.apply(self.state);
            self.pace = pace;
        }
        if changed.forgives {
            self.forgiven_at = Some(now);
        }
    }
}
