//! Counters by the hash of their key: the lock-free table, with striped side maps behind it.
//!
//! A charge first tries the slot of its key, without a lock ([`update_slot`]). Only a key that is
//! not in the table goes further ([`HashedCounters::update`]): under the lock of its stripe it is
//! looked for again, decided, and stored where the least is lost.
//!
//! **Invariant:** a key is in one place at a time: in a slot, or in one of the two side maps of its
//! stripe. It changes places only under the lock of its stripe.
//!
//! The place depends on the pace of the quota too (`address.rs`), so a charge never finds a state
//! that means something else at its own pace. A key that is not where its quota says is looked for
//! at the other paces of its limit, converted, and moved ([`HashedCounters::update_changed`]).

use std::cell::Cell;

use sluicegate_core::algorithm::{self, Next, State, Step};
use sluicegate_core::{Nanos, Outcome, Pace, Quota, Timestamp};

use super::address::{CounterId, Forgivenesses, LimitPaces};
use super::capacity::CounterCapacity;
use super::side_map::{EntryLifetime, SharedCapacity, SideMap};
use super::slot_update::{BucketSlot, SlotChange, decide_word, update_slot};
use super::slot_word::SlotWord;
use super::stripe::Stripe;
use super::table::CounterTable;
use crate::clock::Clock;
use crate::excess::ExcessTable;
use crate::sync::{Mutex, MutexGuard};

/// All counters of a store.
pub(super) struct HashedCounters {
    table: CounterTable,
    /// A power of two of them; a key's stripe is chosen by its hash.
    stripes: Box<[Mutex<Stripe>]>,
    sweep_interval: Nanos,
    /// Counters that owe more than their limit has.
    pub(super) excess: ExcessTable,
}

impl HashedCounters {
    pub(super) fn new(capacity: CounterCapacity, sweep_interval: Nanos, seed: u64) -> Self {
        let overflow = SharedCapacity::new(capacity.overflow_keys);
        let apart = SharedCapacity::new(capacity.apart_keys);
        let stripe = |number: usize| {
            let seed = seed ^ number as u64;
            Mutex::new(Stripe {
                overflow: SideMap::new(&overflow, seed),
                apart: SideMap::new(&apart, seed),
                paces: LimitPaces::default(),
                forgivenesses: Forgivenesses::default(),
            })
        };
        Self {
            table: CounterTable::new(capacity.table_keys),
            stripes: (0..capacity.stripes).map(stripe).collect(),
            sweep_interval,
            excess: ExcessTable::default(),
        }
    }

    /// Decides one charge and stores the state it leaves, as one atomic change.
    #[inline]
    pub(super) fn decide(
        &self,
        id: CounterId<'_>,
        quota: &Quota,
        cost: u64,
        clock: &impl Clock,
    ) -> Outcome {
        // The slot is looked up before the clock is read, so that memory answers meanwhile.
        let slot = self.slot_of(quota, |pace| id.address(pace));
        let now = clock.now();
        // The common case has nothing but its own arithmetic between load and store.
        if let Some(slot) = slot
            && let Some(plan) = slot.plan(cost, now)
            && plan.take()
        {
            return plan.outcome;
        }
        self.decide_again(id, quota, cost, now)
    }

    /// Decides a charge that does not fit, or that another request came before.
    #[inline(never)]
    fn decide_again(&self, id: CounterId<'_>, quota: &Quota, cost: u64, now: Timestamp) -> Outcome {
        if let Some(BucketSlot { slot, hash, bucket }) =
            self.slot_of(quota, |pace| id.address(pace))
            && let Some(outcome) = update_slot(slot, hash, now, |word| {
                let step = decide_word(word, bucket, cost, now);
                (!algorithm::repairs(&step, *quota)).then_some(step)
            })
        {
            self.note_excess(id, quota, &outcome, now);
            return outcome;
        }
        self.decide_elsewhere(id, quota, cost, now)
    }

    /// The slot of a counter of a token bucket, if it has one; `address` is where it is at a pace.
    #[inline(always)]
    pub(super) fn slot_of<'a>(
        &'a self,
        quota: &'a Quota,
        address: impl FnOnce(Pace) -> u64,
    ) -> Option<BucketSlot<'a>> {
        let Quota::TokenBucket(bucket) = quota else {
            return None;
        };
        let hash = address(quota.pace());
        let slot = self.table.find(hash)?;
        Some(BucketSlot { slot, hash, bucket })
    }

    /// The answer to a charge of a token bucket whose counter is in a slot, with the change that takes
    /// it; nothing is stored. `None` for every other counter, and for a denial that must be written.
    #[inline]
    pub(super) fn look_at_slot(
        &self,
        id: CounterId<'_>,
        quota: &Quota,
        cost: u64,
        now: Timestamp,
    ) -> Option<(Outcome, SlotChange<'_>)> {
        let Quota::TokenBucket(bucket) = quota else {
            return None;
        };
        let hash = id.address(quota.pace());
        let slot = self.table.find(hash)?;
        let word = slot.read(hash)?;
        let step = decide_word(word, bucket, cost, now);
        let change = match step.next {
            Next::Set(instant) if step.outcome.is_allowed() => {
                SlotChange::new(slot, word, word.with(instant))
            }
            Next::Same if slot.still_holds(word) => SlotChange::new(slot, word, word),
            _ => return None,
        };
        self.note_excess(id, quota, &step.outcome, now);
        Some((step.outcome, change))
    }

    /// Notes a counter at the pace of its quota that denied a charge because it owes more than its
    /// limit has.
    #[inline]
    fn note_excess(&self, id: CounterId<'_>, quota: &Quota, outcome: &Outcome, now: Timestamp) {
        if let (Outcome::Denied { reset_after, .. }, Quota::TokenBucket(bucket)) = (outcome, quota)
            && *reset_after > bucket.tolerance()
            && id.has_limit()
        {
            let units = reset_after.get().div_ceil(bucket.interval().get());
            self.excess.note(id.key_hash(), quota.pace(), units, now);
        }
    }

    /// Decides a charge of another algorithm, or of a key that is not in the table.
    #[cold]
    #[inline(never)]
    fn decide_elsewhere(
        &self,
        id: CounterId<'_>,
        quota: &Quota,
        cost: u64,
        now: Timestamp,
    ) -> Outcome {
        self.update(id, *quota, cost, now, &|state| {
            algorithm::decide(state, *quota, cost, now)
        })
    }

    /// Gives back units that were drawn `age` ago.
    pub(super) fn refund(
        &self,
        id: CounterId<'_>,
        quota: Quota,
        cost: u64,
        age: Nanos,
        now: Timestamp,
    ) -> Outcome {
        self.update(id, quota, 0, now, &|state| {
            algorithm::refund(state, quota, cost, age, now)
        })
    }

    /// Runs `step` on the state of a counter and stores the state it leaves, as one atomic change.
    /// `cost` is what the step charges, 0 where it charges nothing.
    ///
    /// `step` may run more than once; only the last run counts. It is a `dyn` function on purpose:
    /// this path is for keys that are new or rare, and one copy of it is enough.
    #[inline(never)]
    pub(super) fn update(
        &self,
        id: CounterId<'_>,
        quota: Quota,
        cost: u64,
        now: Timestamp,
        step: &dyn Fn(Option<State>) -> Step,
    ) -> Outcome {
        let hash = id.address(quota.pace());
        let is_limited = |step: &Step| id.has_limit() && algorithm::repairs(step, quota);
        let unless_limited = |state| Some(step(state)).filter(|step| !is_limited(step));
        if fits_in_table(quota)
            && let Some(outcome) = self.update_in_table(hash, now, &unless_limited)
        {
            self.note_excess(id, &quota, &outcome, now);
            return outcome;
        }
        let mut stripe = self.stripe(hash);
        let may_forgive = stripe.forgivenesses.may_forgive(id, now);
        let forgives = Cell::new(false);
        let limited = |state: Option<State>| {
            let step = step(state);
            forgives.set(is_limited(&step));
            if may_forgive || !is_limited(&step) {
                return step;
            }
            Step {
                next: Next::Same,
                outcome: algorithm::outcome_of_excess(state, quota.pace(), quota, cost, now),
            }
        };
        if let Some(outcome) = self.update_known(&mut stripe, hash, quota, now, &limited) {
            if forgives.get() && may_forgive {
                stripe.forgivenesses.add(id, now);
            }
            self.note_excess(id, &quota, &outcome, now);
            return outcome;
        }
        for pace in stripe.paces.learn(id, quota.pace()) {
            if let Some(outcome) =
                self.update_changed(&mut stripe, id, pace, quota, cost, now, step)
            {
                return outcome;
            }
        }
        let Step { next, outcome } = step(None);
        if let Next::Set(state) = next {
            self.store_new(&mut stripe, hash, state, quota, outcome, now);
        }
        outcome
    }

    /// Runs `step` on a key that is where its quota says; `None` when it is not there. Under the
    /// lock of the stripe nobody else can bring it there.
    fn update_known(
        &self,
        stripe: &mut Stripe,
        hash: u64,
        quota: Quota,
        now: Timestamp,
        step: &dyn Fn(Option<State>) -> Step,
    ) -> Option<Outcome> {
        let in_table = fits_in_table(quota);
        let side = stripe.map_for(hash, in_table);
        side.sweep_if_due(now, self.sweep_interval);
        if in_table {
            if let Some(outcome) = self.update_in_table(hash, now, &|state| Some(step(state))) {
                return Some(outcome);
            }
        } else if let Some(instant) = self.table.take_out(hash, now) {
            // The size was changed to one that no slot can hold: the debt moves with it.
            let lifetime = EntryLifetime {
                full_at: instant,
                eviction_rank: instant,
            };
            side.put(hash, State::Instant(instant), lifetime, now);
        }
        let aside = side.get(hash)?;
        let Step { next, outcome } = step(Some(aside));
        match next {
            Next::Same => {}
            Next::Clear => side.remove(hash),
            Next::Set(state) => side.put(hash, state, EntryLifetime::of(quota, outcome, now), now),
        }
        Some(outcome)
    }

    /// Runs `step` on a key that was last charged at another pace, and moves it if the step writes;
    /// `None` when it is not there either.
    ///
    /// A charge under the old quota may come in between without a lock. Then the key is not moved
    /// but looked at again, so that no unit is lost. Once it is taken out, such a charge has to wait
    /// for the lock of the stripe, and finds it at the new place.
    #[expect(
        clippy::too_many_arguments,
        reason = "a place, the two paces, and what to do there"
    )]
    fn update_changed(
        &self,
        stripe: &mut Stripe,
        id: CounterId<'_>,
        from: Pace,
        quota: Quota,
        cost: u64,
        now: Timestamp,
        step: &dyn Fn(Option<State>) -> Step,
    ) -> Option<Outcome> {
        let old = id.address(from);
        loop {
            let slot = self.table.find(old);
            let word = slot.and_then(|slot| Some((slot, slot.read(old)?)));
            let state = match word {
                Some((_, word)) => State::Instant(word.instant(now)),
                None => stripe.maps().into_iter().find_map(|map| map.get(old))?,
            };
            let may_forgive = stripe.forgivenesses.may_forgive(id, now);
            let changed = algorithm::change(Some(state), from, quota, cost, may_forgive, now, step);
            let Step { next, outcome } = changed.step;
            let is_unchanged = match (word, next) {
                (Some((slot, word)), Next::Same) => slot.still_holds(word),
                (Some((slot, word)), _) => slot.abandon(word, now),
                (None, _) => true,
            };
            if !is_unchanged {
                continue;
            }
            if next != Next::Same {
                stripe.maps().into_iter().for_each(|map| map.remove(old));
            } else if matches!(outcome, Outcome::Denied { .. }) {
                let units = algorithm::units_owed(Some(state), from, now);
                self.excess.note(id.key_hash(), from, units, now);
            }
            if changed.forgives {
                stripe.forgivenesses.add(id, now);
            }
            if let Next::Set(state) = next {
                let hash = id.address(quota.pace());
                self.store_new(stripe, hash, state, quota, outcome, now);
            }
            return Some(outcome);
        }
    }

    /// Stores a key that is nowhere yet.
    fn store_new(
        &self,
        stripe: &mut Stripe,
        hash: u64,
        state: State,
        quota: Quota,
        outcome: Outcome,
        now: Timestamp,
    ) {
        let lifetime = EntryLifetime::of(quota, outcome, now);
        let in_table = fits_in_table(quota);
        let side = stripe.map_for(hash, in_table);
        match state {
            State::Instant(instant) if in_table => {
                // Again when a key of another stripe was given the slot first.
                while !self.insert(hash, instant, lifetime, side, now) {}
            }
            state => side.put(hash, state, lifetime, now),
        }
    }

    /// Runs `step` on the slot of `hash`; `None` when the key is not in the table, or the step is.
    fn update_in_table(
        &self,
        hash: u64,
        now: Timestamp,
        step: &dyn Fn(Option<State>) -> Option<Step>,
    ) -> Option<Outcome> {
        let step = |word: SlotWord| {
            let state = Some(State::Instant(word.instant(now)));
            step(state).map(Step::instants)
        };
        update_slot(self.table.find(hash)?, hash, now, step)
    }

    /// Stores a new key: in a slot where nothing is lost, or in the overflow map while there is
    /// room, or else in place of the key of its window that is nearest to full. Returns false when
    /// a key of another stripe was given the slot first.
    fn insert(
        &self,
        hash: u64,
        instant: Timestamp,
        lifetime: EntryLifetime,
        side: &mut SideMap,
        now: Timestamp,
    ) -> bool {
        let Some(candidate) = self.table.find_candidate(hash, now) else {
            return false;
        };
        if candidate.debt > Nanos::ZERO && side.has_room(now) {
            side.put(hash, State::Instant(instant), lifetime, now);
            return true;
        }
        candidate.give_to(hash, instant)
    }

    /// The state of a counter and the answer to a charge of zero units, which stores nothing. The
    /// state is `None` for a full counter, and for one that owes more than its quota has since that
    /// was changed.
    pub(super) fn read(
        &self,
        id: CounterId<'_>,
        quota: Quota,
        now: Timestamp,
    ) -> (Option<State>, Outcome) {
        let seen = Cell::new(None);
        let outcome = self.update(id, quota, 0, now, &|state| {
            seen.set(state);
            algorithm::decide(state, quota, 0, now)
        });
        (seen.get(), outcome)
    }

    /// Forgets a counter, wherever it is: where `pace` says, or at any other pace of its limit.
    pub(super) fn reset(&self, id: CounterId<'_>, pace: Pace, now: Timestamp) {
        let mut stripe = self.stripe(id.address(pace));
        stripe.forgivenesses.remove(id);
        let others = stripe.paces.learn(id, pace);
        for hash in others
            .into_iter()
            .chain([pace])
            .map(|pace| id.address(pace))
        {
            for map in stripe.maps() {
                map.remove(hash);
            }
            if let Some(slot) = self.table.find(hash) {
                // The slot stays with its key: a full counter equals an absent one.
                let unused = Outcome::Allowed {
                    remaining: 0,
                    reset_after: Nanos::ZERO,
                };
                update_slot(slot, hash, now, |_| {
                    Some(Step {
                        next: Next::Clear,
                        outcome: unused,
                    })
                });
            }
        }
    }

    /// Removes counters that are full again from the side maps; the table needs no sweeping.
    pub(super) fn sweep(&self, now: Timestamp) {
        for stripe in &self.stripes {
            for map in lock(stripe).maps() {
                map.sweep(now);
            }
        }
    }

    /// Counters that are not full now. Reads every slot and every entry.
    pub(super) fn live(&self, now: Timestamp) -> usize {
        self.table.live(now) + self.sum_of_maps(|map| map.live(now))
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.sum_of_maps(SideMap::memory_bytes)
    }

    fn sum_of_maps(&self, size: impl Fn(&SideMap) -> usize) -> usize {
        self.stripes
            .iter()
            .flat_map(|stripe| lock(stripe).maps().map(|map| size(map)))
            .sum()
    }

    /// Locks the stripe of `hash`.
    fn stripe(&self, hash: u64) -> MutexGuard<'_, Stripe> {
        // The lowest bit is the same in every stored hash.
        lock(&self.stripes[(hash >> 1) as usize & (self.stripes.len() - 1)])
    }
}

/// Locks a stripe, also after a panic: every change to its maps is a single call, so they are
/// whole.
fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns true when a slot can hold the state of this quota: one instant not too far from now.
///
/// A token bucket always fits: [`Quota::new`] makes a drip bucket of a quota that needs more than
/// 52 days to refill.
#[inline]
fn fits_in_table(quota: Quota) -> bool {
    match quota {
        Quota::TokenBucket(_) => true,
        Quota::Drip(_) => quota.window() <= SlotWord::SPAN_MAX,
        Quota::SlidingWindow(_) => false,
    }
}
