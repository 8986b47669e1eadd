//! Advice about servers whose settings weaken the limits, and that following it is enough.

use std::time::{Duration, Instant};

use sluicegate::{Advice, Nanos, RedisOptions, RedisStore, StoreError};
use sluicegate_testkit::{RedisCluster, RedisServer, Replication, SentinelGroup};

use super::operations::{endpoint, patient};

async fn advice(options: &RedisOptions) -> Vec<Advice> {
    RedisStore::new(patient(options.clone()))
        .unwrap()
        .advice()
        .await
        .unwrap()
}

fn settings(advice: &[Advice]) -> Vec<&str> {
    advice.iter().map(|advice| advice.setting).collect()
}

/// Follows the advice, as far as it is a command.
fn follow(advice: &[Advice], servers: &[RedisServer]) {
    for advice in advice {
        let server = servers
            .iter()
            .find(|server| endpoint(server) == advice.node)
            .unwrap();
        server.command::<()>(&advice.change.split(' ').collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_server_that_is_set_up_well_gets_no_advice() {
    for lines in [
        ["save 3600 1", "appendonly no"],
        ["save \"\"", "appendonly yes"],
    ] {
        let full = ["maxmemory 100mb", "maxmemory-policy volatile-ttl"];
        let builder = lines
            .into_iter()
            .chain(full)
            .fold(RedisServer::builder(), |builder, line| builder.config(line));
        let server = builder.start();
        assert_eq!(
            advice(&RedisOptions::standalone(endpoint(&server))).await,
            []
        );
    }
}

#[tokio::test]
async fn each_setting_that_weakens_a_promise_is_named_with_what_to_do() {
    let cases = [
        ("save \"\"", "persistence (save, appendonly)", "off"),
        (
            "maxmemory-policy allkeys-lru",
            "maxmemory-policy",
            "allkeys-lru",
        ),
        (
            "maxmemory-policy volatile-random",
            "maxmemory-policy",
            "volatile-random",
        ),
        ("timeout 60", "timeout", "60 s"),
    ];
    for (line, setting, value) in cases {
        let builder = RedisServer::builder()
            .config("save 3600 1")
            .config("maxmemory 100mb")
            .config(line);
        // Several `save` lines add up; an empty one removes those before it.
        let servers = [builder.start()];
        let options = RedisOptions::standalone(endpoint(&servers[0]));
        let found = advice(&options).await;
        assert_eq!(
            (settings(&found), found[0].found.as_str()),
            (vec![setting], value)
        );
        assert!(found[0].change.starts_with("CONFIG SET "), "{}", found[0]);
        follow(&found, &servers);
        assert_eq!(advice(&options).await, [], "after {}", found[0].change);
    }
}

#[tokio::test]
async fn a_replica_behind_the_endpoint_is_named() {
    let replication = Replication::start(1);
    let found = advice(&RedisOptions::standalone(endpoint(
        &replication.servers()[1],
    )))
    .await;
    let node = &found[0].node;
    assert_eq!(
        settings(&found),
        ["persistence (save, appendonly)", "the server's role"]
    );
    assert_eq!(
        found[1].to_string(),
        format!(
            "{node}: the server's role is replica: it takes no writes, so every decision there fails with READONLY (name \
             its primary, or use the mode replication or sentinel)"
        )
    );
}

#[tokio::test]
async fn a_primary_that_needs_no_replica_is_named() {
    let group = SentinelGroup::start();
    let modes = [
        RedisOptions::replication(group.servers().iter().map(endpoint)),
        RedisOptions::sentinel(group.sentinels().iter().map(endpoint), SentinelGroup::NAME),
    ];
    for options in &modes {
        let found = advice(options).await;
        assert_eq!(
            settings(&found),
            ["min-replicas-to-write", "persistence (save, appendonly)"]
        );
    }
    follow(&advice(&modes[0]).await, group.servers());
    for options in &modes {
        assert_eq!(advice(options).await, []);
    }
}

#[tokio::test]
async fn every_master_of_a_cluster_is_looked_at() {
    let cluster = RedisCluster::start();
    for node in cluster.nodes() {
        node.command::<()>(&["CONFIG", "SET", "cluster-require-full-coverage", "yes"]);
    }
    let options = RedisOptions::cluster([endpoint(&cluster.nodes()[0])]);
    let found = advice(&options).await;
    let expected = [
        "cluster-require-full-coverage",
        "persistence (save, appendonly)",
    ]
    .repeat(3);
    assert_eq!(settings(&found), expected);
    follow(&found, cluster.nodes());
    assert_eq!(advice(&options).await, []);

    let masters = &cluster.nodes()[..3];
    masters[1].stop();
    let mut hurried = options;
    hurried.connect_timeout = Nanos::from_millis(300);
    let found = RedisStore::new(hurried).unwrap().advice().await.unwrap();
    assert_eq!(
        settings(&found),
        ["the node"],
        "the others are looked at all the same"
    );
    assert_eq!(found[0].node, endpoint(&masters[1]));
}

#[tokio::test]
async fn advice_about_a_server_that_is_away_or_hangs_comes_to_an_end() {
    let server = RedisServer::start();
    let mut options = RedisOptions::standalone(endpoint(&server));
    options.connect_timeout = Nanos::from_millis(300);
    server.stop();
    let started = Instant::now();
    let error = RedisStore::new(options.clone())
        .unwrap()
        .advice()
        .await
        .unwrap_err();
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{error} after {:?}",
        started.elapsed()
    );
    server.kill();
    let error = RedisStore::new(options)
        .unwrap()
        .advice()
        .await
        .unwrap_err();
    let StoreError::Unavailable(why) = error else {
        panic!("{error}")
    };
    assert!(why.contains("cannot connect"), "{why}");
}
