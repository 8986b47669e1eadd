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
}

impl FullPath {
    /// One limit, on every request, by client address.
    pub fn with_one_limit(rate: Rate, max_keys: usize) -> Self {
        Self::new([per_client("bench", rate)], max_keys)
    }

    /// A limit on every request and one on the path that is asked for, both by client address.
    pub fn with_two_limits(rate: Rate, max_keys: usize) -> Self {
        let api = Match::path("/api").expect("a plain path");
        let limits = [
            per_client("bench", rate),
            per_client("api", rate).matching(api),
        ];
        Self::new(limits, 2 * max_keys)
    }

    fn new(limits: impl IntoIterator<Item = Limit>, max_keys: usize) -> Self {
        let policy = Policy::new(limits).expect("the limits have plain names");
        let store = LocalStore::new(LocalOptions {
            max_keys,
            ..LocalOptions::default()
        });
        Self {
            limiter: Limiter::new(policy, store, MonotonicClock::new()),
        }
    }
}

fn per_client(name: &str, rate: Rate) -> Limit {
    Limit::per_client(name, rate.quota())
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
            path: "/api/users/7",
            ..Subject::ANONYMOUS
        };
        let verdict = ready(self.limiter.check(&subject, u64::from(cost)));
        black_box(&verdict).is_forwarded()
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
