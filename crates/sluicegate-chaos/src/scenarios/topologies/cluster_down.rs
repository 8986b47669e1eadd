//! A cluster is down as a whole: its nodes run, accept connections, answer `PING`, and refuse every key.

use std::time::Duration;

use sluicegate::{FailurePolicy, NodeState, RedisOptions};
use sluicegate_testkit::RedisCluster;

use super::cluster::load;
use super::*;
use crate::log_lines::LogLines;

/// A cluster that is down is dialled seldom, and the log tells of it once.
pub async fn cluster_down(length: Length) -> Report {
    let mut report = Report::new("the cluster is down");
    let log = LogLines::start();
    let nodes = started(RedisCluster::start).await;
    let mut options = RedisOptions::cluster(nodes.nodes().iter().map(endpoint));
    options.key_prefix = format!("{PREFIX}-down");
    options.deadline = length.pick(PATIENT, Nanos::from(DEADLINE));
    let replica = replica(options, FailurePolicy::default());
    warmed_up(&replica).await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (caller, stopped) = (replica.clone(), Arc::clone(&stop));
    let running = tokio::spawn(async move { load().run_until(&caller, stopped).await });
    tokio::time::sleep(Duration::from_millis(500)).await; // bounded wait: the length of a phase
    log.take();

    let mut fault = begins_now();
    apart(&nodes, RedisCluster::take_down).await;
    judge_dials(&nodes, &replica, length, &mut report).await;
    apart(&nodes, RedisCluster::bring_up).await;
    fault.healed = now();
    // The log calls a node up when it has been so for two seconds.
    tokio::time::sleep(Duration::from_secs(5)).await; // bounded wait: the length of a phase
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let run = running.await.expect("callers do not panic");

    judge_log(&log.take(), &nodes, &mut report);
    report.fact(format!("{:?}", run.answers()));
    let (back, longest) = (
        fault.time_to_normal(&run),
        length.pick(Duration::from_secs(5), Duration::from_secs(1)),
    );
    report.promise(
        back <= longest,
        format!("normal {back:.0?} after the cluster is, at most {longest:?}"),
    );
    report.promise(
        run.between(fault.healed, u64::MAX).answers().allowed > 0,
        "the store decides afterwards",
    );
    leaves_nothing(nodes.nodes(), &mut report);
    report
}

/// Notes how many connections all nodes together accept in a second, and whether a node counts as up
/// meanwhile. The first second is left out, in which the waits grow.
async fn judge_dials(
    nodes: &Arc<RedisCluster>,
    replica: &RedisLimiter,
    length: Length,
    report: &mut Report,
) {
    const MOST: f64 = 20.0;
    tokio::time::sleep(Duration::from_secs(1)).await; // bounded wait: the length of a phase
    let (before, begun) = (apart(nodes, connections).await, now());
    let end = begun + length.pick(5, 60) * 1_000_000_000;
    let (mut looks, mut up) = (0, 0);
    while now() < end {
        let states = replica.store().health().nodes;
        looks += 1;
        up += usize::from(states.iter().any(|node| node.state == NodeState::Up));
        tokio::time::sleep(Duration::from_millis(1)).await; // bounded wait: the length of a phase
    }
    let seconds = Duration::from_nanos(now() - begun).as_secs_f64();
    let after = apart(nodes, connections).await;
    let own = nodes.nodes().len() as u64;
    let rate = (after - before - own) as f64 / seconds;
    report.promise(
        rate <= MOST,
        format!("{rate:.1} dials a second, at most {MOST}"),
    );
    report.promise(
        up == 0,
        format!("no node counts as up: {up} of {looks} looks saw one"),
    );
}

/// Connections that the nodes have accepted; asking costs one for each node.
fn connections(nodes: &RedisCluster) -> u64 {
    let accepted = |server: &RedisServer| -> u64 {
        let count = &server.info("stats")["total_connections_received"];
        count.parse().expect("redis writes a whole number")
    };
    nodes.nodes().iter().map(accepted).sum()
}

/// Notes whether each change was logged once.
fn judge_log(lines: &[String], nodes: &RedisCluster, report: &mut Report) {
    let masters = nodes.nodes()[..3].iter().flat_map(|master| {
        let node = format!("node={}", endpoint(master));
        [("redis node away", node.clone()), ("redis node up", node)]
    });
    let store = [("store away", String::new()), ("store back", String::new())];
    for (change, node) in store.into_iter().chain(masters) {
        let told: Vec<&String> = lines
            .iter()
            .filter(|line| line.contains(change) && line.contains(&node))
            .collect();
        report.promise(
            told.len() == 1,
            format!("`{change}` {node} is logged once ({} times)", told.len()),
        );
        report.fact(told.first().map_or("", |line| line.as_str()));
    }
    report.fact(format!("{} lines in all", lines.len()));
}
