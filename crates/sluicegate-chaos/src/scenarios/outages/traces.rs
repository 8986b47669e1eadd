//! A dropped store leaves nothing behind, also when its runtime ends before it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate::{FailurePolicy, Nanos};
use sluicegate_testkit::Fault as Network;
use tokio::runtime::{Builder, Handle, Runtime};

use super::faulty_redis::{FaultyRedis, LIMIT, RedisLimiter, replica};
use crate::load::AnswerKind;
use crate::{Length, Report};

/// Stores are made, used and dropped, with Redis there, away, and silent: no task and no descriptor is left.
pub async fn dropped(length: Length) -> Report {
    let mut report = Report::new("stores come and go");
    let redis = FaultyRedis::new().await;
    once(&redis).await;
    settle(0, usize::MAX).await;
    let (tasks, descriptors) = (tasks(), descriptors());
    for fault in [Network::None, Network::Reset, Network::Stall] {
        redis.apart(move |redis| redis.proxy.set(fault)).await;
        for _ in 0..length.pick(20, 500) {
            once(&redis).await;
        }
        // Dropped in the moment of its start, its tasks are only beginning.
        for _ in 0..length.pick(200, 5_000) {
            replica(redis.options("brief"), FailurePolicy::Open)
                .store()
                .start();
        }
        redis.apart(|redis| redis.proxy.set(Network::None)).await;
    }
    settle(tasks, descriptors).await;
    let (tasks_left, descriptors_left) = (self::tasks(), self::descriptors());
    report.promise(
        tasks_left <= tasks,
        format!("{tasks_left} tasks live, {tasks} did before"),
    );
    let promise = format!("{descriptors_left} descriptors are open, {descriptors} were before");
    report.promise(descriptors_left <= descriptors, promise);
    redis.leaves_nothing(&mut report).await;
    report
}

/// The runtime that a store's connections belong to ends: its callers elsewhere are told, and the next one dials anew.
pub async fn runtime_ends(length: Length) -> Report {
    let redis = FaultyRedis::new().await;
    redis.apart(move |redis| move_house(redis, length)).await
}

fn move_house(redis: &FaultyRedis, length: Length) -> Report {
    let mut report = Report::new("the runtime ends under the store");
    for _ in 0..length.pick(5, 100) {
        let mut options = redis.options("moving");
        options.deadline = Nanos::from_secs(20);
        let replica = replica(options, FailurePolicy::Open);
        let (first, second) = (runtime(), runtime());
        let before = first.block_on(ask(replica.clone()));
        redis.server.stop();
        let waiting = second.spawn(ask(replica.clone()));
        std::thread::sleep(Duration::from_millis(50)); // bounded wait: the question is under way
        let ended = Instant::now();
        first.shutdown_timeout(Duration::from_secs(5));
        let told =
            second.block_on(async { tokio::time::timeout(Duration::from_secs(5), waiting).await });
        let took = ended.elapsed();
        redis.server.resume();
        let told = told.ok().and_then(Result::ok);
        if before != AnswerKind::Allowed || told != Some(AnswerKind::Unchecked) {
            report.promise(
                false,
                format!("first {before:?}, then {told:?} after {took:.0?}"),
            );
        }
        let after = second
            .block_on(async { tokio::time::timeout(Duration::from_secs(5), ask(replica)).await });
        if after != Ok(AnswerKind::Allowed) {
            report.promise(false, format!("the next runtime is served (got {after:?})"));
        }
    }
    let kept = redis.server.keys_without_ttl("chaos");
    report.promise(
        kept.is_empty(),
        format!("every key has a TTL (without: {kept:?})"),
    );
    report
}

async fn ask(replica: RedisLimiter) -> AnswerKind {
    AnswerKind::of(&replica.check_named(LIMIT, &["ann"], 1).await)
}

async fn once(redis: &Arc<FaultyRedis>) {
    ask(replica(redis.options("brief"), FailurePolicy::Open)).await;
}

/// Waits until so much is left, or it is clear that more stays. A machine that runs other tests beside this
/// one may take many seconds to close six hundred connections; one that does not is done at once.
async fn settle(tasks: usize, descriptors: usize) {
    let end = Instant::now() + Duration::from_secs(if descriptors == usize::MAX { 1 } else { 60 });
    while (self::tasks() > tasks || self::descriptors() > descriptors) && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(10)).await; // bounded wait: until the end above
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be made")
}
