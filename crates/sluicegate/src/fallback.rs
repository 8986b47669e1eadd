//! The counters of this replica for the time without a store, and the debts they leave.
//!
//! **Invariant:** whatever the store does, one replica admits at most burst + rate × time. For that, a counter here
//! starts from what the replica last saw of the store's ([`Store::remembered`]); and once the store is back, a request
//! is charged to both for as long as its counter here is not full. So the later of both moves with every admission.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use sluicegate_core::algorithm::State;
use sluicegate_core::{Charge, FailurePolicy, List, Nanos, Outcome, Timestamp};

use crate::clock::Clock;
use crate::local::{FixedTime, LocalOptions, LocalStore};
use crate::store::Store;
use crate::verdict::policy_of;

/// Counters for the time without a store; made when they are first needed, and kept.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    counters: OnceLock<LocalStore>,
    /// Every counter is full from then on, in nanoseconds since the epoch; 0 when all are full already.
    owing_until: AtomicU64,
}

/// A charge that was taken here before the store is asked.
pub(crate) struct HeldCharge<'a> {
    /// Its place in the request.
    place: usize,
    charge: Charge<'a>,
    before: State,
    taken_at: Timestamp,
    outcome: Outcome,
}

/// What the debts of an outage have to say to a request.
pub(crate) enum HoldOutcome<'a> {
    /// Ask the store. Nothing is held for counters that are full here.
    Taken(Vec<HeldCharge<'a>>),
    /// It does not fit here, so the store need not be asked.
    Denied(List<Charge<'a>>, List<Outcome>),
}

/// Whether a request with these answers is let pass.
pub(crate) fn is_admitted(charges: &[Charge<'_>], answers: &[Outcome]) -> bool {
    charges
        .iter()
        .zip(answers)
        .all(|(charge, answer)| !charge.enforced || answer.is_allowed())
}

impl Fallback {
    const MAX_KEYS: usize = 65_536;

    /// The counters, once there are any.
    pub(crate) fn counters(&self) -> Option<&LocalStore> {
        self.counters.get()
    }

    /// Decides charges that the store could not, all or nothing.
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

    /// Whether any counter may owe: all that a request has to ask in normal times.
    #[inline]
    pub(crate) fn may_have_debts(&self) -> bool {
        self.owing_until.load(Relaxed) != 0
    }

    /// Takes what a request is charged by local limits from those counters that still owe, all or nothing, beyond what
    /// is held already.
    ///
    /// A request that is cancelled meanwhile leaves what it held: nobody knows whether the store has let it pass.
    #[cold]
    pub(crate) fn hold<'a>(
        &self,
        charges: &[Charge<'a>],
        already: &[HeldCharge<'_>],
        by_default: FailurePolicy,
        now: Timestamp,
    ) -> HoldOutcome<'a> {
        let owing_until = self.owing_until.load(Acquire);
        let Some(counters) = self.counters.get() else {
            return HoldOutcome::Taken(Vec::new());
        };
        if now.as_nanos() >= owing_until {
            // Fails when somebody has come to owe meanwhile.
            let _ = self
                .owing_until
                .compare_exchange(owing_until, 0, AcqRel, Relaxed);
            return HoldOutcome::Taken(Vec::new());
        }
        let is_local = |charge: &Charge<'_>| policy_of(charge, by_default) == FailurePolicy::Local;
        let is_held = |place: usize| already.iter().any(|held| held.place == place);
        let owing = charges
            .iter()
            .enumerate()
            .filter(|(place, charge)| is_local(charge) && !is_held(*place));
        let owing: Vec<(usize, Charge<'a>, State)> = owing
            .filter_map(|(place, charge)| Some((place, *charge, counters.owed(charge, now)?)))
            .collect();
        let held: List<Charge<'a>> = owing.iter().map(|(_, charge, _)| *charge).collect();
        let outcomes = counters.decide_all(&held, &FixedTime(now));
        self.note_debts(&outcomes, now);
        if held
            .iter()
            .zip(&outcomes)
            .any(|(charge, outcome)| charge.enforced && !outcome.is_allowed())
        {
            return HoldOutcome::Denied(held, outcomes);
        }
        let held = owing
            .into_iter()
            .zip(&outcomes)
            .map(|((place, charge, before), &outcome)| HeldCharge {
                place,
                charge,
                before,
                taken_at: now,
                outcome,
            });
        HoldOutcome::Taken(held.collect())
    }

    /// Brings what was held and what the store answered together: the tighter answer counts, and what the store did
    /// not take is given back here.
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
        let settle_one =
            |(place, answer): (usize, &Outcome)| match held.iter().find(|held| held.place == place)
            {
                Some(held) if answer.is_allowed() => tighter(*answer, held.outcome),
                Some(held) => {
                    self.give_back(std::slice::from_ref(held), now);
                    *answer
                }
                None => *answer,
            };
        answers.iter().enumerate().map(settle_one).collect()
    }

    /// Gives back what was held for a request that the store did not let pass.
    #[cold]
    pub(crate) fn give_back(&self, held: &[HeldCharge<'_>], now: Timestamp) {
        let Some(counters) = self.counters.get() else {
            return;
        };
        for held in held.iter().filter(|held| held.outcome.is_allowed()) {
            counters.give_back(&held.charge, Some(held.before), held.taken_at, now);
        }
    }

    /// The counters, with nothing less in them than the replica last saw of the store's.
    fn prepared(&self, charges: &[Charge<'_>], store: &impl Store, now: Timestamp) -> &LocalStore {
        let options = LocalOptions {
            max_keys: Self::MAX_KEYS,
            ..LocalOptions::default()
        };
        let counters = self.counters.get_or_init(|| LocalStore::new(options));
        for charge in charges {
            // Before anything is taken, so that no request passes by a debt that is being made. A sliding window is in
            // view for two.
            let window = charge.quota.window();
            self.owe_until(now.after(window).after(window));
            if let Some(seen) = store.remembered(charge, now) {
                counters.raise(charge, seen, now);
            }
        }
        counters
    }

    /// Seldom later than what was noted before: a debt from a longer quota.
    fn note_debts(&self, outcomes: &[Outcome], now: Timestamp) {
        if let Some(longest) = outcomes.iter().map(Outcome::reset_after).max() {
            self.owe_until(now.after(longest));
        }
    }

    fn owe_until(&self, instant: Timestamp) {
        self.owing_until.fetch_max(instant.as_nanos(), AcqRel);
    }
}

/// What two counters that were both charged say together.
fn tighter(store: Outcome, held: Outcome) -> Outcome {
    match held {
        Outcome::Allowed {
            remaining,
            reset_after,
        } => Outcome::Allowed {
            remaining: remaining.min(store.remaining()),
            reset_after: reset_after.max(store.reset_after()),
        },
        // Of a limit that is not enforced.
        Outcome::Denied { .. } | Outcome::TooLarge { .. } => held,
    }
}
