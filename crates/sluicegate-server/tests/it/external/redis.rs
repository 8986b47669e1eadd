//! Answers that replicas share through a real Redis.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use sluicegate::{Endpoint, Nanos, RedisOptions, RedisStore};
use sluicegate_gate::external::{External, ResolvedLimits};
use sluicegate_testkit::{RedisCluster, RedisServer, STEP_TIMEOUT, eventually};
use tokio::runtime::Handle;

use super::service::{HttpLimits, Manner};
use super::{ask, asks, over_http, told};

const SEVEN: &str = r#"{"average": 7}"#;

fn patient(mut options: RedisOptions) -> Arc<RedisStore> {
    options.deadline = Nanos::from_secs(5);
    options.connect_timeout = Nanos::from_secs(5);
    Arc::new(RedisStore::new(options).unwrap())
}

fn endpoint(server: &RedisServer) -> Endpoint {
    Endpoint::new("127.0.0.1", server.port())
}

fn replica(service: &HttpLimits, server: &RedisServer) -> External {
    let cache = patient(RedisOptions::standalone(endpoint(server)));
    External::new(&over_http(service.port), Some(cache), Handle::current()).unwrap()
}

/// The answer is told before it is kept.
async fn kept(server: &RedisServer, count: usize) {
    let begun = std::time::Instant::now();
    while server.keys("sluicegate:~ext:").len() < count {
        assert!(begun.elapsed() < STEP_TIMEOUT, "{:?}", server.keys(""));
        // bounded wait: until the deadline above
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Each answer is kept twice: for its lifetime, and longer for when the service fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_call_is_enough_for_all_replicas() {
    let (server, service) = (RedisServer::start(), HttpLimits::saying(SEVEN).await);
    let replicas: Vec<External> = (0..3).map(|_| replica(&service, &server)).collect();
    assert_eq!(told(&ask(&replicas[0], "stale:x").await), Some((7, false)));
    kept(&server, 2).await;
    for replica in &replicas {
        assert_eq!(told(&ask(replica, "stale:x").await), Some((7, false)));
    }
    assert_eq!(service.calls(), 1);
    let (fresh, stale) = (
        "sluicegate:~ext:f:tenant:stale%3Ax",
        "sluicegate:~ext:s:tenant:stale%3Ax",
    );
    let ttl = |name: &str| server.command::<u64>(&["TTL", name]);
    assert!((50..=60).contains(&ttl(fresh)), "{}", ttl(fresh));
    assert!((350..=360).contains(&ttl(stale)), "{}", ttl(stale));
    assert!(server.keys_without_ttl("").is_empty());
}

/// Other text, another caller's answer, and values of other types than ours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poisoned_values_are_fetched_again_whatever_they_are() {
    let (server, service) = (RedisServer::start(), HttpLimits::saying(SEVEN).await);
    let name = "sluicegate:~ext:f:tenant:a";
    for (calls, poison) in [
        &["SET", name, "hello"][..],
        &[
            "SET",
            name,
            "{\"v\":1,\"of\":\"tenant:b\",\"ttl_ms\":60000,\"answer\":{}}",
        ],
        &["LPUSH", name, "1"],
        &["HSET", name, "average", "1"],
    ]
    .iter()
    .enumerate()
    {
        server.flush_all();
        server.command::<()>(poison);
        let replica = replica(&service, &server);
        assert_eq!(
            told(&ask(&replica, "a").await),
            Some((7, false)),
            "{poison:?}"
        );
        assert_eq!(service.calls(), calls + 1);
        let counts = replica.counts();
        assert_eq!(counts.poisoned + counts.redis_errors, 1, "{counts:?}");
        kept(&server, 2).await;
        eventually("the value is put right", || {
            server
                .try_command::<String>(&["GET", name])
                .is_ok_and(|value| value.contains("\"average\":7"))
        });
    }
}

/// Each replica has what it remembers, and the service.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_the_service_is_asked() {
    let (server, service) = (RedisServer::start(), HttpLimits::saying(SEVEN).await);
    let mut options = RedisOptions::standalone(endpoint(&server));
    options.deadline = Nanos::from_millis(200);
    let cache = Arc::new(RedisStore::new(options).unwrap());
    let replica = External::new(&over_http(service.port), Some(cache), Handle::current()).unwrap();
    server.kill();
    assert_eq!(told(&ask(&replica, "a").await), Some((7, false)));
    let headers = HeaderMap::new();
    let known = replica.resolve_cached(&asks("a", &headers), tokio::time::Instant::now());
    assert_eq!(known.as_ref().and_then(told), Some((7, false)));
    assert_eq!(service.calls(), 1);
}

/// The longer-lived copy in Redis serves where the replica itself remembers nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_replica_finds_the_older_answer_of_a_service_that_is_gone() {
    let server = RedisServer::start();
    let body = r#"{"average": 7, "cache_max_age_seconds": 1}"#.to_owned();
    let service = HttpLimits::start(Manner {
        body,
        ..Manner::default()
    })
    .await;
    ask(&replica(&service, &server), "a").await;
    kept(&server, 2).await;
    eventually("a second is over", || {
        server.keys("sluicegate:~ext:f:").is_empty()
    });
    let gone = HttpLimits {
        port: sluicegate_testkit::free_port(),
        seen: Arc::default(),
    };
    assert_eq!(
        told(&ask(&replica(&gone, &server), "a").await),
        Some((7, true))
    );
    assert_eq!(
        ask(&replica(&gone, &server), "b").await,
        ResolvedLimits::Configured
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster_answers_are_on_all_nodes() {
    let (cluster, service) = (RedisCluster::start(), HttpLimits::saying(SEVEN).await);
    let replica = || {
        let cache = patient(RedisOptions::cluster(cluster.nodes().iter().map(endpoint)));
        External::new(&over_http(service.port), Some(cache), Handle::current()).unwrap()
    };
    let keys: Vec<String> = (0..30)
        .map(|number| format!("{{tenant}}-{number}"))
        .collect();
    let first = replica();
    for key in &keys {
        assert_eq!(told(&ask(&first, key).await), Some((7, false)), "{key}");
    }
    eventually("all are kept", || {
        cluster
            .nodes()
            .iter()
            .map(|node| node.keys("sluicegate:~ext:").len())
            .sum::<usize>()
            >= 2 * keys.len()
    });
    let second = replica();
    for key in &keys {
        assert_eq!(told(&ask(&second, key).await), Some((7, false)), "{key}");
    }
    assert_eq!(
        (service.calls(), second.counts().redis_hits),
        (keys.len(), keys.len() as u64)
    );
}
