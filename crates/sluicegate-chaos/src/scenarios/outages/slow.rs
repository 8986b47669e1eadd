//! Redis answers, but later than the deadline: every policy but `open` still limits.

use std::time::{Duration, Instant};

use sluicegate_testkit::Fault as Network;

use super::callers::{Callers, begins_now, failures};
use super::faulty_redis::{FaultyRedis, policies};
use crate::load::now;
use crate::{Length, Report};

/// Each answer is on its way for longer than the deadline.
pub async fn by_latency(length: Length) -> Report {
    // Too short a silence for the connection to be given up: it stays, and every answer is late.
    const EACH_WAY: Duration = Duration::from_millis(40);
    slow("redis late by latency", length, |redis, span| {
        redis.proxy.set(Network::Latency(EACH_WAY));
        std::thread::sleep(span); // bounded wait: the length of the fault
        redis.proxy.set(Network::None);
    })
    .await
}

/// Redis is busy with somebody else's commands, each longer than the deadline.
pub async fn by_load(length: Length) -> Report {
    slow("redis late by load", length, |redis, span| {
        let end = Instant::now() + span;
        while Instant::now() < end {
            redis.server.command::<()>(&["DEBUG", "SLEEP", "0.12"]);
        }
    })
    .await
}

async fn slow(name: &str, length: Length, make_slow: fn(&FaultyRedis, Duration)) -> Report {
    const BEFORE: Duration = Duration::from_millis(400);
    let mut report = Report::new(name);
    let span = Duration::from_secs(length.pick(2, 15));
    let redis = FaultyRedis::new().await;
    let callers = Callers::start(policies().map(|policy| (policy, redis.replica(policy))));
    callers.go_on(BEFORE).await;

    let mut fault = begins_now();
    redis.apart(move |redis| make_slow(redis, span)).await;
    fault.healed = now();
    callers.are_served().await;

    for (policy, run) in callers.stop(&mut report).await {
        let felt = failures(&run.between(fault.began, fault.healed));
        report.promise(
            felt > 0,
            format!("{policy}: the fault was felt ({felt} times)"),
        );
        fault.judge(policy, &run, length, &mut report);
    }
    redis.leaves_nothing(&mut report).await;
    report
}
