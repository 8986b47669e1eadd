//! The short way of charges that fit: one or two of them, whose counters are in slots.
//!
//! The idea: both slots are looked up and both changes computed; then each is stored with one
//! compare-and-swap. Whatever else there is (a charge that does not fit, another algorithm, a key
//! that is in no slot, a first counter that has changed meanwhile) goes the usual way, and nothing was
//! taken. Only when the second counter has changed meanwhile is the first one taken already: then
//! the second is decided as usual, and the first given back if that denies.

use std::hash::{BuildHasher, Hasher};

use sluicegate_core::algorithm::State;
use sluicegate_core::{Charge, List, Outcome, PlainCharge, Policy, Timestamp};

use super::LocalStore;
use super::address::address_in_policy;
use super::slot_update::{BucketSlot, SlotPlan};
use crate::clock::Clock;

impl LocalStore {
    /// Takes two charges, all or nothing, as [`LocalStore::decide_several`] does. Where both counters
    /// are in slots and both charges fit, that is two compare-and-swaps.
    #[inline]
    pub(super) fn decide_two<C: Clock>(
        &self,
        first: &Charge<'_>,
        second: &Charge<'_>,
        clock: &C,
    ) -> List<Outcome> {
        let (one, two) = (self.id(first), self.id(second));
        let slots = (
            self.counters
                .slot_of(&first.quota, |pace| one.address(pace)),
            self.counters
                .slot_of(&second.quota, |pace| two.address(pace)),
        );
        let now = clock.now();
        match plan_both(slots, first.cost, second.cost, now) {
            Some([plan_one, plan_two]) if plan_one.take() => match plan_two.take() {
                true => List::Two([plan_one.outcome, plan_two.outcome]),
                false => {
                    let taken = TakenCharge {
                        outcome: plan_one.outcome,
                        before: plan_one.before(now),
                    };
                    List::Two(self.take_second([first, second], taken, now, clock))
                }
            },
            _ => self.decide_several(&[*first, *second], clock, now),
        }
    }

    /// Takes a charge that fits and whose counter is in a slot; `None` for every other, and then
    /// nothing was taken.
    #[inline(always)]
    pub(crate) fn take_plain<C: Clock>(
        &self,
        charge: &PlainCharge<'_>,
        clock: &C,
    ) -> Option<Outcome> {
        // The slot is looked up before the clock is read, so that memory answers meanwhile.
        let slot = self.plain_slot(charge)?;
        let plan = slot.plan(charge.cost(), clock.now())?;
        plan.take().then_some(plan.outcome)
    }

    /// The same for two charges, all or nothing. Where another request changed the second counter in
    /// between, both are decided, and the second may be denied.
    #[inline(always)]
    pub(crate) fn take_both_plain<C: Clock>(
        &self,
        policy: &Policy,
        first: &PlainCharge<'_>,
        second: &PlainCharge<'_>,
        clock: &C,
    ) -> BothPlain {
        let slots = (self.plain_slot(first), self.plain_slot(second));
        let now = clock.now();
        let Some([plan_one, plan_two]) = plan_both(slots, first.cost(), second.cost(), now) else {
            return BothPlain::Undecided;
        };
        if !plan_one.take() {
            return BothPlain::Undecided;
        }
        if plan_two.take() {
            return BothPlain::Taken(plan_one.outcome, plan_two.outcome);
        }
        let charges = [&first.to_charge(policy), &second.to_charge(policy)];
        let taken = TakenCharge {
            outcome: plan_one.outcome,
            before: plan_one.before(now),
        };
        BothPlain::Decided(self.take_second(charges, taken, now, clock))
    }

    /// The slot of a charge whose limit is one of a policy.
    #[inline(always)]
    fn plain_slot<'a>(&'a self, charge: &PlainCharge<'a>) -> Option<BucketSlot<'a>> {
        let mut hasher = self.seed.build_hasher();
        charge.hash_key(&mut hasher);
        let key_hash = hasher.finish();
        let address = |pace| address_in_policy(key_hash, pace);
        self.counters.slot_of(charge.quota(), address)
    }

    /// Takes the second of two charges whose counter another request was quicker to change, and gives
    /// the first one back if it does not fit any more. `taken` is what the first one took.
    #[cold]
    #[inline(never)]
    fn take_second<C: Clock>(
        &self,
        [first, second]: [&Charge<'_>; 2],
        taken: TakenCharge,
        now: Timestamp,
        clock: &C,
    ) -> [Outcome; 2] {
        let (outcome, _) = self.take(self.id(second), second, now);
        if outcome.is_allowed() || !second.enforced {
            return [taken.outcome, outcome];
        }
        let before = State::Instant(taken.before);
        self.give_back(first, Some(before), now, clock.now());
        [self.peek(self.id(first), first, now), outcome]
    }
}

/// The result of taking two plain charges.
pub(crate) enum BothPlain {
    /// Both were taken.
    Taken(Outcome, Outcome),
    /// Another request came in between: the second was decided after it, and the first was given back
    /// if the second was denied.
    Decided([Outcome; 2]),
    /// Nothing was taken: one of them does not fit, or its counter is in no slot.
    Undecided,
}

/// A charge that was taken from a slot.
struct TakenCharge {
    outcome: Outcome,
    /// The instant that the slot held before.
    before: Timestamp,
}

/// What takes two charges that both fit now; `None` when one of them does not.
#[inline(always)]
fn plan_both<'a>(
    slots: (Option<BucketSlot<'a>>, Option<BucketSlot<'a>>),
    cost_one: u64,
    cost_two: u64,
    now: Timestamp,
) -> Option<[SlotPlan<'a>; 2]> {
    let (one, two) = (slots.0?, slots.1?);
    Some([one.plan(cost_one, now)?, two.plan(cost_two, now)?])
}
