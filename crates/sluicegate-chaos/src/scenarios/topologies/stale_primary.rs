//! An old primary lives on beside its successor. It and one sentinel are cut off from all others, but not from us, and
//! the successor pauses again and again.

use std::time::Duration;

use sluicegate::{FailurePolicy, FailureStatus, RedisOptions};
use sluicegate_testkit::SentinelGroup;

use super::sentinel::known_after;
use super::*;

/// An old primary that takes every write is not written to, however often its successor pauses.
pub async fn writable(length: Length) -> Report {
    play("an old primary that takes writes", 0, length).await
}

/// An old primary that refuses writes costs no time: service is normal within a second after each pause.
pub async fn refusing(length: Length) -> Report {
    play("an old primary that refuses writes", 1, length).await
}

/// Sentinels that were set up anew, and count their epochs from zero, are believed after ten seconds.
pub async fn sentinels_anew(_length: Length) -> Report {
    let mut report = Report::new("sentinels are set up anew");
    let nodes = started(SentinelGroup::start).await;
    let replica = replica(options(&nodes, FailurePolicy::Local), FailurePolicy::Local);
    warmed_up(&replica).await;
    let callers = Callers::start([(FailurePolicy::Local, replica.clone())]);
    let first = apart(&nodes, |nodes| {
        nodes.failover();
        nodes.wait_for_switch(Duration::from_secs(20))
    })
    .await;
    let known = known_after(std::slice::from_ref(&replica), first, now()).await;
    report.fact(format!("the failover is known after {known:.0?}"));
    let epoch = replica.store().health().primary_epoch;
    report.promise(epoch >= Some(1), format!("the epoch is {epoch:?}"));

    let second = apart(&nodes, move |nodes| {
        let other = nodes
            .servers()
            .iter()
            .position(|server| server.port() != first);
        let other = other.expect("three servers");
        nodes.set_up_anew(other);
        nodes.servers()[other].port()
    })
    .await;
    // Ten seconds, and as many again for a busy machine.
    let mut known = Duration::ZERO;
    for _ in 0..4 {
        known += known_after(std::slice::from_ref(&replica), second, now()).await;
    }
    let epoch = replica.store().health().primary_epoch;
    report.fact(format!("the new primary is known after {known:.0?}"));
    report.promise(
        epoch == Some(0),
        format!("the lower epoch is believed ({epoch:?})"),
    );
    callers.are_served().await;
    for (_, run) in callers.stop(&mut report).await {
        let lately = run.between(now() - 200_000_000, u64::MAX).answers();
        report.promise(
            lately.allowed > 0,
            format!("the store decides again: {lately:?}"),
        );
    }
    report
}

async fn play(name: &str, min_replicas: u32, length: Length) -> Report {
    let mut report = Report::new(name);
    let nodes = started(SentinelGroup::start).await;
    let replicas = [
        FailurePolicy::Closed(FailureStatus::default()),
        FailurePolicy::Local,
    ]
    .map(|policy| (policy, replica(options(&nodes, policy), policy)));
    let callers = Callers::start(replicas.clone());
    callers.go_on(Duration::from_millis(400)).await;
    let elected = apart(&nodes, move |nodes| isolate(nodes, min_replicas)).await;
    callers.are_served().await;

    let (since, before) = (now(), calls_of_old(&nodes).await);
    let mut pauses = Vec::new();
    for turn in 0..length.pick(3, 20) {
        pauses.push(pause(&nodes, elected, turn, &callers).await);
    }
    let calls = calls_of_old(&nodes).await - before;
    report.promise(
        calls == 0,
        format!("the old primary gets no call ({calls} came)"),
    );
    for (policy, run) in callers.stop(&mut report).await {
        let mut about = Report::new(policy.to_string());
        judge_pauses(&pauses, &run, length, &mut about);
        judge_bound(&run.between(since, u64::MAX), 0, &mut about);
        report.include(about);
    }
    leaves_nothing(nodes.servers(), &mut report);
    report
}

/// Isolates the primary and returns the index of its successor. The sentinels take no pause of it for its death.
fn isolate(nodes: &SentinelGroup, min_replicas: u32) -> usize {
    let min_replicas = min_replicas.to_string();
    for server in nodes.servers() {
        server.command::<()>(&["CONFIG", "SET", "min-replicas-to-write", &min_replicas]);
    }
    let elected = nodes.isolate_primary(Duration::from_secs(20));
    nodes.set_down_after(Duration::from_secs(60));
    elected
}

/// Pauses the successor for 0.6 to 1.6 seconds, and lets callers go on until the next pause.
async fn pause(
    nodes: &Arc<SentinelGroup>,
    elected: usize,
    turn: u64,
    callers: &Callers,
) -> FaultTimes {
    const REST: Duration = Duration::from_millis(1_500);
    let mut fault = begins_now();
    apart(nodes, move |nodes| nodes.servers()[elected].stop()).await;
    callers
        .go_on(Duration::from_millis(600 + turn * 370 % 1_000))
        .await;
    apart(nodes, move |nodes| nodes.servers()[elected].resume()).await;
    fault.healed = now();
    callers.go_on(REST).await;
    fault
}

/// Notes how long after each pause the last request met an absent store.
fn judge_pauses(pauses: &[FaultTimes], run: &LoadRun, length: Length, report: &mut Report) {
    // Everybody else on this machine has a share in the short form.
    let longest = length.pick(Duration::from_secs(5), Duration::from_secs(1));
    let times = FaultTimes::times_to_normal(pauses, run);
    report.fact(format!("{:?}", run.answers()));
    report.fact(format!("normal after each pause within {times:.0?}"));
    let in_time = times.iter().filter(|time| **time <= longest).count();
    report.promise(
        in_time == pauses.len(),
        format!(
            "normal within {longest:?} after {in_time} of {} pauses",
            pauses.len()
        ),
    );
}

async fn calls_of_old(nodes: &Arc<SentinelGroup>) -> u64 {
    apart(nodes, |nodes| script_calls(&nodes.servers()[0])).await
}

fn options(nodes: &SentinelGroup, policy: FailurePolicy) -> RedisOptions {
    let sentinels = nodes.sentinels().iter().map(endpoint);
    let mut options = RedisOptions::sentinel(sentinels, SentinelGroup::NAME);
    options.key_prefix = format!("{PREFIX}-{policy}");
    options
}
