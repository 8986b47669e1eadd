//! The engine: takes charges from a store, and knows what happens while the store is away.
//!
//! An [`Engine`] joins a store, a clock, the counters for the time without the store, and the
//! store's health. It knows no policy: charges go in, and a [`Settlement`] with one entry per charge
//! comes out, in the same order, so that no caller has to find out again which outcome belongs to
//! which charge. [`Limiter`](crate::Limiter) is a policy on top of an engine.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use sluicegate_core::{
    Answer, Charge, Decision, FailurePolicy, FailureStatus, LimitOutcome, List, Nanos, Outcome,
    Policy,
};

use crate::clock::{Clock, MonotonicClock};
use crate::failure::{Substitute, failure_policy_of, substitute_for};
use crate::fallback::{Fallback, HoldOutcome, is_admitted, is_passed};
use crate::health::{FailureCounts, StoreHealth};
use crate::local::LocalStore;
use crate::pending::PendingCharges;
use crate::store::{Store, StoreError};
use crate::verdict::Verdict;

/// Takes charges, all or nothing, and gives them back.
///
/// ```
/// use sluicegate::{Engine, FailurePolicy, Limit, LocalStore, MonotonicClock, Policy, Quota, Settlement};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let engine = Engine::new(LocalStore::default(), MonotonicClock::new(), FailurePolicy::default());
/// let policy = Policy::new([Limit::per_client("per-ip", Quota::per_second(1).burst(1))])?;
/// let charges = policy.charge_named("per-ip", &["203.0.113.7"], 1)?;
/// assert!(matches!(engine.decide(charges.as_slice()).await, Settlement::Decided(outcomes)
///     if outcomes[0].is_allowed()));
/// # Ok(())
/// # })
/// # }
/// ```
pub struct Engine<S = LocalStore, C = MonotonicClock> {
    store: S,
    clock: C,
    /// The failure policy of charges that bring none of their own.
    on_failure: FailurePolicy,
    fallback: Fallback,
    health: StoreHealth,
}

/// The result of a list of charges: one entry per charge, in their order, wherever there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// The store decided every charge.
    Decided(List<Outcome>),
    /// The store answers again, and a counter of this replica denied what it still owes from the time
    /// without the store. `None` stands for a charge that was not looked at.
    Owed(List<Option<Outcome>>),
    /// This replica decided without the store. `None` stands for a charge that went unchecked.
    Degraded(List<Option<Outcome>>),
    /// The store is away and the failure policy of a charge is closed: nothing was taken.
    Unavailable {
        /// The status to answer with: 503, or as the first closed limit has it.
        status: FailureStatus,
        /// The store's error.
        error: StoreError,
    },
    /// The store is away and every charge went unchecked.
    Unchecked(StoreError),
}

impl Settlement {
    /// The outcome of the charge at `index`; `None` when it was not decided.
    pub fn outcome(&self, index: usize) -> Option<&Outcome> {
        match self {
            Self::Decided(outcomes) => outcomes.get(index),
            Self::Owed(outcomes) | Self::Degraded(outcomes) => outcomes.get(index)?.as_ref(),
            Self::Unavailable { .. } | Self::Unchecked(_) => None,
        }
    }

    /// True when the store took the charge at `index`; what this replica took on its own is not in
    /// the store.
    pub fn is_taken(&self, index: usize) -> bool {
        match self {
            Self::Decided(outcomes) => outcomes.get(index).is_some_and(Outcome::is_allowed),
            Self::Owed(_) | Self::Degraded(_) | Self::Unavailable { .. } | Self::Unchecked(_) => {
                false
            }
        }
    }

    /// The same entries behind those of earlier charges, which the store decided.
    fn after(self, earlier: &[Outcome]) -> Self {
        let both = |later: &[Option<Outcome>]| {
            let earlier = earlier.iter().map(|outcome| Some(*outcome));
            earlier.chain(later.iter().copied()).collect()
        };
        match self {
            Self::Owed(later) => Self::Owed(both(&later)),
            Self::Degraded(later) => Self::Degraded(both(&later)),
            whole => whole,
        }
    }

    /// The verdict on the request that `charges` were made for, under the policy they were made from.
    pub fn into_verdict(self, policy: &Arc<Policy>, charges: &[Charge<'_>]) -> Verdict {
        match self {
            Self::Decided(outcomes) => decided(Arc::clone(policy), charges, &outcomes),
            Self::Owed(outcomes) => partial_decision(policy, charges, &outcomes).into(),
            Self::Degraded(outcomes) => partial_decision(policy, charges, &outcomes)
                .degraded()
                .into(),
            Self::Unavailable { status, error } => Verdict::Unavailable { status, error },
            Self::Unchecked(error) => Verdict::ForwardUnchecked(error),
        }
    }
}

/// The verdict on a request whose charges all have an outcome.
pub(crate) fn decided(
    policy: Arc<Policy>,
    charges: &[Charge<'_>],
    outcomes: &[Outcome],
) -> Verdict {
    // Most requests are charged to one limit or two; their entries are made where they stay.
    match (charges, outcomes) {
        ([charge], [outcome]) => {
            let entries = List::One(Some(entry(charge, *outcome)));
            verdict_on(policy, entries, is_passed(charge, outcome))
        }
        ([first, second], [one, two]) => {
            let entries = List::Two([Some(entry(first, *one)), Some(entry(second, *two))]);
            verdict_on(
                policy,
                entries,
                is_passed(first, one) && is_passed(second, two),
            )
        }
        _ => decided_about_many(policy, charges, outcomes),
    }
}

#[inline(never)]
fn decided_about_many(
    policy: Arc<Policy>,
    charges: &[Charge<'_>],
    outcomes: &[Outcome],
) -> Verdict {
    let entries = charges.iter().zip(outcomes);
    let entries = entries.map(|(charge, outcome)| Some(entry(charge, *outcome)));
    let is_admitted = is_admitted(charges, outcomes);
    verdict_on(policy, entries.collect(), is_admitted)
}

/// The verdict on a request with these entries.
#[inline(always)]
fn verdict_on(
    policy: Arc<Policy>,
    entries: List<Option<LimitOutcome>>,
    is_admitted: bool,
) -> Verdict {
    let decision = Decision::new(policy, entries);
    match is_admitted {
        true => Verdict::Forward(decision),
        false => Verdict::Reject(decision),
    }
}

/// A decision about the charges that have an outcome.
fn partial_decision(
    policy: &Arc<Policy>,
    charges: &[Charge<'_>],
    outcomes: &[Option<Outcome>],
) -> Decision {
    let entries = charges.iter().zip(outcomes);
    let entries = entries.map(|(charge, outcome)| Some(entry(charge, (*outcome)?)));
    Decision::new(Arc::clone(policy), entries.collect())
}

#[inline(always)]
fn entry(charge: &Charge<'_>, outcome: Outcome) -> LimitOutcome {
    LimitOutcome {
        limit_index: charge.limit_index,
        quota: charge.quota,
        outcome,
        enforced: charge.enforced,
    }
}

impl<S: Store, C: Clock> Engine<S, C> {
    /// Puts a store and a clock together. `on_failure` holds for charges that bring no failure
    /// policy of their own.
    pub fn new(store: S, clock: C, on_failure: FailurePolicy) -> Self {
        Self {
            store,
            clock,
            on_failure,
            fallback: Fallback::default(),
            health: StoreHealth::default(),
        }
    }

    /// Takes all enforced charges or none of them.
    #[inline]
    pub async fn decide(&self, charges: &[Charge<'_>]) -> Settlement {
        match self.store.as_local() {
            Some(local) => Settlement::Decided(self.decide_local(local, charges)),
            // Boxed, because every request would be larger otherwise.
            None => Box::pin(self.decide_waiting(charges)).await,
        }
    }

    /// Takes all enforced charges or none of them from counters in this process. Nothing is waited
    /// for, and such a store never fails: there is no outage, and nothing is owed from one.
    #[inline]
    pub(crate) fn decide_local(&self, local: &LocalStore, charges: &[Charge<'_>]) -> List<Outcome> {
        if local.has_excess()
            && let Some(contended) = self.with_larger_quotas(charges)
        {
            let outcomes = local.decide_all(&contended, &self.clock);
            return within_own_limits(charges, &outcomes);
        }
        local.decide_all(charges, &self.clock)
    }

    /// The same with a store that may have to be waited for.
    ///
    /// After an outage, some counters of this replica may still owe what they admitted on their own.
    /// A charge on such a counter is taken there first ("held"), then from the store, and given back
    /// here if the store refuses it. What does not fit there is denied without the store, and is no
    /// degraded answer once the store is back. Without such debts, which is nearly always, that costs
    /// one load.
    pub(crate) async fn decide_waiting(&self, charges: &[Charge<'_>]) -> Settlement {
        let Self {
            store,
            clock,
            fallback,
            health,
            on_failure,
        } = self;
        let mut held = Vec::new();
        if fallback.may_have_debts() {
            match fallback.hold(charges, &held, *on_failure, clock.now()) {
                HoldOutcome::Taken(taken) => held = taken,
                // Boxed, because it is rare, and every request would be larger otherwise.
                HoldOutcome::Denied(owed) => return Box::pin(self.deny_owed(charges, owed)).await,
            }
        }
        let contended = self.contended(charges);
        let asked = contended.as_deref().unwrap_or(charges);
        match store.decide(asked, clock).await {
            Ok(mut outcomes) => {
                health.answered(charges, *on_failure, clock);
                if contended.is_some() {
                    outcomes = within_own_limits(charges, &outcomes);
                }
                if fallback.may_have_debts() && is_admitted(charges, &outcomes) {
                    // A counter may have come to owe while this request waited for the store.
                    match fallback.hold(charges, &held, *on_failure, clock.now()) {
                        HoldOutcome::Taken(more) => held.extend(more),
                        HoldOutcome::Denied(owed) => {
                            fallback.give_back(&held, clock.now());
                            return Settlement::Owed(filled_up(&owed, &outcomes));
                        }
                    }
                }
                if !held.is_empty() {
                    outcomes = fallback.settle(&held, charges, outcomes, clock.now());
                }
                Settlement::Decided(outcomes)
            }
            Err(error) => {
                fallback.give_back(&held, clock.now());
                self.without_store(charges, error, |local| fallback.decide(local, store, clock))
            }
        }
    }

    /// The charges with larger quotas, where counters owe more than their own limit has; `None` when
    /// none does, which is nearly always and costs one load.
    #[inline]
    fn contended<'a>(&self, charges: &[Charge<'a>]) -> Option<Box<[Charge<'a>]>> {
        if !self.store.has_excess() {
            return None;
        }
        self.with_larger_quotas(charges)
    }

    #[cold]
    fn with_larger_quotas<'a>(&self, charges: &[Charge<'a>]) -> Option<Box<[Charge<'a>]>> {
        let now = self.clock.now();
        let mut asked: Box<[Charge<'a>]> = charges.into();
        let mut is_changed = false;
        // A look is told of the own quota, and what never fits has no part to get.
        let takes_part = |charge: &Charge<'_>| (1..=charge.quota.limit()).contains(&charge.cost);
        for charge in asked.iter_mut().filter(|charge| takes_part(charge)) {
            if let Some(larger) = self.store.larger_quota(charge, now) {
                charge.quota = larger;
                is_changed = true;
            }
        }
        is_changed.then_some(asked)
    }

    /// Denies a request that does not fit into the counters in debt. If the store did not answer the
    /// last time, it is asked again: otherwise nobody would notice that it is back while every
    /// request is denied here. It is a look, so it takes nothing.
    #[cold]
    async fn deny_owed(&self, charges: &[Charge<'_>], owed: List<Option<Outcome>>) -> Settlement {
        if !self.health.is_away() {
            return Settlement::Owed(owed);
        }
        let looks = charges.iter().map(|charge| Charge { cost: 0, ..*charge });
        let looks: List<Charge<'_>> = looks.collect();
        match self.store.decide(&looks, &self.clock).await {
            Ok(looked) => {
                self.health.answered(charges, self.on_failure, &self.clock);
                Settlement::Owed(filled_up(&owed, &looked))
            }
            Err(error) => {
                self.note_failure(charges, &error);
                self.degraded(owed)
            }
        }
    }

    /// Settles charges that the store could not, by their failure policies. `decide_locally` decides
    /// those whose policy is `local` on this replica.
    #[cold]
    fn without_store(
        &self,
        charges: &[Charge<'_>],
        error: StoreError,
        decide_locally: impl FnOnce(&[Charge<'_>]) -> List<Outcome>,
    ) -> Settlement {
        self.note_failure(charges, &error);
        match substitute_for(charges, self.on_failure) {
            Substitute::Refuse(status) => {
                self.health.refused.fetch_add(1, Relaxed);
                Settlement::Unavailable { status, error }
            }
            Substitute::Pass => {
                self.health.unchecked.fetch_add(1, Relaxed);
                Settlement::Unchecked(error)
            }
            Substitute::Local => {
                let is_local = |charge: &&Charge<'_>| {
                    failure_policy_of(charge, self.on_failure) == FailurePolicy::Local
                };
                let local: List<Charge<'_>> = charges.iter().filter(is_local).copied().collect();
                let outcomes = decide_locally(&local);
                let mut outcomes = outcomes.iter().copied();
                let entries = charges.iter().map(|charge| match is_local(&charge) {
                    true => outcomes.next(),
                    false => None,
                });
                self.degraded(entries.collect())
            }
        }
    }

    /// Gives back the units of charges that were drawn `age` ago; zero gives back all of them. A
    /// counter never holds more than its burst.
    ///
    /// Charges are given back one by one. When the store goes away in the middle, those before are
    /// given back and the rest is settled by its failure policies.
    pub async fn refund(&self, charges: &[Charge<'_>], age: Nanos) -> Settlement {
        let Self {
            store,
            clock,
            fallback,
            health,
            on_failure,
        } = self;
        let mut outcomes = List::Empty;
        for (index, charge) in charges.iter().enumerate() {
            match store.refund(charge, age, clock).await {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    let rest = self.without_store(&charges[index..], error, |local| {
                        fallback.refund(local, age, store, clock)
                    });
                    return rest.after(&outcomes);
                }
            }
        }
        health.answered(charges, *on_failure, clock);
        Settlement::Decided(outcomes)
    }

    /// Settles the charges of a request by its answer: takes those that it counts, each on its own
    /// if there is room, and gives back those that it frees. `None` stands for an answer that
    /// nobody knows, because the caller went away: it counts, and frees nothing.
    ///
    /// Returns the charges that were taken, with their outcomes.
    pub async fn settle<'p>(
        &self,
        pending: &'p PendingCharges,
        answer: Option<Answer>,
    ) -> Vec<(Charge<'p>, Outcome)> {
        let to_take = pending.to_take(answer);
        let mut taken = Vec::new();
        if !to_take.is_empty() {
            let settlement = self.decide(&to_take).await;
            for (index, charge) in to_take.iter().enumerate() {
                let outcome = settlement.outcome(index);
                if let Some(outcome) = outcome.filter(|outcome| outcome.is_allowed()) {
                    taken.push((*charge, *outcome));
                }
            }
        }
        let to_give_back = pending.to_give_back(answer);
        if !to_give_back.is_empty() {
            let age = self.clock.now().since(pending.since());
            self.refund(&to_give_back, age).await;
        }
        taken
    }

    /// Forgets the counters of charges: each is full again, here and in the store.
    pub async fn reset(&self, charges: &[Charge<'_>]) -> Result<(), StoreError> {
        for charge in charges {
            self.store.reset(charge, &self.clock).await?;
            if let Some(counters) = self.fallback.counters() {
                counters.forget(charge, self.clock.now());
            }
        }
        Ok(())
    }

    /// True while the store does not answer: it failed when it was last asked.
    pub fn is_degraded(&self) -> bool {
        self.health.is_away()
    }

    /// Requests that the store did not decide, by what happened to them.
    pub fn failures(&self) -> FailureCounts {
        self.health.counts()
    }

    /// The counters for the time without the store; `None` until they are first needed.
    pub fn fallback(&self) -> Option<&LocalStore> {
        self.fallback.counters()
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.clock
    }

    fn note_failure(&self, charges: &[Charge<'_>], error: &StoreError) {
        let now = self.clock.now();
        self.health.failed(charges, error, self.on_failure, now);
    }

    fn degraded(&self, outcomes: List<Option<Outcome>>) -> Settlement {
        self.health.local.fetch_add(1, Relaxed);
        Settlement::Degraded(outcomes)
    }
}

/// The outcomes of charges that were decided under larger quotas, with no more left than their own
/// limits have.
#[cold]
fn within_own_limits(charges: &[Charge<'_>], outcomes: &[Outcome]) -> List<Outcome> {
    let within = |(charge, outcome): (&Charge<'_>, &Outcome)| match *outcome {
        Outcome::Allowed {
            remaining,
            reset_after,
        } => Outcome::Allowed {
            remaining: remaining.min(charge.quota.limit()),
            reset_after,
        },
        denied => denied,
    };
    charges.iter().zip(outcomes).map(within).collect()
}

/// The outcomes of the counters in debt, and those of the store for the others.
fn filled_up(owed: &[Option<Outcome>], by_store: &[Outcome]) -> List<Option<Outcome>> {
    let both = owed.iter().zip(by_store);
    both.map(|(owed, by_store)| Some(owed.unwrap_or(*by_store)))
        .collect()
}

impl<S, C> fmt::Debug for Engine<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("on_failure", &self.on_failure)
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}
