//! Redis is not there when we start, comes back while nobody asks, or is still loading.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate::{Endpoint, FailurePolicy, FailureStatus, NodeState, RedisOptions};
use sluicegate_testkit::{Fault as Network, RedisServer, free_port};

use super::callers::is_failure;
use super::faulty_redis::{FaultyRedis, LIMIT, RedisLimiter, policies, replica};
use crate::load::AnswerKind;
use crate::{Length, Report};

/// The first decision is answered by the policy, and Redis is found when it starts.
pub async fn boot(length: Length) -> Report {
    let mut report = Report::new("booted before redis");
    let port = free_port();
    let mut replicas = Vec::new();
    for policy in policies() {
        let mut options = RedisOptions::standalone(Endpoint::new("127.0.0.1", port));
        options.key_prefix = format!("chaos-{policy}");
        let replica = replica(options, policy);
        let asked = Instant::now();
        let answer = AnswerKind::of(&replica.check_named(LIMIT, &["ann"], 1).await);
        let took = asked.elapsed();
        let expected = match policy {
            FailurePolicy::Open => AnswerKind::Unchecked,
            FailurePolicy::Closed(_) => AnswerKind::Unavailable,
            FailurePolicy::Local => AnswerKind::AllowedLocally,
        };
        let longest = length.pick(Duration::from_millis(300), Duration::from_millis(55));
        let promise =
            format!("{policy}: answered {answer:?} after {took:.1?}, at most {longest:?}");
        report.promise(answer == expected && took <= longest, promise);
        replicas.push(replica);
    }
    let server = tokio::task::spawn_blocking(move || RedisServer::builder().port(port).start());
    let server = server.await.expect("redis starts");
    let started = Instant::now();
    for replica in &replicas {
        served(replica).await;
    }
    let (back, longest) = (
        started.elapsed(),
        length.pick(Duration::from_secs(3), Duration::from_secs(1)),
    );
    report.promise(
        back <= longest,
        format!("served {back:.0?} after redis started, at most {longest:?}"),
    );
    let kept = tokio::task::spawn_blocking(move || server.keys_without_ttl("chaos"))
        .await
        .expect("redis is there");
    report.promise(
        kept.is_empty(),
        format!("every key has a TTL (without: {kept:?})"),
    );
    report
}

/// Recovery needs no request.
pub async fn idle(length: Length) -> Report {
    let mut report = Report::new("redis came back while nobody asked");
    let redis = FaultyRedis::new().await;
    let replica = redis.replica(FailurePolicy::Closed(FailureStatus::default()));
    served(&replica).await;
    redis.apart(|redis| redis.proxy.set(Network::Reset)).await;
    let is_away = |replica: &RedisLimiter| matches!(state(replica), Some(NodeState::Away { .. }));
    until(|| is_away(&replica)).await;
    report.promise(
        is_away(&replica),
        format!("noticed without a request: {:?}", state(&replica)),
    );
    tokio::time::sleep(Duration::from_secs(length.pick(1, 15))).await; // bounded wait: the length of the outage
    redis.apart(|redis| redis.proxy.set(Network::None)).await;
    let healed = Instant::now();
    until(|| replica.store().health().is_up()).await;
    let (back, longest) = (
        healed.elapsed(),
        length.pick(Duration::from_secs(3), Duration::from_secs(1)),
    );
    report.promise(
        back <= longest,
        format!("up {back:.0?} after healing, at most {longest:?}"),
    );
    let answer = AnswerKind::of(&replica.check_named(LIMIT, &["ann"], 1).await);
    report.promise(
        answer == AnswerKind::Allowed,
        format!("the next request is decided by the store: {answer:?}"),
    );
    redis.leaves_nothing(&mut report).await;
    report
}

/// A server that reads its data from disk is away, by its own word, and keeps what was saved.
pub async fn loading(length: Length) -> Report {
    let mut report = Report::new("redis loading");
    let keys = length.pick(2_000, 20_000);
    // A millisecond for each key, and a look at its clients now and then.
    let slow = || RedisServer::builder().config("key-load-delay 1000");
    let start = move || {
        slow()
            .config("loading-process-events-interval-bytes 1024")
            .start()
    };
    let redis = FaultyRedis::with_server(start).await;
    let replica = redis.replica(FailurePolicy::Closed(FailureStatus::default()));
    served(&replica).await;
    let behind = Arc::clone(&redis);
    let restarting = tokio::task::spawn_blocking(move || {
        let redis = &behind;
        let fill = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'foreign-' .. i, i) end";
        redis
            .server
            .command::<()>(&["EVAL", fill, "0", &keys.to_string()]);
        redis.server.command::<()>(&["SAVE"]);
        redis.server.restart();
    });
    let named = |replica: &RedisLimiter| matches!(state(replica), Some(NodeState::Away { error }) if error.contains("LOADING"));
    let mut seen = false;
    while !restarting.is_finished() {
        seen |= named(&replica);
        tokio::time::sleep(Duration::from_millis(2)).await; // bounded wait: redis has ten seconds to start
    }
    restarting.await.expect("redis starts");
    report.promise(seen, "a server that is loading is away, by that name");
    let healed = Instant::now();
    served(&replica).await;
    let (back, longest) = (
        healed.elapsed(),
        length.pick(Duration::from_secs(3), Duration::from_secs(1)),
    );
    report.promise(
        back <= longest,
        format!("served {back:.0?} after loading, at most {longest:?}"),
    );
    redis.leaves_nothing(&mut report).await;
    report
}

/// Asks until the store decides.
async fn served(replica: &RedisLimiter) {
    let end = Instant::now() + Duration::from_secs(10);
    while is_failure(AnswerKind::of(
        &replica.check_named(LIMIT, &["ann"], 1).await,
    )) && Instant::now() < end
    {
        tokio::time::sleep(Duration::from_millis(5)).await; // bounded wait: until the end above
    }
}

async fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(2)).await; // bounded wait: until the end above
    }
}

fn state(replica: &RedisLimiter) -> Option<NodeState> {
    replica
        .store()
        .health()
        .nodes
        .first()
        .map(|node| node.state.clone())
}
