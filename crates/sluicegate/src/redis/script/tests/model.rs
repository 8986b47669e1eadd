//! The reference for the scripts: the pure code over a map, in the order of the requests.

use std::collections::HashMap;

use sluicegate_core::algorithm::{self, Next, State};
use sluicegate_core::{Nanos, Outcome, Quota, Timestamp};

use crate::redis::charge::StoreCharge;

/// Milliseconds that the scripts add to a time to live under a given clock.
pub const GRACE_MS: u64 = 3_600_000;

#[derive(Default)]
pub struct ReferenceModel {
    pub states: HashMap<String, State>,
}

/// One SET: key, value, PX.
pub type Write = [String; 3];

impl ReferenceModel {
    /// The outcomes of each request, and what is written after all of them.
    pub fn decide(
        &mut self,
        requests: &[&[StoreCharge]],
        now: Timestamp,
    ) -> (Vec<Vec<Outcome>>, Vec<Write>) {
        let mut lives: HashMap<String, u64> = HashMap::new();
        let outcomes = requests
            .iter()
            .map(|request| self.request(request, now, &mut lives))
            .collect();
        let mut writes: Vec<Write> = Vec::new();
        for item in requests.iter().flat_map(|request| request.iter()) {
            if let Some(life_ms) = lives.remove(&item.key) {
                writes.push([
                    item.key.clone(),
                    written(self.states[&item.key]),
                    (life_ms + GRACE_MS).to_string(),
                ]);
            }
        }
        (outcomes, writes)
    }

    fn request(
        &mut self,
        request: &[StoreCharge],
        now: Timestamp,
        lives: &mut HashMap<String, u64>,
    ) -> Vec<Outcome> {
        let mut taken: HashMap<&str, (Option<State>, Option<u64>)> = HashMap::new();
        let mut goes_on = true;
        let mut outcomes = Vec::new();
        for item in request {
            let before = self.states.get(&item.key).copied();
            let step = algorithm::decide(before, item.quota, item.cost, now);
            outcomes.push(step.outcome);
            goes_on &= step.outcome.is_allowed() || !item.enforced;
            // A denial may repair a stored value, but not undo an earlier charge of this request.
            if !step.outcome.is_allowed() && taken.contains_key(item.key.as_str()) {
                continue;
            }
            if step.outcome.is_allowed() {
                taken
                    .entry(&item.key)
                    .or_insert((before, lives.get(&item.key).copied()));
            }
            if let Next::Set(state) = step.next {
                self.states.insert(item.key.clone(), state);
                lives.insert(item.key.clone(), life_ms(state, item.quota, now));
            }
        }
        if goes_on {
            return outcomes;
        }
        for (key, (state, life_ms)) in taken {
            put(&mut self.states, key, state);
            put(lives, key, life_ms);
        }
        for (item, outcome) in request.iter().zip(&mut outcomes) {
            if outcome.is_allowed() {
                let state = self.states.get(&item.key).copied();
                *outcome = algorithm::decide(state, item.quota, 0, now).outcome;
            }
        }
        outcomes
    }

    /// The outcome, and what is done to the key: a SET, or nothing for a DEL.
    pub fn refund(
        &mut self,
        item: &StoreCharge,
        age: Nanos,
        now: Timestamp,
    ) -> (Outcome, Option<Write>) {
        let before = self.states.get(&item.key).copied();
        let step = algorithm::refund(before, item.quota, item.cost, age, now);
        let after = step.next.apply(before);
        put(&mut self.states, &item.key, after);
        let write = after.map(|state| {
            let life_ms = life_ms(state, item.quota, now) + GRACE_MS;
            [item.key.clone(), written(state), life_ms.to_string()]
        });
        (step.outcome, write)
    }
}

fn put<T>(map: &mut HashMap<String, T>, key: &str, value: Option<T>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}

/// A state as it is stored.
pub fn written(state: State) -> String {
    match state {
        State::Instant(instant) => instant.as_nanos().to_string(),
        State::Windows(windows) => {
            format!("{}:{}:{}", windows.index, windows.previous, windows.current)
        }
    }
}

/// Milliseconds until a state has no more use, plus two.
pub fn life_ms(state: State, quota: Quota, now: Timestamp) -> u64 {
    let millis = match (state, quota) {
        (State::Instant(full_at), Quota::TokenBucket(_)) => {
            full_at.since(now).get() / Nanos::MILLISECOND.get()
        }
        (State::Instant(packed), _) => packed.as_millis() - now.as_millis(),
        (State::Windows(windows), Quota::SlidingWindow(window)) => {
            windows.expires_at(window).as_millis() - now.as_millis()
        }
        (State::Windows(_), _) => panic!("no other machine keeps windows"),
    };
    millis + 2
}
