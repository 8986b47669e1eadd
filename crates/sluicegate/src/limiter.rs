//! The one way through: every front door calls [`Limiter::check`].

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use arc_swap::ArcSwap;
use sluicegate_core::{
    Charge, Decision, FailurePolicy, Limit, LimitOutcome, List, MissingKey, Nanos, Outcome, Policy,
    PolicyErrors, Stage, Subject,
};

use crate::clock::{Clock, MonotonicClock};
use crate::fallback::{Fallback, HoldOutcome, is_admitted};
use crate::health::{FailureCounts, StoreHealth};
use crate::local::LocalStore;
use crate::store::{Store, StoreError};
use crate::verdict::{Instead, Verdict, instead};

/// Decides requests against a policy. Cheap to clone; clones share the counters.
pub struct Limiter<S = LocalStore, C = MonotonicClock> {
    shared: Arc<Shared<S, C>>,
}

struct Shared<S, C> {
    policy: ArcSwap<Policy>,
    store: S,
    clock: C,
    on_failure: FailurePolicy,
    fallback: Fallback,
    health: StoreHealth,
}

impl Limiter {
    /// Limits kept in this process, with room for a million callers.
    pub fn local(limits: impl IntoIterator<Item = Limit>) -> Result<Self, PolicyErrors> {
        Ok(Self::new(
            Policy::new(limits)?,
            LocalStore::default(),
            MonotonicClock::new(),
        ))
    }
}

impl<S: Store, C: Clock> Limiter<S, C> {
    /// Puts a policy, a store and a clock together.
    pub fn new(policy: Policy, store: S, clock: C) -> Self {
        Self::with_failure_policy(policy, store, clock, FailurePolicy::default())
    }

    /// The same, with what happens to requests while the store is away; a limit's own policy comes before it.
    pub fn with_failure_policy(
        policy: Policy,
        store: S,
        clock: C,
        on_failure: FailurePolicy,
    ) -> Self {
        let policy = ArcSwap::from_pointee(policy);
        let (fallback, health) = (Fallback::default(), StoreHealth::default());
        Self {
            shared: Arc::new(Shared {
                policy,
                store,
                clock,
                on_failure,
                fallback,
                health,
            }),
        }
    }

    /// Charges a request to every limit that covers it, all or nothing.
    pub async fn check(&self, subject: &Subject<'_>, cost: u64) -> Verdict {
        self.check_at(&self.policy(), Stage::Whole, subject, cost)
            .await
    }

    /// Charges a request to the limits of one stage of a policy that the caller holds, all or nothing.
    ///
    /// For front doors that keep a policy together with other settings and change all of them at once.
    pub async fn check_at(
        &self,
        policy: &Arc<Policy>,
        stage: Stage,
        subject: &Subject<'_>,
        cost: u64,
    ) -> Verdict {
        let charges = match policy.charges_at(stage, subject, cost) {
            Ok(charges) => charges,
            Err(missing) => return Verdict::Unidentified(missing),
        };
        self.decide(policy, &charges).await
    }

    /// What a request would meet now, without charging it: every outcome says what remains.
    pub async fn peek(&self, subject: &Subject<'_>) -> Verdict {
        self.check(subject, 0).await
    }

    /// Charges one limit by its name and key parts, for callers that know both.
    pub async fn check_named(&self, limit: &str, parts: &[&str], cost: u64) -> Verdict {
        self.check_named_at(&self.policy(), limit, parts, cost)
            .await
    }

    /// The same under a policy that the caller holds.
    pub async fn check_named_at(
        &self,
        policy: &Arc<Policy>,
        limit: &str,
        parts: &[&str],
        cost: u64,
    ) -> Verdict {
        let charges: List<Charge<'_>> = match policy.charge_named(limit, parts, cost) {
            Ok(charge) => charge.into_iter().collect(),
            Err(missing) => return Verdict::Unidentified(missing),
        };
        self.decide(policy, &charges).await
    }

    /// Takes charges that were made from `policy`, all or nothing: for front doors that do not begin with a request.
    pub async fn decide(&self, policy: &Arc<Policy>, charges: &[Charge<'_>]) -> Verdict {
        let Shared {
            store,
            clock,
            fallback,
            health,
            on_failure,
            ..
        } = &*self.shared;
        let mut held = Vec::new();
        if fallback.may_have_debts() {
            match fallback.hold(charges, &held, *on_failure, clock.now()) {
                HoldOutcome::Taken(taken) => held = taken,
                HoldOutcome::Denied(charges, outcomes) => {
                    return self.locally(policy, &charges, &outcomes);
                }
            }
        }
        match store.decide(charges, clock).await {
            Ok(mut outcomes) => {
                health.answered(charges, *on_failure);
                if fallback.may_have_debts() && is_admitted(charges, &outcomes) {
                    // Somebody may have come to owe while this request waited for the store.
                    match fallback.hold(charges, &held, *on_failure, clock.now()) {
                        HoldOutcome::Taken(more) => held.extend(more),
                        HoldOutcome::Denied(local, outcomes) => {
                            fallback.give_back(&held, clock.now());
                            return self.locally(policy, &local, &outcomes);
                        }
                    }
                }
                if !held.is_empty() {
                    outcomes = fallback.settle(&held, charges, outcomes, clock.now());
                }
                decision(policy, charges, &outcomes).into()
            }
            Err(error) => {
                fallback.give_back(&held, clock.now());
                self.without_store(policy, charges, error, |local| {
                    fallback.decide(local, store, clock)
                })
            }
        }
    }

    /// Every request that the store could not decide comes here.
    #[cold]
    fn without_store(
        &self,
        policy: &Arc<Policy>,
        charges: &[Charge<'_>],
        error: StoreError,
        on_fallback: impl FnOnce(&[Charge<'_>]) -> List<Outcome>,
    ) -> Verdict {
        let Shared {
            health, on_failure, ..
        } = &*self.shared;
        health.failed(charges, &error, *on_failure);
        match instead(charges, *on_failure) {
            Instead::Refuse(status) => {
                health.refused.fetch_add(1, Relaxed);
                Verdict::Unavailable { status, error }
            }
            Instead::Pass => {
                health.unchecked.fetch_add(1, Relaxed);
                Verdict::ForwardUnchecked(error)
            }
            Instead::Local(local) => self.locally(policy, &local, &on_fallback(&local)),
        }
    }

    fn locally(
        &self,
        policy: &Arc<Policy>,
        charges: &[Charge<'_>],
        outcomes: &[Outcome],
    ) -> Verdict {
        self.shared.health.local.fetch_add(1, Relaxed);
        decision(policy, charges, outcomes).degraded().into()
    }

    /// Gives back the units that a request was charged `age` ago; zero gives back all of them. Never beyond full.
    pub async fn refund(&self, subject: &Subject<'_>, cost: u64, age: Nanos) -> Verdict {
        let policy = self.policy();
        match policy.charges_for(subject, cost) {
            Ok(charges) => self.give_back(&policy, &charges, age).await,
            Err(missing) => Verdict::Unidentified(missing),
        }
    }

    /// The same for one limit by its name and key parts, under a policy that the caller holds.
    pub async fn refund_named_at(
        &self,
        policy: &Arc<Policy>,
        limit: &str,
        parts: &[&str],
        cost: u64,
        age: Nanos,
    ) -> Verdict {
        let charges: List<Charge<'_>> = match policy.charge_named(limit, parts, cost) {
            Ok(charge) => charge.into_iter().collect(),
            Err(missing) => return Verdict::Unidentified(missing),
        };
        self.give_back(policy, &charges, age).await
    }

    /// Gives back the units of charges that were made from `policy` and drawn `age` ago.
    pub async fn give_back(
        &self,
        policy: &Arc<Policy>,
        charges: &[Charge<'_>],
        age: Nanos,
    ) -> Verdict {
        let Shared {
            store,
            clock,
            fallback,
            health,
            on_failure,
            ..
        } = &*self.shared;
        let mut outcomes = List::Empty;
        for (place, charge) in charges.iter().enumerate() {
            match store.refund(charge, age, clock).await {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    let give_back =
                        |local: &[Charge<'_>]| fallback.refund(local, age, store, clock);
                    return self.without_store(policy, &charges[place..], error, give_back);
                }
            }
        }
        health.answered(charges, *on_failure);
        decision(policy, charges, &outcomes).into()
    }

    /// Forgets every counter that a request would be charged to.
    pub async fn reset(&self, subject: &Subject<'_>) -> Result<(), ResetError> {
        let policy = self.policy();
        let charges = policy
            .charges_for(subject, 0)
            .map_err(ResetError::Unidentified)?;
        self.forget(&charges).await
    }

    /// The same for one limit by its name and key parts, under a policy that the caller holds.
    pub async fn reset_named_at(
        &self,
        policy: &Policy,
        limit: &str,
        parts: &[&str],
    ) -> Result<(), ResetError> {
        let charge = policy
            .charge_named(limit, parts, 0)
            .map_err(ResetError::Unidentified)?;
        self.forget(charge.as_slice()).await
    }

    /// Forgets the counters of charges.
    pub async fn forget(&self, charges: &[Charge<'_>]) -> Result<(), ResetError> {
        for charge in charges {
            let Shared {
                store,
                clock,
                fallback,
                ..
            } = &*self.shared;
            store
                .reset(&charge.key, clock)
                .await
                .map_err(ResetError::Store)?;
            if let Some(counters) = fallback.counters() {
                counters.forget(&charge.key, clock.now());
            }
        }
        Ok(())
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.shared.policy.load_full()
    }

    /// Puts another policy in force for the next request. Counters are kept: a debt stays a debt.
    pub fn set_policy(&self, policy: Policy) {
        self.shared.policy.store(Arc::new(policy));
    }

    /// Whether the store failed to answer when it was last asked.
    pub fn is_degraded(&self) -> bool {
        self.shared.health.is_away()
    }

    /// How many requests the store did not decide, by what happened to them.
    pub fn failures(&self) -> FailureCounts {
        self.shared.health.counts()
    }

    /// The counters of local limits for the time without a store: none until they are first needed.
    pub fn fallback(&self) -> Option<&LocalStore> {
        self.shared.fallback.counters()
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.shared.store
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        &self.shared.clock
    }
}

impl<S, C> Clone for Limiter<S, C> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S, C> fmt::Debug for Limiter<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.shared.policy.load();
        let names: Vec<&str> = policy
            .limits()
            .iter()
            .map(|limit| limit.name.as_str())
            .collect();
        f.debug_struct("Limiter")
            .field("limits", &names)
            .finish_non_exhaustive()
    }
}

/// Why a counter could not be reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResetError {
    /// The request does not say whose counter.
    Unidentified(MissingKey),
    /// The store could not say.
    Store(StoreError),
}

impl fmt::Display for ResetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unidentified(missing) => missing.fmt(f),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ResetError {}

fn decision(policy: &Arc<Policy>, charges: &[Charge<'_>], outcomes: &[Outcome]) -> Decision {
    let outcomes = charges
        .iter()
        .zip(outcomes)
        .map(|(charge, outcome)| LimitOutcome {
            limit_index: charge.limit_index,
            quota: charge.quota,
            outcome: *outcome,
        });
    Decision::new(Arc::clone(policy), outcomes.collect())
}
