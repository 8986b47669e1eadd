//! A changed quota is rolled out: replicas on one Redis are reloaded one after the other, under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sluicegate::{
    Endpoint, FailurePolicy, KeyPart, Limit, Limiter, MonotonicClock, Nanos, Policy, Quota,
    RedisOptions, RedisStore,
};
use sluicegate_testkit::{Bound, RedisServer};

use crate::load::now;
use crate::{CallerLoad, Length, LoadRun, Report};

const LIMIT: &str = "per-caller";
const REPLICAS: usize = 4;

/// A quota before and after the change: units a second, and the burst.
#[derive(Clone, Copy, Debug)]
struct Change {
    old: (u32, u32),
    new: (u32, u32),
}

/// A smaller burst at the same rate, a smaller one of both, and a larger one of both.
const CHANGES: [Change; 3] = [
    Change {
        old: (50, 100),
        new: (50, 10),
    },
    Change {
        old: (50, 100),
        new: (25, 10),
    },
    Change {
        old: (25, 10),
        new: (50, 100),
    },
];

/// Replicas of both sides admit their part in every phase, and all together no more than the larger quota.
pub async fn rollout(length: Length) -> Report {
    let mut report = Report::new("a quota is changed, one replica after the other");
    let server = tokio::task::spawn_blocking(RedisServer::start);
    let server = server.await.expect("redis starts");
    for (number, change) in CHANGES.into_iter().enumerate() {
        let mut about = Report::new(format!("{change:?}"));
        play(&server, number, change, length, &mut about).await;
        report.include(about);
    }
    report
}

async fn play(
    server: &RedisServer,
    number: usize,
    change: Change,
    length: Length,
    report: &mut Report,
) {
    let replica = |_| {
        Limiter::with_failure_policy(
            policy(change.old),
            store(server, number),
            MonotonicClock::new(),
            FailurePolicy::default(),
        )
    };
    let replicas: Vec<Limiter<RedisStore>> = (0..REPLICAS).map(replica).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let running: Vec<_> = replicas
        .iter()
        .map(|replica| {
            let (replica, stop) = (replica.clone(), Arc::clone(&stop));
            let mut load = CallerLoad::on_one_key(LIMIT, "ann", 2);
            load.pause = Duration::from_millis(10);
            tokio::spawn(async move { load.run_until(&replica, stop).await })
        })
        .collect();
    let phase = Duration::from_secs(length.pick(2, 10));
    let (since, mut reloads) = (now(), Vec::new());
    for replica in &replicas {
        tokio::time::sleep(phase).await; // bounded wait: the length of a phase
        replica.set_policy(policy(change.new));
        reloads.push(now());
    }
    stop.store(true, Ordering::Relaxed);
    let mut runs = Vec::new();
    for running in running {
        runs.push(running.await.expect("callers do not panic"));
    }
    judge_parts(&runs, &reloads, report);
    let seconds = Duration::from_nanos(now() - since).as_secs();
    judge_bound(change, runs, seconds, report);
}

/// Notes what each replica admitted in each phase in which both configurations are in use. What flowed back while
/// everybody had the larger burst is spent in the first half of a phase.
fn judge_parts(runs: &[LoadRun], reloads: &[u64], report: &mut Report) {
    for (phase, span) in reloads.windows(2).enumerate() {
        let half = u64::midpoint(span[0], span[1]);
        let parts: Vec<usize> = runs
            .iter()
            .map(|run| run.between(half, span[1]).answers().allowed)
            .collect();
        // Each asks as often as the others. A quarter of its share is the least, for a busy machine.
        let least = parts.iter().sum::<usize>() / REPLICAS / 4;
        let is_served = parts.iter().all(|part| *part >= least.max(1));
        report.promise(
            is_served,
            format!(
                "with {} of {REPLICAS} reloaded, each admits its part: {parts:?}",
                phase + 1
            ),
        );
    }
}

/// Notes whether all replicas together kept the bound: the larger quota, and one forgiveness a minute.
fn judge_bound(change: Change, runs: Vec<LoadRun>, seconds: u64, report: &mut Report) {
    let mut all = LoadRun::default();
    runs.into_iter().for_each(|run| all.include(run));
    let (rate, burst) = (
        change.old.0.max(change.new.0),
        change.old.1.max(change.new.1),
    );
    let forgivenesses = if change.old.0 == change.new.0 {
        0
    } else {
        1 + seconds / 60
    };
    let bound = Bound::new(rate.into(), Duration::from_secs(1), burst.into());
    let checked = bound
        .with_bursts_lost(forgivenesses)
        .check(&all.admissions());
    report.promise(
        checked.holds(),
        format!("admitted within the bound: {checked}"),
    );
    let failed = all.answers().unavailable;
    report.promise(
        failed == 0,
        format!("Redis decides everything ({failed} failed)"),
    );
}

fn policy((rate, burst): (u32, u32)) -> Policy {
    let limit = Limit::new(LIMIT, Quota::per_second(rate).burst(burst)).key([KeyPart::Principal]);
    Policy::new([limit]).expect("a limit that is as it should be")
}

fn store(server: &RedisServer, number: usize) -> RedisStore {
    let address = server.address();
    let endpoint = Endpoint::new(address.ip().to_string(), address.port());
    let mut options = RedisOptions::standalone(endpoint);
    options.key_prefix = format!("chaos-rollout-{number}");
    // These are about quotas, not about deadlines.
    options.deadline = Nanos::from_secs(2);
    RedisStore::new(options).expect("options that are as they should be")
}
