//! A cluster loses a master.

use std::time::Duration;

use sluicegate::{FailurePolicy, Key, KeyLayout, KeyPart, Limit, Quota, RedisOptions, StoredNames};
use sluicegate_testkit::{RedisCluster, RedisServer};

use super::*;
use crate::CallerLoad;

/// One of three masters is killed.
pub async fn master_killed(length: Length) -> Report {
    lost("a master is killed", RedisServer::kill, length).await
}

/// One of three masters hangs, and wakes up when it is no master any more.
pub async fn master_hung(length: Length) -> Report {
    lost("a master hangs", RedisServer::stop, length).await
}

/// One endpoint is enough, also behind one that is dead.
pub async fn one_endpoint(_length: Length) -> Report {
    let mut report = Report::new("one endpoint of a cluster");
    let nodes = started(RedisCluster::start).await;
    let dead = sluicegate::Endpoint::new("127.0.0.1", sluicegate_testkit::free_port());
    for endpoints in [
        vec![endpoint(&nodes.nodes()[4])],
        vec![dead, endpoint(&nodes.nodes()[1])],
    ] {
        let mut options = RedisOptions::cluster(endpoints);
        options.key_prefix = format!("{PREFIX}-one");
        options.deadline = PATIENT;
        let callers = replica(options, FailurePolicy::default());
        warmed_up(&callers).await;
        let run = load().run_for(&callers, Duration::from_millis(500)).await;
        let failed = run
            .asked
            .iter()
            .filter(|asked| is_failure(asked.answer))
            .count();
        let used = callers.store().health().nodes.len();
        report.promise(
            failed == 0 && used == 3,
            format!("{used} masters found, {failed} decisions failed"),
        );
    }
    leaves_nothing(nodes.nodes(), &mut report);
    report
}

/// Callers that are spread over all masters.
pub(super) fn load() -> CallerLoad {
    let keys = (0..24).map(|number| format!("caller-{number}")).collect();
    CallerLoad {
        limit: "per-caller".to_owned(),
        keys,
        tasks: 8,
        pause: Duration::from_millis(3),
    }
}

async fn lost(name: &str, lose: fn(&RedisServer), length: Length) -> Report {
    let mut report = Report::new(name);
    let nodes = started(RedisCluster::start).await;
    // The long form has the machine to itself, and is held to the deadline of every day.
    let deadline = length.pick(PATIENT, Nanos::from(DEADLINE));
    let options = |policy: FailurePolicy| {
        let mut options = RedisOptions::cluster(nodes.nodes().iter().map(endpoint));
        options.key_prefix = format!("{PREFIX}-{policy}");
        options.deadline = deadline;
        options
    };
    let policies = [FailurePolicy::default(), FailurePolicy::Local];
    let replicas = policies.map(|policy| (policy, replica(options(policy), policy)));
    for (_, replica) in &replicas {
        warmed_up(replica).await;
    }
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let running = replicas.map(|(policy, replica)| {
        let (stop, load) = (Arc::clone(&stop), load());
        (
            policy,
            tokio::spawn(async move { load.run_until(&replica, stop).await }),
        )
    });
    let fault = fail_over(&nodes, lose).await;
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for (policy, running) in running {
        let run = running.await.expect("callers do not panic");
        let mut about = Report::new(policy.to_string());
        about.fact(format!("{:?}", run.answers()));
        judge_times(&fault, &run, deadline.into(), length, &mut about);
        judge_bound(&run, 1, &mut about);
        judge_callers(&nodes, policy, &run, &mut about);
        report.include(about);
    }
    leaves_nothing(nodes.nodes(), &mut report);
    report
}

/// Loses the first master while callers go on, waits for its successor, and wakes it up again if it can be woken.
async fn fail_over(nodes: &Arc<RedisCluster>, lose: fn(&RedisServer)) -> FaultTimes {
    const BEFORE: Duration = Duration::from_millis(500);
    tokio::time::sleep(BEFORE).await; // bounded wait: the length of a phase
    let mut fault = begins_now();
    apart(nodes, move |nodes| {
        lose(&nodes.nodes()[0]);
        nodes.wait_for_new_master(0, Duration::from_secs(20));
    })
    .await;
    fault.healed = now();
    tokio::time::sleep(Duration::from_secs(3)).await; // bounded wait: time to come back
    apart(nodes, |nodes| {
        if nodes.nodes()[0].process_id().is_some() {
            nodes.nodes()[0].resume()
        }
    })
    .await;
    tokio::time::sleep(Duration::from_secs(1)).await; // bounded wait: the length of a phase
    fault
}

/// Only callers whose counters were on the lost master notice anything, and they meet the policy.
fn judge_callers(nodes: &RedisCluster, policy: FailurePolicy, run: &LoadRun, report: &mut Report) {
    let prefix = format!("{PREFIX}-{policy}");
    let hit: Vec<bool> = load()
        .keys
        .iter()
        .map(|key| slot(nodes, &prefix, key) <= 5460)
        .collect();
    let elsewhere = run
        .asked
        .iter()
        .filter(|asked| is_failure(asked.answer) && !hit[asked.key])
        .count();
    let there = run
        .asked
        .iter()
        .filter(|asked| is_failure(asked.answer) && hit[asked.key])
        .count();
    report.promise(
        elsewhere == 0,
        format!("callers of other masters notice nothing ({elsewhere} did)"),
    );
    report.promise(
        there > 0,
        format!("callers of the lost one met the policy {there} times"),
    );
}

/// The slot of a caller's counter.
fn slot(nodes: &RedisCluster, prefix: &str, caller: &str) -> u16 {
    let limit = Limit::new("per-caller", Quota::per_second(1).burst(1)).key([KeyPart::Principal]);
    let parts = [caller];
    let key = Key::of_parts(&limit, &parts).expect("one part");
    nodes.slot_of_key(&KeyLayout::Readable.stored_with_tag(prefix, &key))
}
