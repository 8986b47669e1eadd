//! Counters of this replica for the time without a store, and the debts they leave behind.
//!
//! The idea: while the store is away, limits with the policy `local` are decided on a
//! [`LocalStore`] of this process. Each counter here starts from what the replica last saw of the
//! store's counter ([`Store::remembered`]), so an outage hands nobody a fresh bucket. Once the
//! store is back, a counter here that is not full yet still holds units that the store never
//! heard of: a debt. Until it is full again, each request of that caller is charged here first and
//! then in the store, and what the store denies is given back here.
//!
//! **Invariant:** whatever the store does, one replica admits at most burst + rate × time. The
//! later of both counters moves with every admission, so a store that comes and goes adds nothing.
//!
//! Why it is not simpler: forgetting the counters here when the store is back would let a caller
//! spend a quota here and one there at every change. Writing the debts into the store would need a
//! write that may fail halfway and that every replica repeats. Charging both places costs nothing
//! in normal times: one load of a number that is zero ([`Fallback::may_have_debts`]).

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use sluicegate_core::algorithm::State;
use sluicegate_core::{Charge, Draw, FailurePolicy, List, Nanos, Outcome, Timestamp};

use crate::clock::Clock;
use crate::failure::failure_policy_of;
use crate::local::{FixedTime, LocalStore};
use crate::store::Store;

/// The counters of this replica; made when they are first needed, and kept.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    counters: OnceLock<LocalStore>,
    /// Every counter is full from this instant on, in nanoseconds since the epoch; 0 when all are
    /// known to be full. Raised before a charge is taken here, and set back to 0 by the first
    /// request that comes later.
    debts_until_nanos: AtomicU64,
}

/// A charge that was taken here before the store was asked for it.
pub(crate) struct HeldCharge<'a> {
    /// Its index among the charges of the request.
    index: usize,
    charge: Charge<'a>,
    /// The state of the counter before the charge was taken.
    before: State,
    taken_at: Timestamp,
    /// The answer of the counter here; a denial only for a limit that is not enforced.
    outcome: Outcome,
}

/// The answer of the counters in debt to a request that the store is about to decide.
pub(crate) enum HoldOutcome<'a> {
    /// The store decides. Nothing is held for counters that are full here.
    Taken(Vec<HeldCharge<'a>>),
    /// The request does not fit here, so the store need not be asked: one entry per charge of the
    /// request, `None` for those whose counter here is full.
    Denied(List<Option<Outcome>>),
}

/// Returns true when every enforced charge of a request was allowed.
pub(crate) fn is_admitted(charges: &[Charge<'_>], answers: &[Outcome]) -> bool {
    charges
        .iter()
        .zip(answers)
        .all(|(charge, answer)| is_passed(charge, answer))
}

/// Returns true when a charge does not stop its request.
#[inline(always)]
pub(crate) fn is_passed(charge: &Charge<'_>, answer: &Outcome) -> bool {
    !charge.enforced || answer.is_allowed()
}

impl Fallback {
    /// The most counters, of all limits together. About 0.8 MB, and 1.5 MB with sliding windows:
    /// enough for the callers of one replica, little enough to set aside unasked.
    const MAX_KEYS: usize = 65_536;

    /// The counters, once there are any.
    pub(crate) fn counters(&self) -> Option<&LocalStore> {
        self.counters.get()
    }

    /// Decides charges that the store could not decide, all or nothing.
    pub(crate) fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        store: &impl Store,
        clock: &C,
    ) -> List<Outcome> {
        let now = clock.now();
        let counters = self.prepared(charges, store, now);
        let outcomes = counters.decide_all(charges, clock);
        self.note_debts(&outcomes, now);
        outcomes
    }

    /// Gives back charges that the store could not take back.
    pub(crate) fn refund<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        age: Nanos,
        store: &impl Store,
        clock: &C,
    ) -> List<Outcome> {
        let now = clock.now();
        let counters = self.prepared(charges, store, now);
        let outcomes = charges
            .iter()
            .map(|charge| counters.give(charge, age, now))
            .collect::<List<_>>();
        self.note_debts(&outcomes, now);
        outcomes
    }

    /// Returns true when some counter may be in debt: all that a request asks in normal times.
    #[inline]
    pub(crate) fn may_have_debts(&self) -> bool {
        self.debts_until_nanos.load(Relaxed) != 0
    }

    /// Takes the charges of local limits from those counters that are in debt, all or nothing,
    /// except the charges that are held already.
    ///
    /// A request that is cancelled later leaves what it held: it is not known whether the store
    /// has let it pass.
    #[cold]
    pub(crate) fn hold<'a>(
        &self,
        charges: &[Charge<'a>],
        already_held: &[HeldCharge<'_>],
        by_default: FailurePolicy,
        now: Timestamp,
    ) -> HoldOutcome<'a> {
        let debts_until = self.debts_until_nanos.load(Acquire);
        let Some(counters) = self.counters.get() else {
            return HoldOutcome::Taken(Vec::new());
        };
        if now.as_nanos() >= debts_until {
            // Fails when another request has raised it meanwhile: then there is a new debt.
            let _ = self
                .debts_until_nanos
                .compare_exchange(debts_until, 0, AcqRel, Relaxed);
            return HoldOutcome::Taken(Vec::new());
        }
        let is_local =
            |charge: &Charge<'_>| failure_policy_of(charge, by_default) == FailurePolicy::Local;
        let is_held = |index: usize| already_held.iter().any(|held| held.index == index);
        let in_debt: Vec<(usize, Charge<'a>, State)> = charges
            .iter()
            .enumerate()
            .filter(|(index, charge)| is_local(charge) && !is_held(*index))
            .filter_map(|(index, charge)| Some((index, *charge, counters.owed(charge, now)?)))
            .collect();
        let to_take: List<Charge<'a>> = in_debt.iter().map(|(_, charge, _)| *charge).collect();
        let outcomes = counters.decide_all(&to_take, &FixedTime(now));
        self.note_debts(&outcomes, now);
        if !is_admitted(&to_take, &outcomes) {
            let outcome_at = |index| {
                let mut decided = in_debt.iter().zip(&outcomes);
                let (_, outcome) = decided.find(|((taken_at, ..), _)| *taken_at == index)?;
                Some(*outcome)
            };
            return HoldOutcome::Denied((0..charges.len()).map(outcome_at).collect());
        }
        let held = in_debt.into_iter().zip(&outcomes);
        let held = held.map(|((index, charge, before), &outcome)| HeldCharge {
            index,
            charge,
            before,
            taken_at: now,
            outcome,
        });
        HoldOutcome::Taken(held.collect())
    }

    /// Joins the held charges with the answers of the store: of two answers the tighter one
    /// counts, and what the store did not take is given back here.
    #[cold]
    pub(crate) fn settle(
        &self,
        held: &[HeldCharge<'_>],
        charges: &[Charge<'_>],
        answers: List<Outcome>,
        now: Timestamp,
    ) -> List<Outcome> {
        if !is_admitted(charges, &answers) {
            self.give_back(held, now);
            return answers;
        }
        let settle_one = |(index, answer): (usize, &Outcome)| {
            match held.iter().find(|held| held.index == index) {
                Some(held) if answer.is_allowed() => tighter(*answer, held.outcome),
                // A shadow limit that the store denied: the request passes, this charge does not.
                Some(held) => {
                    self.give_back(std::slice::from_ref(held), now);
                    *answer
                }
                None => *answer,
            }
        };
        answers.iter().enumerate().map(settle_one).collect()
    }

    /// Gives back the charges held for a request that the store did not let pass.
    #[cold]
    pub(crate) fn give_back(&self, held: &[HeldCharge<'_>], now: Timestamp) {
        let Some(counters) = self.counters.get() else {
            return;
        };
        let is_taken =
            |held: &&HeldCharge<'_>| held.outcome.is_allowed() && held.charge.draw == Draw::Take;
        for held in held.iter().filter(is_taken) {
            counters.give_back(&held.charge, Some(held.before), held.taken_at, now);
        }
    }

    /// The counters, each raised to what the replica last saw of the store's.
    fn prepared(&self, charges: &[Charge<'_>], store: &impl Store, now: Timestamp) -> &LocalStore {
        let made = || LocalStore::holding_at_most(Self::MAX_KEYS);
        let counters = self.counters.get_or_init(made);
        for charge in charges {
            // Before anything is taken, so that no request overlooks a debt that is being made.
            // Twice the window, because a sliding window counts its predecessor too.
            let window = charge.quota.window();
            self.expect_debts_until(now.after(window).after(window));
            if let Some(seen) = store.remembered(charge, now) {
                counters.raise(charge, seen, now);
            }
        }
        counters
    }

    /// Notes how long the counters with these answers stay in debt. That is later than what
    /// [`Fallback::prepared`] noted only where a longer quota was in force before.
    fn note_debts(&self, outcomes: &[Outcome], now: Timestamp) {
        if let Some(longest) = outcomes.iter().map(Outcome::reset_after).max() {
            self.expect_debts_until(now.after(longest));
        }
    }

    fn expect_debts_until(&self, instant: Timestamp) {
        self.debts_until_nanos.fetch_max(instant.as_nanos(), AcqRel);
    }
}

/// The answer of two counters that were both charged: the smaller rest and the longer wait.
fn tighter(store: Outcome, held: Outcome) -> Outcome {
    match held {
        Outcome::Allowed {
            remaining,
            reset_after,
        } => Outcome::Allowed {
            remaining: remaining.min(store.remaining()),
            reset_after: reset_after.max(store.reset_after()),
        },
        // Only a limit that is not enforced gets here with a denial.
        Outcome::Denied { .. } | Outcome::TooLarge { .. } => held,
    }
}
