//! A Redis behind a bad network, and limiters in front of it.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::{
    Endpoint, FailurePolicy, FailureStatus, KeyPart, Limit, Limiter, MonotonicClock, Policy, Quota,
    RedisOptions, RedisStore,
};
use sluicegate_testkit::{Bound, FaultProxy, RedisServer};

use crate::Report;

/// The limit that callers meet, keyed by one part: far less than they ask for.
pub const LIMIT: &str = "per-caller";
const RATE: u32 = 100;
const BURST: u32 = 20;

/// Within this each question is promised an answer, and this is allowed on top.
pub const DEADLINE: Duration = Duration::from_millis(50);
/// The time that the promise allows on top of the deadline.
pub const SLACK: Duration = Duration::from_millis(5);

/// Every policy there is.
pub fn policies() -> [FailurePolicy; 3] {
    [
        FailurePolicy::Open,
        FailurePolicy::Closed(FailureStatus::default()),
        FailurePolicy::Local,
    ]
}

/// One replica.
pub type RedisLimiter = Limiter<RedisStore, MonotonicClock>;

/// A server of the scenario's own, and the way to it.
pub struct FaultyRedis {
    /// Redis.
    pub server: RedisServer,
    /// The address that replicas connect to.
    pub proxy: FaultProxy,
}

impl FaultyRedis {
    /// A server that persists nothing, and a network without a fault.
    pub async fn new() -> Arc<Self> {
        Self::with_server(RedisServer::start).await
    }

    /// The same with a server of another kind.
    pub async fn with_server(start: impl FnOnce() -> RedisServer + Send + 'static) -> Arc<Self> {
        let redis = tokio::task::spawn_blocking(|| {
            let server = start();
            Self {
                proxy: FaultProxy::new(server.address()),
                server,
            }
        });
        Arc::new(redis.await.expect("redis starts"))
    }

    /// A replica of its own: no other shares its counters.
    pub fn replica(&self, policy: FailurePolicy) -> RedisLimiter {
        replica(self.options(&policy.to_string()), policy)
    }

    /// Options with the defaults of the store; counters are shared by those who name the same `group`.
    pub fn options(&self, group: &str) -> RedisOptions {
        let address = self.proxy.address();
        let mut options =
            RedisOptions::standalone(Endpoint::new(address.ip().to_string(), address.port()));
        options.key_prefix = format!("{PREFIX}-{group}");
        options
    }

    /// Does something that blocks, where it delays no caller.
    pub async fn apart<T: Send + 'static>(
        self: &Arc<Self>,
        act: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let redis = Arc::clone(self);
        tokio::task::spawn_blocking(move || act(&redis))
            .await
            .expect("what is done to the server works")
    }

    /// Notes the promise that no key stays for ever.
    pub async fn leaves_nothing(self: &Arc<Self>, report: &mut Report) {
        let kept = self
            .apart(|redis| redis.server.keys_without_ttl(PREFIX))
            .await;
        report.promise(
            kept.is_empty(),
            format!("every key has a TTL (without: {kept:?})"),
        );
    }
}

const PREFIX: &str = "chaos";

/// A limiter over [`LIMIT`].
pub fn replica(options: RedisOptions, policy: FailurePolicy) -> RedisLimiter {
    let limit = Limit::new(LIMIT, Quota::per_second(RATE).burst(BURST)).key([KeyPart::Principal]);
    let limits = Policy::new([limit]).expect("a limit that is as it should be");
    let store = RedisStore::new(options).expect("options that are as they should be");
    Limiter::with_failure_policy(limits, store, MonotonicClock::new(), policy)
}

/// The bound on the admissions of one replica, when the state was lost so many times.
pub fn bound(losses: u64) -> Bound {
    Bound::new(u64::from(RATE), Duration::from_secs(1), u64::from(BURST)).with_bursts_lost(losses)
}
