//! A primary and replicas without anybody who watches them: whoever is promoted is found.

use std::time::Duration;

use sluicegate::{FailurePolicy, RedisOptions};
use sluicegate_testkit::Replication;

use super::*;

/// The primary is found among nodes in any order, also when only a replica is named; a promotion is followed.
pub async fn promotion(length: Length) -> Report {
    let mut report = Report::new("another node is promoted");
    let nodes = started(|| Replication::start(2)).await;
    for (name, endpoints) in [
        ("replicas first", vec![2, 1, 0]),
        ("one replica named", vec![1]),
    ] {
        let options = options(endpoints.iter().map(|index| &nodes.servers()[*index]));
        let answers = crate::CallerLoad::on_one_key("per-caller", name, 1)
            .run_for(
                &replica(options, FailurePolicy::default()),
                Duration::from_millis(200),
            )
            .await
            .answers();
        report.promise(
            answers.allowed > 0 && answers.unavailable == 0,
            format!("{name}: found at once ({answers:?})"),
        );
    }
    let options = options(nodes.servers());
    let callers = Callers::start([(FailurePolicy::Local, replica(options, FailurePolicy::Local))]);
    callers.go_on(Duration::from_millis(400)).await;
    let mut fault = begins_now();
    apart(&nodes, |nodes| nodes.promote(1)).await;
    fault.healed = now();
    callers.are_served().await;
    let before = apart(&nodes, |nodes| script_calls(&nodes.servers()[0])).await;
    callers.go_on(Duration::from_millis(500)).await;
    let after = apart(&nodes, |nodes| script_calls(&nodes.servers()[0])).await;
    report.promise(before == after, "the demoted primary is asked no more");
    for (_, run) in callers.stop(&mut report).await {
        judge_times(&fault, &run, DEADLINE, length, &mut report);
        judge_bound(&run, 1, &mut report);
    }
    leaves_nothing(nodes.servers(), &mut report);
    report
}

fn options<'a>(
    servers: impl IntoIterator<Item = &'a sluicegate_testkit::RedisServer>,
) -> RedisOptions {
    let mut options = RedisOptions::replication(servers.into_iter().map(endpoint));
    options.key_prefix = format!("{PREFIX}-replication");
    options
}
