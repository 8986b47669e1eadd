//! Requests while the store is away, and after it is back.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

mod events;
mod fallback;
mod flapping;
mod policies;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sluicegate::algorithm::State;
use sluicegate::conformance::ReferenceStore;
use sluicegate::{
    Charge, Clock, FailurePolicy, Limit, Limiter, List, ManualClock, Nanos, Outcome, Policy, Store,
    StoreError, Subject, Timestamp,
};

const START: Timestamp = Timestamp::from_nanos(1_800_000_000_000_000_000);

/// A store that can be switched off. It loses nothing meanwhile, and can remember its counters for
/// the limiter ([`Store::remembered`]). Clones are the same store.
#[derive(Clone, Default)]
struct SwitchableStore(Arc<SharedStore>);

#[derive(Default)]
struct SharedStore {
    counters: ReferenceStore,
    is_away: AtomicBool,
    remembers: AtomicBool,
    /// Calls of `decide`, answered or not.
    decisions: AtomicUsize,
}

impl SwitchableStore {
    fn remembering() -> Self {
        let store = Self::default();
        store.0.remembers.store(true, Ordering::SeqCst);
        store
    }

    fn set_away(&self, is_away: bool) {
        self.0.is_away.store(is_away, Ordering::SeqCst);
    }

    /// Calls of `decide` so far.
    fn decisions(&self) -> usize {
        self.0.decisions.load(Ordering::SeqCst)
    }

    fn reach(&self) -> Result<&ReferenceStore, StoreError> {
        match self.0.is_away.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("switched off".into())),
            false => Ok(&self.0.counters),
        }
    }
}

impl Store for SwitchableStore {
    async fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> Result<List<Outcome>, StoreError> {
        self.0.decisions.fetch_add(1, Ordering::SeqCst);
        self.reach()?.decide(charges, clock).await
    }

    async fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> Result<Outcome, StoreError> {
        self.reach()?.refund(charge, age, clock).await
    }

    async fn reset<C: Clock>(&self, charge: &Charge<'_>, clock: &C) -> Result<(), StoreError> {
        self.reach()?.reset(charge, clock).await
    }

    fn remembered(&self, charge: &Charge<'_>, _now: Timestamp) -> Option<State> {
        if !self.0.remembers.load(Ordering::SeqCst) {
            return None;
        }
        self.0.counters.state(&charge.key)
    }
}

type TestLimiter = Limiter<SwitchableStore, ManualClock>;

fn limiter(
    limits: impl IntoIterator<Item = Limit>,
    store: &SwitchableStore,
    on_failure: FailurePolicy,
) -> TestLimiter {
    let policy = Policy::new(limits).expect("well-formed limits");
    Limiter::with_failure_policy(policy, store.clone(), ManualClock::new(START), on_failure)
}

fn caller(address: &str) -> Subject<'static> {
    Subject {
        client_ip: Some(address.parse().expect("an address")),
        ..Subject::ANONYMOUS
    }
}

fn ann() -> Subject<'static> {
    caller("203.0.113.7")
}

/// The number of requests that pass, of so many.
async fn spend(limiter: &TestLimiter, subject: &Subject<'_>, times: usize) -> usize {
    let mut passed = 0;
    for _ in 0..times {
        passed += usize::from(limiter.check(subject, 1).await.is_forwarded());
    }
    passed
}

/// Units left of the tightest limit, by the store or by the fallback.
async fn left(limiter: &TestLimiter, subject: &Subject<'_>) -> u64 {
    let verdict = limiter.peek(subject).await;
    let decision = verdict.decision().expect("somebody decides");
    decision
        .tightest()
        .expect("a limit covers it")
        .1
        .outcome
        .remaining()
}
