//! Redis forgets scripts, keys or connections, or rests for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::{FailurePolicy, Nanos};

use super::callers::{Callers, begins_now, failures, load};
use super::faulty_redis::{self, FaultyRedis, RedisLimiter, policies};
use crate::load::now;
use crate::{Length, LoadRun, Report};

/// SCRIPT FLUSH every 5 ms, and no request notices.
pub async fn scripts(length: Length) -> Report {
    let mut report = Report::new("scripts forgotten every 5 ms");
    let redis = FaultyRedis::new().await;
    let replica = patient(&redis);
    let over = Arc::new(AtomicBool::new(false));
    let flushing = {
        let (redis, over) = (Arc::clone(&redis), Arc::clone(&over));
        tokio::task::spawn_blocking(move || {
            while !over.load(Ordering::Relaxed) {
                redis.server.flush_scripts();
                std::thread::sleep(Duration::from_millis(5)); // bounded wait: the pace of the flushes
            }
        })
    };
    let run = load()
        .run_for(&replica, Duration::from_secs(length.pick(2, 30)))
        .await;
    over.store(true, Ordering::Relaxed);
    flushing.await.expect("redis is there to be flushed");

    let reloads: u64 = replica
        .store()
        .health()
        .nodes
        .iter()
        .map(|node| node.counts.script_reloads)
        .sum();
    report.promise(
        reloads > 1,
        format!("scripts were sent again ({reloads} times)"),
    );
    report.promise(
        failures(&run) == 0,
        format!("no request fails ({} did)", failures(&run)),
    );
    within_bound(&run, 0, &mut report);
    redis.leaves_nothing(&mut report).await;
    report
}

/// FLUSHALL costs at most one burst each.
pub async fn counters(length: Length) -> Report {
    let mut report = Report::new("counters forgotten");
    let (flushes, pause) = (length.pick(3_u32, 30), Duration::from_millis(400));
    let redis = FaultyRedis::new().await;
    let replica = patient(&redis);
    let flushing = async {
        for _ in 0..flushes {
            tokio::time::sleep(pause).await; // bounded wait: the pace of the flushes
            redis.apart(|redis| redis.server.flush_all()).await;
        }
    };
    let asking = load();
    let (run, ()) = tokio::join!(asking.run_for(&replica, pause * (flushes + 1)), flushing);
    report.promise(
        failures(&run) == 0,
        format!("no request fails ({} did)", failures(&run)),
    );
    within_bound(&run, u64::from(flushes), &mut report);
    redis.leaves_nothing(&mut report).await;
    report
}

/// CLIENT KILL fails what was under way, and nothing else.
pub async fn connections(length: Length) -> Report {
    let mut report = Report::new("connections killed");
    let (kills, pause) = (length.pick(5_u32, 50), Duration::from_millis(200));
    let redis = FaultyRedis::new().await;
    let replica = patient(&redis);
    let killing = async {
        for _ in 0..kills {
            tokio::time::sleep(pause).await; // bounded wait: the pace of the kills
            redis
                .apart(|redis| {
                    redis
                        .server
                        .command::<()>(&["CLIENT", "KILL", "TYPE", "normal"])
                })
                .await;
        }
    };
    let asking = load();
    let (run, ()) = tokio::join!(asking.run_for(&replica, pause * (kills + 1)), killing);
    let (failed, under_way) = (failures(&run), asking.tasks * kills as usize);
    report.promise(
        failed <= under_way,
        format!("{failed} requests failed, at most {under_way} were under way"),
    );
    let dials: u64 = replica
        .store()
        .health()
        .nodes
        .iter()
        .map(|node| node.counts.dials)
        .sum();
    report.promise(
        dials == u64::from(kills) + 1,
        format!("one dial for each connection lost ({dials})"),
    );
    within_bound(&run, 0, &mut report);
    redis.leaves_nothing(&mut report).await;
    report
}

/// CLIENT PAUSE: Redis is there and says nothing.
pub async fn pause(length: Length) -> Report {
    const BEFORE: Duration = Duration::from_millis(400);
    const MILLISECONDS: u64 = 700;
    let mut report = Report::new("clients paused");
    let redis = FaultyRedis::new().await;
    let callers = Callers::start(policies().map(|policy| (policy, redis.replica(policy))));
    callers.go_on(BEFORE).await;
    let mut fault = begins_now();
    redis
        .apart(|redis| redis.server.pause_clients(MILLISECONDS))
        .await;
    callers.go_on(Duration::from_millis(MILLISECONDS)).await;
    fault.healed = now();
    callers.are_served().await;
    for (policy, run) in callers.stop(&mut report).await {
        let felt = failures(&run.between(fault.began, u64::MAX));
        report.promise(
            felt > 0,
            format!("{policy}: the fault was felt ({felt} times)"),
        );
        fault.judge(policy, &run, length, &mut report);
    }
    redis.leaves_nothing(&mut report).await;
    report
}

/// A replica with so long a deadline that only what Redis says can fail a request.
fn patient(redis: &FaultyRedis) -> RedisLimiter {
    let mut options = redis.options("patient");
    options.deadline = Nanos::from_secs(5);
    faulty_redis::replica(options, FailurePolicy::Open)
}

fn within_bound(run: &LoadRun, losses: u64, report: &mut Report) {
    report.fact(format!("{:?}", run.answers()));
    let checked = faulty_redis::bound(losses).check(&run.admissions());
    report.promise(
        checked.holds() && !checked.keys().is_empty(),
        format!("admitted within the bound: {checked}"),
    );
}
