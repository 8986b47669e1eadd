//! Sentinels replace the primary.

use std::time::Duration;

use sluicegate::{FailurePolicy, NodeState, RedisOptions};
use sluicegate_testkit::SentinelGroup;

use super::*;

/// A planned failover.
pub async fn planned_switch(length: Length) -> Report {
    switch("sentinels switch on demand", PrimaryEnd::Planned, length).await
}

/// The primary is killed.
pub async fn primary_killed(length: Length) -> Report {
    switch("the primary is killed", PrimaryEnd::Killed, length).await
}

/// The primary hangs, is replaced, and wakes up as if nothing had happened.
pub async fn primary_hung(length: Length) -> Report {
    switch("the primary hangs", PrimaryEnd::Hung, length).await
}

/// Decisions do not need the sentinels while the primary is well; a name that they do not know is told.
pub async fn sentinels_lost(_length: Length) -> Report {
    let mut report = Report::new("the sentinels are lost");
    let nodes = started(SentinelGroup::start).await;
    let stranger = replica(options(&nodes, "nobody"), FailurePolicy::default());
    let verdict = stranger.check_named("per-caller", &["ann"], 1).await;
    let told = format!("{verdict:?}");
    report.promise(
        told.contains("knows no primary named") && told.contains("nobody"),
        format!("told: {told}"),
    );

    let mut options = options(&nodes, SentinelGroup::NAME);
    options.deadline = PATIENT;
    let served = replica(options, FailurePolicy::default());
    warmed_up(&served).await;
    let callers = Callers::start([(FailurePolicy::default(), served)]);
    callers.go_on(Duration::from_millis(400)).await;
    apart(&nodes, |nodes| {
        nodes
            .sentinels()
            .iter()
            .for_each(|sentinel| sentinel.kill())
    })
    .await;
    callers.go_on(Duration::from_secs(3)).await;
    for (_, run) in callers.stop(&mut report).await {
        let failed = run
            .asked
            .iter()
            .filter(|asked| is_failure(asked.answer))
            .count();
        report.promise(
            failed == 0,
            format!("no decision fails without sentinels ({failed} did)"),
        );
        judge_bound(&run, 0, &mut report);
    }
    leaves_nothing(nodes.servers(), &mut report);
    report
}

/// Sentinels whose votes were split wait some time before they vote again.
const ELECTION_MAX: Duration = Duration::from_secs(60);

/// The way in which the primary goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PrimaryEnd {
    Planned,
    Killed,
    Hung,
}

async fn switch(name: &str, end: PrimaryEnd, length: Length) -> Report {
    let mut report = Report::new(name);
    let nodes = started(SentinelGroup::start).await;
    let options = |policy: FailurePolicy| {
        let mut options = options(&nodes, SentinelGroup::NAME);
        options.key_prefix.push_str(&policy.to_string());
        options
    };
    let replicas = policies().map(|policy| (policy, replica(options(policy), policy)));
    let callers = Callers::start(replicas.clone());
    callers.go_on(Duration::from_millis(400)).await;

    let mut fault = begins_now();
    let (old, new) = apart(&nodes, move |nodes| {
        let old = nodes
            .servers()
            .iter()
            .position(|server| server.port() == nodes.primary_port());
        let old = old.expect("one of them is the primary");
        match end {
            PrimaryEnd::Planned => nodes.failover(),
            PrimaryEnd::Killed => nodes.servers()[old].kill(),
            PrimaryEnd::Hung => nodes.servers()[old].stop(),
        }
        (old, nodes.wait_for_switch(ELECTION_MAX))
    })
    .await;
    fault.healed = now();
    callers.are_served().await;
    let known = known_after(&replicas.map(|(_, replica)| replica), new, fault.healed).await;
    report.promise(
        known <= Duration::from_secs(3),
        format!("every replica knows of the switch after {known:.0?}"),
    );
    if end == PrimaryEnd::Hung {
        apart(&nodes, move |nodes| nodes.servers()[old].resume()).await;
    }
    if end != PrimaryEnd::Killed {
        judge_old_primary(&nodes, old, &callers, &mut report).await;
    }
    for (policy, run) in callers.stop(&mut report).await {
        let mut about = Report::new(policy.to_string());
        about.fact(format!("{:?}", run.answers()));
        judge_times(&fault, &run, DEADLINE, length, &mut about);
        judge_bound(&run, 1, &mut about);
        report.include(about);
    }
    leaves_nothing(nodes.servers(), &mut report);
    report
}

/// The old primary is asked no more, once the switch is known to everybody.
async fn judge_old_primary(
    nodes: &Arc<SentinelGroup>,
    old: usize,
    callers: &Callers,
    report: &mut Report,
) {
    // Calls that were under way when the switch became known have to come back first.
    callers.go_on(Duration::from_millis(200)).await;
    let before = apart(nodes, move |nodes| script_calls(&nodes.servers()[old])).await;
    callers.go_on(Duration::from_secs(2)).await;
    let after = apart(nodes, move |nodes| script_calls(&nodes.servers()[old])).await;
    report.promise(
        before == after,
        format!(
            "the old primary is asked no more ({} times)",
            after - before
        ),
    );
}

/// How long after `since` every replica goes to the node with this port.
pub(super) async fn known_after(replicas: &[RedisLimiter], port: u16, since: u64) -> Duration {
    let knows = |replica: &RedisLimiter| {
        let nodes = replica.store().health().nodes;
        nodes
            .iter()
            .any(|node| node.endpoint.port() == port && node.state == NodeState::Up)
    };
    for _ in 0..500 {
        if replicas.iter().all(knows) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await; // bounded wait: five seconds for the news to come
    }
    Duration::from_nanos(now().saturating_sub(since))
}

fn options(nodes: &SentinelGroup, name: &str) -> RedisOptions {
    let mut options = RedisOptions::sentinel(nodes.sentinels().iter().map(endpoint), name);
    options.key_prefix = format!("{PREFIX}-");
    options
}
