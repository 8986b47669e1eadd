//! The whole path of a request: policy, charges, store, decision, verdict.

use std::future::Future;
use std::hint::black_box;
use std::net::IpAddr;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use sluicegate::{
    Limit, Limiter, LocalOptions, LocalStore, Match, MonotonicClock, Policy, Subject,
};

use super::BenchLimiter;
use crate::rate::Rate;

pub struct FullPath {
    limiter: Limiter,
    /// Of the request.
    path: &'static str,
}

impl FullPath {
    /// One limit, which covers every request.
    pub fn new(rate: Rate, max_keys: usize) -> Self {
        Self::with([Limit::per_client("bench", rate.quota())], max_keys)
    }

    /// The same limit, and one of the request's path.
    pub fn with_two_limits(rate: Rate, max_keys: usize) -> Self {
        let path = Match::path("/api").expect("a plain path");
        let limits = [
            Limit::per_client("bench", rate.quota()),
            Limit::per_client("path", rate.quota()).matching(path),
        ];
        Self::with(limits, max_keys)
    }

    fn with(limits: impl IntoIterator<Item = Limit>, max_keys: usize) -> Self {
        let policy = Policy::new(limits).expect("limits with plain names");
        let store = LocalStore::new(LocalOptions {
            max_keys,
            ..LocalOptions::default()
        });
        Self {
            limiter: Limiter::new(policy, store, MonotonicClock::new()),
            path: "/api/items",
        }
    }
}

impl BenchLimiter<IpAddr> for FullPath {
    #[inline]
    fn check(&self, key: &IpAddr) -> bool {
        self.spend(key, 1)
    }

    #[inline]
    fn spend(&self, key: &IpAddr, cost: u32) -> bool {
        let subject = Subject {
            client_ip: Some(*key),
            path: self.path,
            ..Subject::ANONYMOUS
        };
        let verdict = ready(self.limiter.check(&subject, u64::from(cost)));
        black_box(verdict).is_forwarded()
    }
}

/// The answer of a future that never waits: the local store has nothing to wait for.
#[inline]
fn ready<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("the local store answers at once"),
    }
}
