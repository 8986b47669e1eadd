//! Several nodes: the primary moves, slots move, some are lost. Decisions go on.

pub mod cluster;
pub mod cluster_down;
pub mod owners;
pub mod replication;
pub mod resharding;
pub mod sentinel;
pub mod stale_primary;

use std::sync::Arc;
use std::time::Duration;

use sluicegate::{Endpoint, Nanos};
use sluicegate_testkit::RedisServer;

use super::outages::callers::{Callers, FaultTimes, begins_now, is_failure};
use super::outages::faulty_redis::{DEADLINE, RedisLimiter, bound, policies, replica};
use crate::load::now;
use crate::{Length, LoadRun, Report};

/// Every key of these scenarios begins so.
const PREFIX: &str = "chaos";

/// A deadline so long that a busy machine is not taken for a lost node: beside 24 busy processes a share of the
/// processor comes after 60 ms.
const PATIENT: Nanos = Nanos::from_millis(500);

/// The endpoint of a server.
fn endpoint(server: &RedisServer) -> Endpoint {
    Endpoint::new(server.address().ip().to_string(), server.port())
}

/// Does something that blocks, where it delays no caller.
async fn apart<N: Send + Sync + 'static, T: Send + 'static>(
    nodes: &Arc<N>,
    act: impl FnOnce(&N) -> T + Send + 'static,
) -> T {
    let nodes = Arc::clone(nodes);
    tokio::task::spawn_blocking(move || act(&nodes))
        .await
        .expect("what is done to the servers works")
}

/// Starts servers where that delays nobody.
async fn started<N: Send + 'static>(start: impl FnOnce() -> N + Send + 'static) -> Arc<N> {
    Arc::new(
        tokio::task::spawn_blocking(start)
            .await
            .expect("the servers start"),
    )
}

/// Begins to connect and waits until every node answers: what follows is not about the first moment.
async fn warmed_up(replica: &RedisLimiter) {
    replica.store().start();
    for _ in 0..500 {
        if replica.store().health().is_up() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await; // bounded wait: five seconds for the first connections
    }
}

/// Script calls that a server has had.
fn script_calls(server: &RedisServer) -> u64 {
    server.command_calls("evalsha") + server.command_calls("eval")
}

/// Notes the promise that no key stays for ever, on every primary that runs.
fn leaves_nothing<'a>(servers: impl IntoIterator<Item = &'a RedisServer>, report: &mut Report) {
    let is_primary = |server: &&RedisServer| {
        server.is_running()
            && server
                .info("replication")
                .get("role")
                .is_some_and(|role| role == "master")
    };
    for server in servers.into_iter().filter(is_primary) {
        let kept = server.keys_without_ttl(PREFIX);
        report.promise(
            kept.is_empty(),
            format!(
                "every key on {} has a TTL (without: {kept:?})",
                server.port()
            ),
        );
    }
}

/// Notes how long answers took since the fault began, and when the last one without the store came after it healed.
fn judge_times(
    fault: &FaultTimes,
    run: &LoadRun,
    deadline: Duration,
    length: Length,
    report: &mut Report,
) {
    // Everybody else on this machine has a share in the longest wait.
    let longest = deadline + Duration::from_millis(250);
    let took = run.between(fault.began, u64::MAX).latencies();
    let (p99, max) = (took.per_mille(990), took.max());
    report.fact(format!(
        "{} answers, p99 {p99:.1?}, longest {max:.1?}",
        took.count()
    ));
    report.promise(
        max <= longest,
        format!("the longest answer took {max:.1?}, at most {longest:?}"),
    );
    let (back, longest) = (
        fault.time_to_normal(run),
        length.pick(Duration::from_secs(5), Duration::from_secs(3)),
    );
    report.promise(
        back <= longest,
        format!("normal {back:.0?} after the election, at most {longest:?}"),
    );
    let after = run.between(fault.healed, u64::MAX).answers();
    report.promise(after.allowed > 0, "the store decides afterwards");
}

/// Notes whether what was admitted is within the bound, when the state was lost so many times.
fn judge_bound(run: &LoadRun, losses: u64, report: &mut Report) {
    let checked = bound(losses).check(&run.admissions());
    report.promise(
        checked.holds(),
        format!("admitted within the bound: {checked}"),
    );
}
