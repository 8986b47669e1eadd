//! Redis has no memory left and evicts nothing: the failure policy holds, and says why.

use std::time::Duration;

use sluicegate::{FailurePolicy, FailureStatus, Verdict};

use super::callers::{Callers, begins_now, failures};
use super::faulty_redis::{FaultyRedis, LIMIT, policies};
use crate::load::now;
use crate::{Length, Report};

/// Foreign keys take all memory, and go again.
pub async fn full(length: Length) -> Report {
    const BEFORE: Duration = Duration::from_millis(400);
    let mut report = Report::new("redis out of memory");
    let redis = FaultyRedis::new().await;
    let replicas = policies().map(|policy| (policy, redis.replica(policy)));
    let callers = Callers::start(replicas.clone());
    callers.go_on(BEFORE).await;

    let mut fault = begins_now();
    redis.apart(fill).await;
    callers.go_on(Duration::from_secs(length.pick(1, 15))).await;
    look(&redis, &mut report).await;
    for (policy, replica) in &replicas {
        let errors: u64 = replica
            .store()
            .health()
            .nodes
            .iter()
            .map(|node| node.counts.errors)
            .sum();
        report.promise(
            errors > 0,
            format!("{policy}: errors are counted ({errors})"),
        );
    }
    redis.apart(free).await;
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

/// The answer that a new caller gets meanwhile.
async fn look(redis: &FaultyRedis, report: &mut Report) {
    let closed = redis.replica(FailurePolicy::Closed(FailureStatus::default()));
    let verdict = closed.check_named(LIMIT, &["dan"], 1).await;
    let names_it =
        matches!(&verdict, Verdict::Unavailable { error, .. } if error.to_string().contains("OOM"));
    report.promise(
        names_it && closed.is_degraded(),
        format!("the reason is named: {verdict:?}"),
    );
}

fn fill(redis: &FaultyRedis) {
    const KEYS: usize = 64;
    let value = "x".repeat(64 * 1024);
    for key in 0..KEYS {
        redis
            .server
            .command::<()>(&["SET", &format!("foreign-{key}"), &value]);
    }
    let cap = redis.server.used_memory() - 1024 * 1024;
    redis
        .server
        .command::<()>(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    redis
        .server
        .command::<()>(&["CONFIG", "SET", "maxmemory", &cap.to_string()]);
}

fn free(redis: &FaultyRedis) {
    for key in redis.server.keys("foreign-") {
        redis
            .server
            .command::<()>(&["DEL", &String::from_utf8_lossy(&key)]);
    }
}
