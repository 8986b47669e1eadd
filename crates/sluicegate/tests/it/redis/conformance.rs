//! Redis decides as the pure code does: transcripts, and random steps against the reference store.

use sluicegate::conformance;
use sluicegate_testkit::RedisServer;

use super::store_with_given_clock;
use crate::conformance::random;

#[tokio::test]
async fn redis_plays_every_transcript() {
    let server = RedisServer::start();
    conformance::run(|| store_with_given_clock(&server))
        .await
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(server.keys_without_ttl("test-"), Vec::<String>::new());
}

/// `cargo xtask chaos` plays a million steps and more.
#[tokio::test]
async fn redis_answers_as_the_reference_store_does() {
    const PROGRAMS: u64 = 200;
    let server = RedisServer::start();
    for seed in 0..random::programs(PROGRAMS) {
        random::compare(seed, &store_with_given_clock(&server))
            .await
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert_eq!(server.keys_without_ttl("test-"), Vec::<String>::new());
}
