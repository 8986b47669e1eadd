//! The reference for the scripts: the pure code over a map, in the order of the requests.

use std::collections::HashMap;

use sluicegate_core::algorithm::{self, ChangedStep, Next, State, Step};
use sluicegate_core::{Draw, Nanos, Outcome, Pace, Quota, Timestamp};

use crate::redis::charge::StoreCharge;

/// Milliseconds that the scripts add to a time to live under a given clock.
pub const GRACE_MS: u64 = 3_600_000;

#[derive(Default)]
pub struct ReferenceModel {
    counters: HashMap<String, ModelCounter>,
    /// Values as they were last written.
    pub values: HashMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ModelCounter {
    /// `None` when it is full.
    state: Option<State>,
    /// The pace at which the state was written.
    pace: Pace,
    forgiven_at: Option<Timestamp>,
}

/// One SET: key, value, PX.
pub type Write = [String; 3];

/// Milliseconds to live of the counters to write, by their keys.
type Lives = HashMap<String, u64>;

impl ReferenceModel {
    /// The outcomes of each request, and what is written after all of them.
    pub fn decide(
        &mut self,
        requests: &[&[StoreCharge]],
        now: Timestamp,
    ) -> (Vec<Vec<Outcome>>, Vec<Write>) {
        let mut lives = Lives::new();
        let outcomes = requests
            .iter()
            .map(|request| self.request(request, now, &mut lives))
            .collect();
        let mut writes: Vec<Write> = Vec::new();
        for item in requests.iter().flat_map(|request| request.iter()) {
            if let Some(life_ms) = lives.remove(&item.key) {
                writes.extend(self.write(item, life_ms, now));
            }
        }
        (outcomes, writes)
    }

    fn request(
        &mut self,
        request: &[StoreCharge],
        now: Timestamp,
        lives: &mut Lives,
    ) -> Vec<Outcome> {
        let mut taken: HashMap<&str, (ModelCounter, Option<u64>)> = HashMap::new();
        let mut goes_on = true;
        let mut outcomes = Vec::new();
        for item in request {
            let before = self.counter(item);
            let changed = before.charge(item, item.cost, now);
            let Step { next, outcome } = changed.step;
            if outcome.is_allowed() && item.draw == Draw::Look {
                outcomes.push(before.charge(item, 0, now).step.outcome);
                continue;
            }
            outcomes.push(outcome);
            goes_on &= outcome.is_allowed() || !item.enforced;
            // A denial may repair or convert a stored value, but not undo an earlier charge of this
            // request.
            if !outcome.is_allowed() && taken.contains_key(item.key.as_str()) {
                continue;
            }
            if outcome.is_allowed() {
                taken
                    .entry(&item.key)
                    .or_insert((before, lives.get(&item.key).copied()));
            }
            if let Next::Set(state) = next {
                self.counters
                    .insert(item.key.clone(), before.after(changed, item, now));
                lives.insert(item.key.clone(), life_ms(state, item.quota, now));
            }
        }
        if goes_on {
            return outcomes;
        }
        for (key, (counter, life_ms)) in taken {
            self.counters.insert(key.to_owned(), counter);
            put(lives, key, life_ms);
        }
        for (item, outcome) in request.iter().zip(&mut outcomes) {
            if outcome.is_allowed() {
                *outcome = self.counter(item).charge(item, 0, now).step.outcome;
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
        let before = self.counter(item);
        let changed = before.refund(item, age, now);
        if changed.step.next == Next::Same {
            return (changed.step.outcome, None);
        }
        let after = before.after(changed, item, now);
        self.counters.insert(item.key.clone(), after);
        let life_ms = after
            .state
            .map_or(0, |state| life_ms(state, item.quota, now));
        (changed.step.outcome, self.write(item, life_ms, now))
    }

    fn counter(&self, item: &StoreCharge) -> ModelCounter {
        let full = ModelCounter {
            state: None,
            pace: base(item),
            forgiven_at: None,
        };
        self.counters.get(&item.key).copied().unwrap_or(full)
    }

    /// The value of a counter as it is stored; `None` when it is deleted.
    fn write(&mut self, item: &StoreCharge, life_ms: u64, now: Timestamp) -> Option<Write> {
        let mut counter = self.counter(item);
        counter.forgiven_at = counter
            .forgiven_at
            .filter(|at| !algorithm::may_forgive(Some(*at), now));
        let mark = if counter.pace == base(item) || counter.state.is_none() {
            String::new()
        } else {
            format!("@{}", counter.pace)
        };
        let stamp = counter.forgiven_at.map(Timestamp::as_millis);
        let value = match (counter.state.map(written), stamp) {
            (Some(state), None) => format!("{state}{mark}"),
            (state, Some(ms)) => format!("{}{mark}!{ms}", state.as_deref().unwrap_or("0")),
            (None, None) => {
                self.counters.remove(&item.key);
                self.values.remove(&item.key);
                return None;
            }
        };
        let stamp_life_ms = stamp.map_or(0, |ms| ms + 60_000 - now.as_millis() + 2);
        let life_ms = life_ms.max(stamp_life_ms) + GRACE_MS;
        self.counters.insert(item.key.clone(), counter);
        self.values.insert(item.key.clone(), value.clone());
        Some([item.key.clone(), value, life_ms.to_string()])
    }
}

impl ModelCounter {
    fn charge(&self, item: &StoreCharge, cost: u64, now: Timestamp) -> ChangedStep {
        let may_forgive = algorithm::may_forgive(self.forgiven_at, now);
        let (quota, pace) = (item.quota, self.pace);
        let changed = algorithm::decide_written_at(self.state, pace, quota, cost, may_forgive, now);
        ChangedStep {
            forgives: changed.forgives && !item.digits_only,
            ..changed
        }
    }

    fn refund(&self, item: &StoreCharge, age: Nanos, now: Timestamp) -> ChangedStep {
        let StoreCharge { quota, cost, .. } = *item;
        if self.pace == quota.pace() {
            return unchanged(algorithm::refund(self.state, quota, cost, age, now));
        }
        let may_forgive = algorithm::may_forgive(self.forgiven_at, now);
        algorithm::refund_changed(self.state, self.pace, quota, cost, age, may_forgive, now)
    }

    /// The counter after a step that wrote.
    fn after(&self, changed: ChangedStep, item: &StoreCharge, now: Timestamp) -> Self {
        let state = changed.step.next.apply(self.state);
        let now_ms = Timestamp::from_millis(now.as_millis());
        Self {
            state,
            pace: match state {
                Some(_) => item.quota.pace(),
                None => base(item),
            },
            forgiven_at: if changed.forgives {
                Some(now_ms)
            } else {
                self.forgiven_at
            },
        }
    }
}

fn unchanged(step: Step) -> ChangedStep {
    ChangedStep {
        step,
        forgives: false,
    }
}

/// The pace of values without a mark.
fn base(item: &StoreCharge) -> Pace {
    item.base.unwrap_or(item.quota.pace())
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
