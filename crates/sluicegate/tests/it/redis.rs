//! The Redis store against real servers.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

mod acl;
mod advice;
mod changed_quotas;
mod conformance;
mod operations;
mod passwords;
mod refusing_node;
mod search;
mod tls;
mod values;

use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate::{Endpoint, Nanos, RedisClock, RedisOptions, RedisStore};
use sluicegate_testkit::RedisServer;

/// Options for a test server, with a key prefix that no other test uses.
pub fn options(server: &RedisServer) -> RedisOptions {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let address = server.address();
    let mut options =
        RedisOptions::standalone(Endpoint::new(address.ip().to_string(), address.port()));
    options.key_prefix = format!("test-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    options
}

/// A store that decides by the clock it is given.
pub fn store_with_given_clock(server: &RedisServer) -> RedisStore {
    let mut options = options(server);
    options.clock = RedisClock::Given;
    // These tests compare results, not durations.
    options.deadline = Nanos::from_secs(30);
    RedisStore::new(options).unwrap()
}
