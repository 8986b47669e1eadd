//! A policy on top of an engine: the library's way from a request to a verdict.
//!
//! [`Limiter::check`] is three steps: the policy makes one charge for each limit that covers the
//! subject, the engine takes all charges or none, and the settlement becomes a [`Verdict`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use sluicegate_core::{
    Answer, Charge, Decision, Draw, FailurePolicy, Limit, LimitOutcome, List, MissingKey, Nanos,
    Outcome, PlainCharge, PlainCharges, Policy, PolicyErrors, Subject,
};

use crate::clock::{Clock, MonotonicClock};
use crate::engine::{Engine, decided};
use crate::health::FailureCounts;
use crate::local::{BothPlain, LocalStore};
use crate::pending::PendingCharges;
use crate::store::{Store, StoreError};
use crate::verdict::Verdict;

/// Decides requests against a policy. Cheap to clone; clones share the counters.
///
/// ```
/// use sluicegate::{Limit, Limiter, Quota, Verdict};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let limiter = Limiter::local([Limit::per_client("per-ip", Quota::per_second(1).burst(2))])?;
/// let caller = ["203.0.113.7"];
/// assert!(limiter.check_named("per-ip", &caller, 2).await.is_forwarded());
/// let Verdict::Reject(decision) = limiter.check_named("per-ip", &caller, 1).await else {
///     panic!("both units are spent");
/// };
/// println!("come back in {:?}", decision.retry_after());
/// # Ok(())
/// # })
/// # }
/// ```
pub struct Limiter<S = LocalStore, C = MonotonicClock> {
    shared: Arc<Shared<S, C>>,
}

/// State that all clones of a limiter share.
struct Shared<S, C> {
    policy: ArcSwap<Policy>,
    engine: Engine<S, C>,
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
    /// Puts a policy, a store and a clock together; while the store is away, requests are refused.
    pub fn new(policy: Policy, store: S, clock: C) -> Self {
        Self::with_failure_policy(policy, store, clock, FailurePolicy::default())
    }

    /// The same, with what happens to requests while the store is away; a limit's own failure policy
    /// comes before it.
    pub fn with_failure_policy(
        policy: Policy,
        store: S,
        clock: C,
        on_failure: FailurePolicy,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                policy: ArcSwap::from_pointee(policy),
                engine: Engine::new(store, clock, on_failure),
            }),
        }
    }

    /// Charges a request to every limit that covers it, all or nothing. With counters in this process
    /// the future is ready when it is first polled.
    #[inline]
    pub fn check<'a>(&'a self, subject: &'a Subject<'a>, cost: u64) -> Check<'a, S, C> {
        Check {
            limiter: self,
            subject,
            cost,
            waiting: None,
        }
    }

    /// The same with counters in this process, where nothing has to be waited for.
    ///
    /// Most requests are covered by one limit or two, by address, and pass: these go the short way,
    /// on which nothing is put together that only another request needs.
    #[inline(never)]
    fn check_local(&self, local: &LocalStore, subject: &Subject<'_>, cost: u64) -> Verdict {
        // Borrowed, so that only the decision counts a reference.
        self.check_under(&self.shared.policy.load(), local, subject, cost)
    }

    #[inline(always)]
    fn check_under(
        &self,
        policy: &Arc<Policy>,
        local: &LocalStore,
        subject: &Subject<'_>,
        cost: u64,
    ) -> Verdict {
        if local.has_excess() {
            return self.check_others(policy, local, subject, cost);
        }
        match policy.plain_charges(subject, cost) {
            Some(PlainCharges::One(only)) => {
                if let Some(outcome) = local.take_plain(&only, self.clock()) {
                    let policy = Arc::clone(policy);
                    let entries = List::One(Some(plain_entry(&only, outcome)));
                    return Verdict::Forward(Decision::new(policy, entries));
                }
            }
            Some(PlainCharges::Two(first, second)) => {
                match local.take_both_plain(policy, &first, &second, self.clock()) {
                    BothPlain::Taken(one, two) => {
                        let policy = Arc::clone(policy);
                        let (one, two) = (plain_entry(&first, one), plain_entry(&second, two));
                        let entries = List::Two([Some(one), Some(two)]);
                        return Verdict::Forward(Decision::new(policy, entries));
                    }
                    BothPlain::Decided(outcomes) => {
                        let charges = [first.to_charge(policy), second.to_charge(policy)];
                        return decided(Arc::clone(policy), &charges, &outcomes);
                    }
                    BothPlain::Undecided => {}
                }
            }
            None => {}
        }
        self.check_others(policy, local, subject, cost)
    }

    /// The same for every other request.
    #[inline(never)]
    fn check_others(
        &self,
        policy: &Arc<Policy>,
        local: &LocalStore,
        subject: &Subject<'_>,
        cost: u64,
    ) -> Verdict {
        match policy.charges_for(subject, cost) {
            Ok(charges) => {
                let outcomes = self.engine().decide_local(local, &charges);
                decided(Arc::clone(policy), &charges, &outcomes)
            }
            Err(missing) => Verdict::Unidentified(missing),
        }
    }

    /// The same with a store that has to be waited for.
    async fn check_waiting(&self, subject: &Subject<'_>, cost: u64) -> Verdict {
        let policy = self.policy();
        match policy.charges_for(subject, cost) {
            Ok(charges) => {
                let settlement = self.engine().decide_waiting(&charges).await;
                settlement.into_verdict(&policy, &charges)
            }
            Err(missing) => Verdict::Unidentified(missing),
        }
    }

    /// The same, with the charges that wait for the answer to the request, if any do
    /// ([`Limit::counting`]); [`Limiter::settle`] finishes them. Without it, limits that count by
    /// the answer count nothing.
    pub async fn check_pending(
        &self,
        subject: &Subject<'_>,
        cost: u64,
    ) -> (Verdict, Option<Box<PendingCharges>>) {
        let policy = self.policy();
        if !policy.awaits_answers()
            && let Some(local) = self.store().as_local()
        {
            return (self.check_under(&policy, local, subject, cost), None);
        }
        let charges = match policy.charges_for(subject, cost) {
            Ok(charges) => charges,
            Err(missing) => return (Verdict::Unidentified(missing), None),
        };
        if !policy.awaits_answers() {
            return (self.take(&policy, &charges).await, None);
        }
        let since = self.clock().now();
        let settlement = self.engine().decide(&charges).await;
        let pending =
            PendingCharges::of(&policy, &charges, since, |index| settlement.is_taken(index));
        let verdict = settlement.into_verdict(&policy, &charges);
        let pending = pending.filter(|_| verdict.is_forwarded());
        (verdict, pending)
    }

    /// Takes the charges that the answer to a request counts, and gives back those that it frees.
    /// `None` stands for an answer that nobody knows, because the caller went away before it came:
    /// it counts, and frees nothing.
    pub async fn settle(&self, pending: &PendingCharges, answer: Option<Answer>) {
        self.engine().settle(pending, answer).await;
    }

    /// Looks at every counter that a request would be charged to, and takes nothing: each outcome
    /// tells what remains.
    pub async fn peek(&self, subject: &Subject<'_>) -> Verdict {
        self.check(subject, 0).await
    }

    /// Charges one limit by its name and key parts, for callers that know both. The cost is multiplied
    /// by a fixed [`Cost`](crate::Cost) of the limit, and taken as it is where that is in a header.
    pub async fn check_named(&self, limit: &str, parts: &[&str], cost: u64) -> Verdict {
        let policy = self.policy();
        match policy.charge_named(limit, parts, cost) {
            Ok(charge) => self.take(&policy, charge.as_slice()).await,
            Err(missing) => Verdict::Unidentified(missing),
        }
    }

    async fn take(&self, policy: &Arc<Policy>, charges: &[Charge<'_>]) -> Verdict {
        let settlement = self.engine().decide(charges).await;
        settlement.into_verdict(policy, charges)
    }

    /// Gives back the units that a request was charged `age` ago; zero gives back all of them. A
    /// counter never holds more than its burst, and one that was only looked at gets nothing.
    pub async fn refund(&self, subject: &Subject<'_>, cost: u64, age: Nanos) -> Verdict {
        let policy = self.policy();
        let taken = |charge: &Charge<'_>| match charge.draw {
            Draw::Take => charge.cost,
            Draw::Look => 0,
        };
        match policy.charges_for(subject, cost) {
            Ok(charges) => {
                let charges = charges.iter().map(|charge| Charge {
                    cost: taken(charge),
                    ..*charge
                });
                let charges: List<Charge<'_>> = charges.collect();
                self.give_back(&policy, &charges, age).await
            }
            Err(missing) => Verdict::Unidentified(missing),
        }
    }

    /// The same for one limit by its name and key parts.
    pub async fn refund_named(
        &self,
        limit: &str,
        parts: &[&str],
        cost: u64,
        age: Nanos,
    ) -> Verdict {
        let policy = self.policy();
        match policy.charge_named(limit, parts, cost) {
            Ok(charge) => self.give_back(&policy, charge.as_slice(), age).await,
            Err(missing) => Verdict::Unidentified(missing),
        }
    }

    async fn give_back(&self, policy: &Arc<Policy>, charges: &[Charge<'_>], age: Nanos) -> Verdict {
        let settlement = self.engine().refund(charges, age).await;
        settlement.into_verdict(policy, charges)
    }

    /// Forgets every counter that a request would be charged to: each is full again.
    pub async fn reset(&self, subject: &Subject<'_>) -> Result<(), ResetError> {
        let policy = self.policy();
        let charges = policy.charges_for(subject, 0)?;
        Ok(self.engine().reset(&charges).await?)
    }

    /// The same for one limit by its name and key parts.
    pub async fn reset_named(&self, limit: &str, parts: &[&str]) -> Result<(), ResetError> {
        let policy = self.policy();
        let charge = policy.charge_named(limit, parts, 0)?;
        Ok(self.engine().reset(charge.as_slice()).await?)
    }

    /// The policy in force.
    pub fn policy(&self) -> Arc<Policy> {
        self.shared.policy.load_full()
    }

    /// Puts another policy in force for the next request. Counters are kept: whoever owes units of
    /// a limit owes as many under its new quota.
    pub fn set_policy(&self, policy: Policy) {
        self.shared.policy.store(Arc::new(policy));
    }

    /// True while the store does not answer: it failed when it was last asked.
    pub fn is_degraded(&self) -> bool {
        self.engine().is_degraded()
    }

    /// Requests that the store did not decide, by what happened to them.
    pub fn failures(&self) -> FailureCounts {
        self.engine().failures()
    }

    /// The counters of local limits for the time without the store; `None` until first needed.
    pub fn fallback(&self) -> Option<&LocalStore> {
        self.engine().fallback()
    }

    /// The store.
    pub fn store(&self) -> &S {
        self.engine().store()
    }

    /// The clock.
    pub fn clock(&self) -> &C {
        self.engine().clock()
    }

    fn engine(&self) -> &Engine<S, C> {
        &self.shared.engine
    }
}

/// The entry of a plain charge in a decision.
#[inline(always)]
fn plain_entry(charge: &PlainCharge<'_>, outcome: Outcome) -> LimitOutcome {
    LimitOutcome {
        limit_index: charge.limit_index(),
        quota: *charge.quota(),
        outcome,
        enforced: charge.is_enforced(),
    }
}

/// The verdict that [`Limiter::check`] comes to.
///
/// Written by hand: a verdict is large, and the compiler's own future would copy it once more.
#[must_use = "futures do nothing unless polled"]
pub struct Check<'a, S, C> {
    limiter: &'a Limiter<S, C>,
    subject: &'a Subject<'a>,
    cost: u64,
    /// The decision of a store that has to be waited for; boxed, because every request would be larger
    /// otherwise.
    waiting: Option<Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>>,
}

impl<S: Store, C: Clock> Future for Check<'_, S, C> {
    type Output = Verdict;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Verdict> {
        let (limiter, subject, cost) = (self.limiter, self.subject, self.cost);
        if let Some(local) = limiter.store().as_local() {
            return Poll::Ready(limiter.check_local(local, subject, cost));
        }
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(limiter.check_waiting(subject, cost)));
        waiting.as_mut().poll(cx)
    }
}

impl<S, C> fmt::Debug for Check<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("subject", self.subject)
            .field("cost", &self.cost)
            .finish_non_exhaustive()
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

impl From<MissingKey> for ResetError {
    fn from(missing: MissingKey) -> Self {
        Self::Unidentified(missing)
    }
}

impl From<StoreError> for ResetError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
