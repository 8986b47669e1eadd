//! The in-process store: fixed memory, lock-free for known keys, nothing forgiven below its capacity.

mod counters;
mod keyed;
#[cfg(all(test, sluicegate_loom))]
mod loom_tests;
mod side_map;
mod slot_word;
mod table;

pub use keyed::KeyedLimiter;

use std::cell::Cell;
use std::fmt;
use std::future::{Future, ready};
use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;
use sluicegate_core::algorithm::{self, Next, State, Step};
use sluicegate_core::{Charge, Key, List, Nanos, Outcome, Timestamp};

use crate::clock::Clock;
use crate::store::{Store, StoreError};
use counters::HashedCounters;

/// How much a [`LocalStore`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Keys that are kept for certain; memory is fixed at about 22 bytes for each. When more than these are spending
    /// at the same time, the keys nearest to full make room. A million by default.
    pub max_keys: usize,
    /// How often counters that are full again are removed from the maps beside the table. A minute by default.
    pub sweep_interval: Nanos,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            max_keys: 1_000_000,
            sweep_interval: Nanos::MINUTE,
        }
    }
}

/// HashedCounters in this process.
///
/// A key that is full again equals one that was never seen, so its place is taken over without loss; a debt is never
/// forgiven for being old. Hashing is seeded per store, so nobody outside can aim at a place.
pub struct LocalStore {
    seed: RandomState,
    counters: HashedCounters,
}

impl LocalStore {
    /// An empty store; its memory is set aside now.
    pub fn new(options: LocalOptions) -> Self {
        let seed = RandomState::default();
        let counters = HashedCounters::new(options, seed.hash_one("side maps"));
        Self { seed, counters }
    }

    /// HashedCounters that are not full now. Looks at every slot: for metrics, not for requests.
    pub fn live_keys(&self, now: Timestamp) -> usize {
        self.counters.live(now)
    }

    /// Bytes set aside for counters.
    pub fn memory_bytes(&self) -> usize {
        self.counters.memory_bytes()
    }

    /// Removes what is full again. Done by itself while requests come; a server may call it while none do.
    pub fn sweep(&self, now: Timestamp) {
        self.counters.sweep(now);
    }

    #[inline]
    fn hash(&self, key: impl Hash) -> u64 {
        self.seed.hash_one(key)
    }

    /// Takes all charges or none.
    pub(crate) fn decide_all<C: Clock>(&self, charges: &[Charge<'_>], clock: &C) -> List<Outcome> {
        match charges {
            [] => List::Empty,
            [only] => {
                List::One(
                    self.counters
                        .decide(self.hash(only.key), &only.quota, only.cost, clock),
                )
            }
            several => self.decide_several(several, clock, clock.now()),
        }
    }

    /// Looks at all charges first, so that a request denied by what is already spent writes nothing; then takes them one
    /// by one, and gives back what it took when another request was quicker at one of them.
    fn decide_several<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
        now: Timestamp,
    ) -> List<Outcome> {
        let hashes: Vec<u64> = charges.iter().map(|charge| self.hash(charge.key)).collect();
        if let Some(denied) = self.denied_already(charges, &hashes, now) {
            return denied;
        }
        let mut outcomes = List::Empty;
        let mut taken = Vec::with_capacity(charges.len());
        for (charge, &hash) in charges.iter().zip(&hashes) {
            let (outcome, before) = self.take(hash, charge, now);
            if charge.enforced && !outcome.is_allowed() {
                for (place, before) in taken {
                    let charge: &Charge<'_> = &charges[place];
                    self.give_back(charge, before, now, clock.now());
                }
                let denied_by = |place| {
                    if place == outcomes.len() {
                        Some(outcome)
                    } else {
                        None
                    }
                };
                let answer = |place| {
                    denied_by(place)
                        .unwrap_or_else(|| self.peek(hashes[place], &charges[place], now))
                };
                return (0..charges.len()).map(answer).collect();
            }
            if outcome.is_allowed() {
                taken.push((outcomes.len(), before));
            }
            outcomes.push(outcome);
        }
        outcomes
    }

    /// The answers to a request of which some enforced charge does not fit: what would fit is only looked at.
    fn denied_already(
        &self,
        charges: &[Charge<'_>],
        hashes: &[u64],
        now: Timestamp,
    ) -> Option<List<Outcome>> {
        let look = |(charge, hash): (&Charge<'_>, &u64)| {
            algorithm::decide(
                self.counters.read(*hash, charge.quota, now),
                charge.quota,
                charge.cost,
                now,
            )
        };
        let steps: Vec<Step> = charges.iter().zip(hashes).map(look).collect();
        if !charges
            .iter()
            .zip(&steps)
            .any(|(charge, step)| charge.enforced && !step.outcome.is_allowed())
        {
            return None;
        }
        let answer = |place: usize| match steps[place] {
            Step {
                outcome: Outcome::Allowed { .. },
                ..
            } => self.peek(hashes[place], &charges[place], now),
            // A denied step that writes repairs a stored time that was absurdly far ahead.
            Step {
                next: Next::Set(_), ..
            } => self.take(hashes[place], &charges[place], now).0,
            Step { outcome, .. } => outcome,
        };
        Some((0..charges.len()).map(answer).collect())
    }

    fn peek(&self, hash: u64, charge: &Charge<'_>, now: Timestamp) -> Outcome {
        self.counters
            .decide(hash, &charge.quota, 0, &FixedTime(now))
    }

    /// Takes one charge if it fits; also says what the counter held before.
    fn take(&self, hash: u64, charge: &Charge<'_>, now: Timestamp) -> (Outcome, Option<State>) {
        let before = Cell::new(None);
        let outcome = self.counters.update(hash, charge.quota, now, &|state| {
            before.set(state);
            algorithm::decide(state, charge.quota, charge.cost, now)
        });
        (outcome, before.get())
    }

    /// Undoes a charge that was taken at `taken_at` from a counter that held `before`.
    ///
    /// Exact when nobody else came in between. Else never too much: without the charge, the counter would have been
    /// idle since the later of both instants at most, and each idle nanosecond would have been lost to it.
    pub(crate) fn give_back(
        &self,
        charge: &Charge<'_>,
        before: Option<State>,
        taken_at: Timestamp,
        now: Timestamp,
    ) {
        let idle_from = match before {
            Some(State::Instant(full_at)) => full_at.max(taken_at),
            Some(State::Windows(_)) | None => taken_at,
        };
        let age = now.since(idle_from);
        self.give(charge, age, now);
    }

    /// Gives back the units of a charge that was drawn `age` ago.
    pub(crate) fn give(&self, charge: &Charge<'_>, age: Nanos, now: Timestamp) -> Outcome {
        self.counters
            .refund(self.hash(charge.key), charge.quota, charge.cost, age, now)
    }

    /// Forgets a counter.
    pub(crate) fn forget(&self, key: &Key<'_>, now: Timestamp) {
        self.counters.reset(self.hash(key), now);
    }

    /// What a counter holds, if it is not full.
    pub(crate) fn owed(&self, charge: &Charge<'_>, now: Timestamp) -> Option<State> {
        let state = self.counters.read(self.hash(charge.key), charge.quota, now);
        state.filter(|_| owes(state, charge, now))
    }

    /// Raises a counter to a state that was seen elsewhere, if that is later. Doing so again changes nothing.
    pub(crate) fn raise(&self, charge: &Charge<'_>, seen: State, now: Timestamp) {
        self.counters
            .update(self.hash(charge.key), charge.quota, now, &|state| {
                let raised = algorithm::later(state, Some(seen), charge.quota);
                let Step { outcome, .. } = algorithm::decide(raised, charge.quota, 0, now);
                let next = match raised {
                    Some(raised) if outcome.reset_after() > Nanos::ZERO => Next::Set(raised),
                    _ => Next::Same,
                };
                Step { next, outcome }
            });
    }
}

fn owes(state: Option<State>, charge: &Charge<'_>, now: Timestamp) -> bool {
    algorithm::decide(state, charge.quota, 0, now)
        .outcome
        .reset_after()
        > Nanos::ZERO
}

/// A time that was read before.
pub(crate) struct FixedTime(pub(crate) Timestamp);

impl Clock for FixedTime {
    fn now(&self) -> Timestamp {
        self.0
    }
}

impl Default for LocalStore {
    fn default() -> Self {
        Self::new(LocalOptions::default())
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore")
            .field("memory_bytes", &self.memory_bytes())
            .finish_non_exhaustive()
    }
}

impl Store for LocalStore {
    fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> impl Future<Output = Result<List<Outcome>, StoreError>> + Send {
        ready(Ok(self.decide_all(charges, clock)))
    }

    fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send {
        ready(Ok(self.give(charge, age, clock.now())))
    }

    fn reset<C: Clock>(
        &self,
        key: &Key<'_>,
        clock: &C,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.forget(key, clock.now());
        ready(Ok(()))
    }
}
