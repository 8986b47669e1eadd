//! Clocks that step, and replicas that sleep.

use std::path::Path;
use std::time::Duration;

use sluicegate::RedisClock;
use sluicegate_testkit::{ClockShim, RedisServer};
use tokio::task::JoinSet;

use super::{check_answers, check_bound};
use crate::load::now;
use crate::replica::{ReplicaArguments, ReplicaHistory, ReplicaRule};
use crate::replicas::{Replicas, merged};
use crate::{Length, Report};

/// A unit every 50 ms, half a second from empty to full.
const RULE: ReplicaRule = ReplicaRule::PerSecond {
    count: 20,
    burst: 10,
};
const EMISSION_INTERVAL: Duration = Duration::from_millis(50);
/// Steps back up to this are believed and waited for.
const BELIEVED: Duration = Duration::from_secs(60);

/// Redis' clock steps under load, both ways: at most a burst more passes, and it goes on after two emission intervals,
/// or when a step back that is believed has been waited for.
pub async fn redis_clock_steps(length: Length, replica: &Path) -> Report {
    let mut report = Report::new("Redis' clock steps");
    // A minute back stops the limit for a minute: long form only.
    let steps_ms = length.pick(
        vec![100, -100, 1_000, -1_000, 60_000, 3_600_000, -3_600_000],
        vec![
            100, -100, 1_000, -1_000, 60_000, -60_000, 3_600_000, -3_600_000,
        ],
    );
    // Each on a server of its own, side by side.
    let mut steps = JoinSet::new();
    let programs = steps_ms.iter().map(|step| (*step, replica.to_owned()));
    for (step_ms, replica) in programs {
        steps.spawn(async move { (step_ms, one_step(length, &replica, step_ms).await) });
    }
    let mut done = Vec::new();
    while let Some(step) = steps.join_next().await {
        done.push(step.expect("a step does not panic"));
    }
    done.sort_by_key(|(step_ms, _)| (step_ms.abs(), *step_ms < 0));
    done.into_iter().for_each(|(_, step)| {
        report.include(step);
    });
    report
}

async fn one_step(length: Length, replica: &Path, step_ms: i64) -> Report {
    let mut report = Report::new(format!("a step by {step_ms} ms"));
    let clock = ClockShim::build().clock();
    let server = RedisServer::builder().clock(&clock).start();
    let step = Duration::from_millis(step_ms.unsigned_abs());
    let waited_for = if step_ms < 0 && step <= BELIEVED {
        step
    } else {
        Duration::ZERO
    };
    let before = Duration::from_millis(length.pick(1_000, 3_000));
    let after = waited_for + Duration::from_millis(length.pick(1_500, 5_000));
    let orders = ReplicaArguments {
        tasks: 2,
        length: before + after,
        ..ReplicaArguments::new(server.url(), RULE)
    };
    let replicas = Replicas::start(replica, &orders, &[None, None]);
    let at = replicas.start + before.as_nanos() as u64;
    // bounded wait: the step comes in the middle of the load
    tokio::time::sleep(Duration::from_nanos(at.saturating_sub(now()))).await;
    let stepped = now();
    clock.set_realtime_offset(step_ms * 1_000_000);
    let history = merged(replicas.finish().await);
    check_answers(&mut report, &history);
    check_bound(&mut report, RULE, &history, 1);
    let stall = stall(&history, stepped);
    // Callers ask every few milliseconds, and a busy machine lets them wait.
    let most = 2 * EMISSION_INTERVAL
        + waited_for
        + length.pick(Duration::from_millis(300), Duration::from_millis(100));
    report.promise(
        stall <= most,
        format!("nobody passed for {stall:?} after the step, at most {most:?}"),
    );
    report
}

/// The longest time without an admission from the one before the step on.
fn stall(history: &ReplicaHistory, stepped: u64) -> Duration {
    let mut admitted: Vec<u64> = history
        .run
        .admissions()
        .iter()
        .map(|admission| admission.received)
        .collect();
    admitted.sort_unstable();
    let before = admitted
        .partition_point(|received| *received < stepped)
        .saturating_sub(1);
    let end = history.run.asked.iter().map(|asked| asked.received).max();
    admitted.extend(end);
    let gaps = admitted[before..].windows(2).map(|pair| pair[1] - pair[0]);
    Duration::from_nanos(gaps.max().unwrap_or(u64::MAX))
}

/// A replica starts before 1970, beside one that lives now: no panic, and the bound holds whosever clock counts.
pub async fn time_before_1970(length: Length, replica: &Path) -> Report {
    const HUNDRED_YEARS: i64 = 100 * 365 * 86_400 * 1_000_000_000;
    let mut report = Report::new("a replica that starts before 1970");
    for clock in [RedisClock::Server, RedisClock::Replica] {
        let early = ClockShim::build().clock();
        early.set_realtime_offset(-HUNDRED_YEARS);
        let server = RedisServer::start();
        let seconds = Duration::from_secs(length.pick(1, 10));
        let orders = ReplicaArguments {
            clock,
            length: seconds,
            ..ReplicaArguments::new(server.url(), RULE)
        };
        let histories = Replicas::start(replica, &orders, &[Some(early), None])
            .finish()
            .await;
        let mut part = Report::new(format!("{clock:?} clock"));
        part.fact(format!(
            "admitted by each: {:?}",
            histories
                .iter()
                .map(ReplicaHistory::admitted)
                .collect::<Vec<_>>()
        ));
        let all = merged(histories);
        check_answers(&mut part, &all);
        check_bound(&mut part, RULE, &all, 0);
        report.include(part);
    }
    report
}

/// One of four replicas is frozen for a while, as a laptop or a migrating machine is, and goes on.
pub async fn suspended_replica(length: Length, replica: &Path) -> Report {
    let mut report = Report::new("a replica is suspended and resumed");
    let server = RedisServer::start();
    // Longer than a shadow lives.
    let (before, frozen, after) = length.pick((500, 2_500, 1_000), (2_000, 10_000, 5_000));
    let millis = Duration::from_millis;
    let orders = ReplicaArguments {
        length: millis(before + frozen + after),
        ..ReplicaArguments::new(server.url(), RULE)
    };
    let replicas = Replicas::start(replica, &orders, &[const { None }; 4]);
    let start = replicas.start;
    let wait_until = |at: u64| {
        tokio::time::sleep(Duration::from_nanos(
            (start + at * 1_000_000).saturating_sub(now()),
        ))
    };
    wait_until(before).await; // bounded wait: frozen in the middle of the load
    replicas.stop(0);
    wait_until(before + frozen).await; // bounded wait: it sleeps longer than a shadow lives
    replicas.resume(0);
    let histories = replicas.finish().await;
    let resumed = start + (before + frozen) * 1_000_000;
    let woken = histories[0].run.between(resumed, u64::MAX).answers();
    report.promise(
        woken.allowed + woken.rejected > 0,
        format!("the one that slept goes on: {woken:?}"),
    );
    // A question that was under way may be past its deadline when its replica wakes.
    let unavailable = histories[0].run.answers().unavailable;
    report.promise(
        unavailable <= orders.tasks,
        format!("{unavailable} questions were given up on waking"),
    );
    let all = merged(histories);
    check_bound(&mut report, RULE, &all, 0);
    report
}
