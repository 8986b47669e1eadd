//! How often Redis is called, by its own count.

use std::path::Path;
use std::time::Duration;

use sluicegate_testkit::RedisServer;

use super::{check_answers, check_bound};
use crate::replica::{HistoryDetail, ReplicaArguments, ReplicaRule};
use crate::replicas::{Replicas, merged};
use crate::{Length, Report};

const REPLICAS: usize = 4;

/// One denied key at full speed from four replicas: Redis hears of it no more often than it lets somebody pass.
pub async fn hot_denied_key(length: Length, replica: &Path) -> Report {
    let mut report = Report::new("one denied key at full speed from four replicas");
    let rule = ReplicaRule::PerSecond {
        count: 50,
        burst: 20,
    };
    let server = RedisServer::start();
    let seconds = length.pick(3, 30);
    let orders = at_full_speed(&server, rule, 8, seconds);
    let history = merged(Replicas::run(replica, &orders, REPLICAS).await);
    let (calls, admitted) = (script_calls(&server), history.admitted() as u64);
    check_answers(&mut report, &history);
    check_bound(&mut report, rule, &history, 0);
    report.fact(format!(
        "{} decisions each second, {calls} calls in all",
        history.decisions() / seconds
    ));
    let ideal = REPLICAS as u64 * (admitted + 1);
    report.promise(
        calls <= ideal,
        format!("{calls} calls, at most {REPLICAS} x ({admitted} admissions + 1) = {ideal}"),
    );
    let most = (2 * 50 + 1_000) * seconds;
    report.promise(
        calls <= most,
        format!("{calls} calls, at most 2 x rate + 1,000 each second = {most}"),
    );
    report
}

/// One key that is always let pass: whoever asks while a call is under way goes out together with the next.
pub async fn hot_allowed_key(length: Length, replica: &Path) -> Report {
    let mut report = Report::new("one allowed key at full speed from four replicas");
    let rule = ReplicaRule::PerSecond {
        count: 1_000_000,
        burst: 1_000_000,
    };
    let server = RedisServer::start();
    let seconds = length.pick(1, 10);
    let orders = ReplicaArguments {
        keeps: HistoryDetail::Everything,
        ..at_full_speed(&server, rule, 64, seconds)
    };
    let history = merged(Replicas::run(replica, &orders, REPLICAS).await);
    let (calls, decisions) = (script_calls(&server), history.decisions());
    check_answers(&mut report, &history);
    check_bound(&mut report, rule, &history, 0);
    report.fact(format!("{} decisions each second", decisions / seconds));
    report.promise(
        calls * 8 < decisions,
        format!("{calls} calls carried {decisions} decisions"),
    );
    report.fact(history.run.latencies());
    report
}

fn at_full_speed(
    server: &RedisServer,
    rule: ReplicaRule,
    tasks: usize,
    seconds: u64,
) -> ReplicaArguments {
    let (pause, length) = (Duration::ZERO, Duration::from_secs(seconds));
    ReplicaArguments {
        tasks,
        pause,
        length,
        keeps: HistoryDetail::Admissions,
        ..ReplicaArguments::new(server.url(), rule)
    }
}

fn script_calls(server: &RedisServer) -> u64 {
    server.command_calls("evalsha") + server.command_calls("eval")
}
