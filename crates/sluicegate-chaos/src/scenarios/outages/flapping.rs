//! Redis goes and comes ten times a second: a replica on its own admits no more than one bucket holds.

use std::time::{Duration, Instant};

use sluicegate::FailurePolicy;
use sluicegate_testkit::Fault as Network;

use super::callers::{Callers, begins_now, failures};
use super::faulty_redis::FaultyRedis;
use crate::load::now;
use crate::{Length, Report};

/// Connections are reset, and accepted again.
pub async fn resets(length: Length) -> Report {
    flap("connections reset every 100 ms", length, |redis, away| {
        redis
            .proxy
            .set(if away { Network::Reset } else { Network::None });
    })
    .await
}

/// The process is stopped, and goes on.
pub async fn stops(length: Length) -> Report {
    flap(
        "redis stopped every 100 ms",
        length,
        |redis, away| match away {
            true => redis.server.stop(),
            false => redis.server.resume(),
        },
    )
    .await
}

async fn flap(name: &str, length: Length, set: fn(&FaultyRedis, bool)) -> Report {
    const BEFORE: Duration = Duration::from_millis(400);
    const HALF: Duration = Duration::from_millis(100);
    let mut report = Report::new(name);
    let redis = FaultyRedis::new().await;
    let replica = redis.replica(FailurePolicy::Local);
    let callers = Callers::start([(FailurePolicy::Local, replica.clone())]);
    callers.go_on(BEFORE).await;

    let mut fault = begins_now();
    let end = Instant::now() + Duration::from_secs(length.pick(3, 30));
    while Instant::now() < end {
        for away in [true, false] {
            redis.apart(move |redis| set(redis, away)).await;
            callers.go_on(HALF).await;
        }
    }
    fault.healed = now();
    callers.are_served().await;

    for (policy, run) in callers.stop(&mut report).await {
        let flapping = run.between(fault.began, fault.healed);
        let (felt, decided) = (failures(&flapping), flapping.answers().allowed);
        report.promise(
            felt > 0 && decided > 0,
            format!("{felt} decided without the store, {decided} let pass by it"),
        );
        fault.judge(policy, &run, length, &mut report);
    }
    report.promise(
        replica.fallback().is_some(),
        "the counters of the replica outlast the flaps",
    );
    redis.leaves_nothing(&mut report).await;
    report
}
