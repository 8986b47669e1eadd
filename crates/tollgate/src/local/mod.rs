//! The in-process store.
use crate::clock::Clock;
use crate::store::{Store, StoreError};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Mutex;
use tollgate_core::algorithm::{self, State};
use tollgate_core::{Charge, Key, List, Nanos, Outcome};

/// How much a [`LocalStore`] holds.
#[derive(Clone, Copy, Debug)]
pub struct LocalOptions {
    /// Keys.
    pub max_keys: usize,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self { max_keys: 1_000_000 }
    }
}

/// Counters in this process.
#[derive(Debug, Default)]
pub struct LocalStore {
    seed: foldhash::quality::RandomState,
    map: Mutex<HashMap<u64, State>>,
}

impl LocalStore {
    /// An empty store.
    pub fn new(_options: LocalOptions) -> Self {
        Self::default()
    }
}

impl Store for LocalStore {
    async fn decide<C: Clock>(&self, charges: &[Charge<'_>], clock: &C) -> Result<List<Outcome>, StoreError> {
        let now = clock.now();
        let mut map = self.map.lock().expect("never poisoned");
        let steps: Vec<_> = charges
            .iter()
            .map(|c| {
                let h = self.seed.hash_one(c.key);
                (h, algorithm::decide(map.get(&h).copied(), c.quota, c.cost, now), c.enforced)
            })
            .collect();
        let ok = steps.iter().all(|(_, s, e)| !e || s.outcome.is_allowed());
        for (h, s, _) in &steps {
            if ok {
                match s.next.apply(map.get(h).copied()) {
                    Some(state) => {
                        map.insert(*h, state);
                    }
                    None => {
                        map.remove(h);
                    }
                }
            }
        }
        Ok(steps.into_iter().map(|(_, s, _)| s.outcome).collect())
    }
    async fn refund<C: Clock>(&self, charge: &Charge<'_>, age: Nanos, clock: &C) -> Result<Outcome, StoreError> {
        let mut map = self.map.lock().expect("never poisoned");
        let h = self.seed.hash_one(charge.key);
        let s = algorithm::refund(map.get(&h).copied(), charge.quota, charge.cost, age, clock.now());
        match s.next.apply(map.get(&h).copied()) {
            Some(state) => {
                map.insert(h, state);
            }
            None => {
                map.remove(&h);
            }
        }
        Ok(s.outcome)
    }
    async fn reset(&self, key: &Key<'_>) -> Result<(), StoreError> {
        self.map.lock().expect("never poisoned").remove(&self.seed.hash_one(key));
        Ok(())
    }
}
