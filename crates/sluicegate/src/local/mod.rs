//! The store in this process: fixed memory, no lock for known keys, no debt forgiven below its
//! capacity.
//!
//! Read downwards: [`LocalStore`] takes lists of charges, all or nothing; `counters.rs` takes one
//! charge; `short_way.rs` takes one or two charges that fit; `address.rs` says where its counter is; `table.rs` is the lock-free table in which nearly
//! all counters live, `slot_update.rs` changes a slot of it, `slot_word.rs` is the 64 bits of one of
//! them, and `stripe.rs` and `side_map.rs` keep the few that do not fit. `keyed.rs` is the same
//! store without policies. `loom_tests.rs` checks the races in every order of events.

mod address;
mod capacity;
mod counters;
mod keyed;
#[cfg(all(test, sluicegate_loom))]
mod loom_tests;
mod short_way;
mod side_map;
mod slot_update;
mod slot_word;
mod stripe;
mod table;

pub use keyed::KeyedLimiter;
pub(crate) use short_way::BothPlain;

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::RandomState;
use sluicegate_core::algorithm::{self, Next, State, Step};
use sluicegate_core::{Charge, Draw, List, Nanos, Outcome, Quota, Timestamp};

use crate::clock::Clock;
use address::CounterId;
use capacity::CounterCapacity;
use counters::HashedCounters;
use slot_update::SlotChange;

/// The size of a [`LocalStore`].
///
/// ```
/// use sluicegate::{LocalOptions, LocalStore};
///
/// let store = LocalStore::new(LocalOptions { max_keys: 10_000, ..LocalOptions::default() });
/// assert!(store.memory_bytes() < 10_000 * 24);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Keys that are kept for certain; memory is fixed at about 22 bytes for each. When more than
    /// these are in debt at the same time, the keys nearest to full make room. A million by
    /// default.
    pub max_keys: usize,
    /// How often sliding windows and other counters beside the table are removed when they are
    /// full again. A minute by default.
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

/// Counters in this process.
///
/// A key that is full again equals one that was never seen, so its memory is taken over without
/// loss; a debt is never forgiven for being old. Hashing is seeded per store, so nobody outside can
/// choose keys that collide.
///
/// ```
/// use sluicegate::{Limit, Limiter, LocalOptions, LocalStore, MonotonicClock, Policy, Quota};
///
/// let policy = Policy::new([Limit::per_client("per-ip", Quota::per_second(20).burst(60))])?;
/// let store = LocalStore::new(LocalOptions { max_keys: 50_000, ..LocalOptions::default() });
/// let limiter = Limiter::new(policy, store, MonotonicClock::new());
/// # let _ = limiter;
/// # Ok::<(), sluicegate::PolicyErrors>(())
/// ```
pub struct LocalStore {
    /// Makes the hash of every key another one in each store.
    seed: RandomState,
    counters: HashedCounters,
}

impl LocalStore {
    /// An empty store; its memory is set aside now.
    pub fn new(options: LocalOptions) -> Self {
        let capacity = CounterCapacity::keeping(options.max_keys);
        Self::with_capacity(capacity, options.sweep_interval)
    }

    /// An empty store that never holds more than `keys_max` counters. It keeps fewer for certain:
    /// about half of them in slots, a quarter beside the table.
    pub(crate) fn holding_at_most(keys_max: usize) -> Self {
        let sweep_interval = LocalOptions::default().sweep_interval;
        Self::with_capacity(CounterCapacity::at_most(keys_max), sweep_interval)
    }

    fn with_capacity(capacity: CounterCapacity, sweep_interval: Nanos) -> Self {
        let seed = RandomState::default();
        let counters = HashedCounters::new(capacity, sweep_interval, seed.hash_one("side maps"));
        Self { seed, counters }
    }

    /// Counters that are not full now. Reads every slot: for metrics, not for requests.
    pub fn live_keys(&self, now: Timestamp) -> usize {
        self.counters.live(now)
    }

    /// Bytes set aside for counters.
    pub fn memory_bytes(&self) -> usize {
        self.counters.memory_bytes()
    }

    /// Removes counters that are full again. Happens by itself while requests come; a server may
    /// call it while none do, to have the memory of sliding windows back.
    pub fn sweep(&self, now: Timestamp) {
        self.counters.sweep(now);
    }

    #[inline(always)]
    #[expect(
        clippy::manual_hash_one,
        reason = "`hash_one` is not inlined, and every decision hashes a key"
    )]
    fn hash(&self, key: &(impl Hash + ?Sized)) -> u64 {
        let mut hasher = self.seed.build_hasher();
        key.hash(&mut hasher);
        hasher.finish()
    }

    #[inline(always)]
    fn id<'a>(&self, charge: &Charge<'a>) -> CounterId<'a> {
        CounterId::of(self.hash(&charge.key), &charge.key)
    }

    /// Takes all charges or none.
    #[inline]
    pub(crate) fn decide_all<C: Clock>(&self, charges: &[Charge<'_>], clock: &C) -> List<Outcome> {
        match charges {
            // One counter changes atomically by itself.
            [only] if only.draw == Draw::Take => {
                List::One(
                    self.counters
                        .decide(self.id(only), &only.quota, only.cost, clock),
                )
            }
            [first, second] if first.draw == Draw::Take && second.draw == Draw::Take => {
                self.decide_two(first, second, clock)
            }
            others => self.decide_others(others, clock),
        }
    }

    #[inline(never)]
    fn decide_others<C: Clock>(&self, charges: &[Charge<'_>], clock: &C) -> List<Outcome> {
        match charges {
            [] => List::Empty,
            [only] => List::One(self.look_at(only, clock.now())),
            several => self.decide_several(several, clock, clock.now()),
        }
    }

    /// Takes several charges, all or nothing.
    ///
    /// The idea: look at all charges first, so that a request denied by what is already spent
    /// writes nothing; then take them one by one, and give back what was taken when another request
    /// was quicker at one of them. Locking all counters of a request would be simpler to argue
    /// about, but then all callers would wait for the lock of a limit that they share.
    ///
    /// **Invariant:** no limit is ever exceeded. What may happen is a denial that a lock would have
    /// avoided: two requests that race for a last unit may both be denied, and the unit is there
    /// again afterwards.
    #[inline(never)]
    fn decide_several<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
        now: Timestamp,
    ) -> List<Outcome> {
        let looks = charges.iter().map(|charge| self.look(charge, now));
        let mut looks: List<Look<'_>> = looks.collect();
        if let Some(denied) = self.denied_already(charges, &looks, now) {
            return denied;
        }
        for index in 0..charges.len() {
            let charge = &charges[index];
            let look = &mut looks[index];
            if charge.draw == Draw::Look {
                // It had room a moment ago, and may do without for good.
                look.outcome = self.look_at(charge, now);
                continue;
            }
            self.take_looked(look, charge, now);
            if charge.enforced && !look.outcome.is_allowed() {
                return self.undo(charges, &looks, index, now, clock.now());
            }
        }
        looks.iter().map(|look| look.outcome).collect()
    }

    /// Gives back the charges before the one at `denied`, which keeps its answer; the others are only
    /// looked at.
    #[cold]
    fn undo(
        &self,
        charges: &[Charge<'_>],
        looks: &[Look<'_>],
        denied: usize,
        taken_at: Timestamp,
        now: Timestamp,
    ) -> List<Outcome> {
        for (charge, look) in charges.iter().zip(looks).take(denied) {
            if charge.draw == Draw::Take && look.outcome.is_allowed() {
                self.give_back(charge, look.before, taken_at, now);
            }
        }
        let answer = |index: usize| match index == denied {
            true => looks[index].outcome,
            false => self.peek(looks[index].id, &charges[index], taken_at),
        };
        (0..charges.len()).map(answer).collect()
    }

    /// The answers to a request of which some enforced charge does not fit now; `None` when all
    /// fit. Charges that would fit are answered as if they had cost nothing.
    fn denied_already(
        &self,
        charges: &[Charge<'_>],
        looks: &[Look<'_>],
        now: Timestamp,
    ) -> Option<List<Outcome>> {
        let both = || charges.iter().zip(looks);
        if !both().any(|(charge, look)| charge.enforced && !look.outcome.is_allowed()) {
            return None;
        }
        let answer = |(charge, look)| self.answer_look(look, charge, now);
        Some(both().map(answer).collect())
    }

    /// The answer to a charge that is not taken: as if it had cost nothing if it would fit, and else
    /// its denial, which may have to repair the counter.
    fn look_at(&self, charge: &Charge<'_>, now: Timestamp) -> Outcome {
        self.answer_look(&self.look(charge, now), charge, now)
    }

    fn answer_look(&self, look: &Look<'_>, charge: &Charge<'_>, now: Timestamp) -> Outcome {
        match look.outcome {
            Outcome::Allowed { .. } => self.peek(look.id, charge, now),
            _ if look.repairs => self.take(look.id, charge, now).0,
            denied => denied,
        }
    }

    /// The answer to a charge if it came alone. Nothing is taken, but a denial under a quota that
    /// was changed stores the converted counter.
    #[inline]
    fn look<'s>(&'s self, charge: &Charge<'s>, now: Timestamp) -> Look<'s> {
        let id = self.id(charge);
        let Charge { quota, cost, .. } = *charge;
        if let Some((outcome, planned)) = self.counters.look_at_slot(id, &quota, cost, now) {
            return Look {
                id,
                outcome,
                repairs: false,
                planned: Some(planned),
                before: None,
            };
        }
        let repairs = Cell::new(false);
        let outcome = self.counters.update(id, quota, cost, now, &|state| {
            let step = algorithm::decide(state, quota, cost, now);
            repairs.set(!step.outcome.is_allowed() && step.next != Next::Same);
            Step {
                next: Next::Same,
                outcome: step.outcome,
            }
        });
        Look {
            id,
            outcome,
            repairs: repairs.get(),
            planned: None,
            before: None,
        }
    }

    /// Takes a charge that was looked at: as it was planned then if its counter is still the same.
    #[inline]
    fn take_looked(&self, look: &mut Look<'_>, charge: &Charge<'_>, now: Timestamp) {
        if let Some(planned) = &look.planned
            && planned.store()
        {
            look.before = Some(State::Instant(planned.before(now)));
        } else {
            (look.outcome, look.before) = self.take(look.id, charge, now);
        }
    }

    /// The answer to a charge of zero units.
    fn peek(&self, id: CounterId<'_>, charge: &Charge<'_>, now: Timestamp) -> Outcome {
        self.counters.decide(id, &charge.quota, 0, &FixedTime(now))
    }

    /// Takes one charge if it fits; returns also the state that the counter had before.
    fn take(
        &self,
        id: CounterId<'_>,
        charge: &Charge<'_>,
        now: Timestamp,
    ) -> (Outcome, Option<State>) {
        let before = Cell::new(None);
        let Charge { quota, cost, .. } = *charge;
        let outcome = self.counters.update(id, quota, cost, now, &|state| {
            before.set(state);
            algorithm::decide(state, quota, cost, now)
        });
        (outcome, before.get())
    }

    /// Undoes a charge that was taken at `taken_at` from a counter that held `before`.
    ///
    /// Exact when no other charge came in between. Else never too much: without this charge, the
    /// counter would have been full, at the latest, at the later of `taken_at` and the instant in
    /// `before`, and a full counter gains nothing by waiting. The units of that idle time are not
    /// given back.
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
            .refund(self.id(charge), charge.quota, charge.cost, age, now)
    }

    /// Returns true when some counter owes more than its limit has.
    #[inline]
    pub(crate) fn has_excess(&self) -> bool {
        !self.counters.excess.is_empty()
    }

    /// The quota under which a charge is to be decided instead of its own.
    pub(crate) fn larger_quota(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Quota> {
        if charge.key.limit().is_ad_hoc() {
            return None;
        }
        let hash = self.hash(&charge.key);
        self.counters.excess.larger_quota(hash, &charge.quota, now)
    }

    /// Forgets the counter of a charge.
    pub(crate) fn forget(&self, charge: &Charge<'_>, now: Timestamp) {
        self.counters
            .reset(self.id(charge), charge.quota.pace(), now);
    }

    /// The state of a counter that is not full; `None` when it is.
    pub(crate) fn owed(&self, charge: &Charge<'_>, now: Timestamp) -> Option<State> {
        let (state, outcome) = self.counters.read(self.id(charge), charge.quota, now);
        // Without a state more is owed than the quota has: no charge is taken, so none is undone.
        let is_owing = outcome.reset_after() > Nanos::ZERO;
        is_owing.then(|| state.unwrap_or(State::Instant(now)))
    }

    /// Raises a counter to a state that was seen elsewhere, if that owes more. Doing so again
    /// changes nothing.
    pub(crate) fn raise(&self, charge: &Charge<'_>, seen: State, now: Timestamp) {
        self.counters
            .update(self.id(charge), charge.quota, 0, now, &|state| {
                let raised = algorithm::later(state, Some(seen), charge.quota);
                let Step { outcome, .. } = algorithm::decide(raised, charge.quota, 0, now);
                let next = match raised {
                    Some(raised) if outcome.reset_after() > Nanos::ZERO => Next::Set(raised),
                    // A state that is full by now would only take up a slot.
                    _ => Next::Same,
                };
                Step { next, outcome }
            });
    }
}

/// A charge that was looked at and not taken yet.
struct Look<'a> {
    id: CounterId<'a>,
    /// The answer if it came alone.
    outcome: Outcome,
    /// A denial has to be written: it repairs a stored time that was absurdly far ahead.
    repairs: bool,
    /// The change that takes it, where its counter is in a slot.
    planned: Option<SlotChange<'a>>,
    /// The state of the counter before it was taken.
    before: Option<State>,
}

/// A clock that shows a time that was read before, so that one request is decided at one instant.
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
