//! Replicas share one limit, whatever their clocks show.

use std::path::Path;
use std::time::Duration;

use sluicegate::{KeyPart, Limit, Limiter, QuotaError, RedisClock};
use sluicegate_testkit::{ClockShim, RedisServer, ShimClock};

use super::{check_answers, check_bound, span};
use crate::replica::{ReplicaArguments, ReplicaHistory, ReplicaRule};
use crate::replicas::{Replicas, merged};
use crate::{CallerLoad, Length, Report};

/// Two replicas with a limit of five let five pass; two local stores let ten pass.
pub async fn two_replicas(length: Length, replica: &Path) -> Report {
    let mut report = Report::new("two replicas with a limit of five");
    // Five at once, and the next after eleven days.
    let rule = ReplicaRule::Leaky {
        size: 5,
        every_ms: 1_000_000_000,
        drip: 1,
    };
    let server = RedisServer::start();
    let orders = ReplicaArguments {
        length: length.pick(Duration::from_millis(500), Duration::from_secs(3)),
        ..paced(&server, rule)
    };
    let history = merged(Replicas::run(replica, &orders, 2).await);
    check_answers(&mut report, &history);
    let admitted = history.admitted();
    report.promise(
        admitted == 5,
        format!("two replicas on one Redis let exactly 5 pass (seen: {admitted})"),
    );
    let locally = two_local_stores(rule).await.expect("the quota is a quota");
    report.promise(
        locally == 10,
        format!("two local stores let 10 pass, which shows the difference (seen: {locally})"),
    );
    report
}

async fn two_local_stores(rule: ReplicaRule) -> Result<usize, QuotaError> {
    let mut admitted = 0;
    for _ in 0..2 {
        let limiter =
            Limiter::local([Limit::new("local", rule.quota()?).key([KeyPart::Principal])]);
        let limiter = limiter.expect("one limit is a policy");
        let run = CallerLoad::on_one_key("local", "key-0", 2)
            .run_for(&limiter, Duration::from_millis(50))
            .await;
        admitted += run.admissions().len();
    }
    Ok(admitted)
}

const RULE: ReplicaRule = ReplicaRule::PerSecond {
    count: 100,
    burst: 50,
};
const REPLICAS: usize = 4;

/// Four replicas ask ten times as often as the limit allows: no more and hardly less passes than the limit says.
pub async fn four_replicas(length: Length, replica: &Path) -> Report {
    let mut report = Report::new("four replicas, one limit");
    let histories = run(
        length,
        replica,
        RedisClock::Server,
        &[const { None }; REPLICAS],
    )
    .await;
    judge(&mut report, length, &histories);
    judge_part(&mut report, length, &histories);
    report.fact(format!("shares: {:.3?}", shares(&histories)));
    report.fact(merged(histories).run.latencies());
    report
}

/// Replicas whose clocks are seconds apart: the bound holds and shares are fair.
pub async fn skewed_replicas(length: Length, replica: &Path) -> Report {
    let mut report = Report::new(
        "clocks of replicas apart by -5 s, -100 ms, +100 ms, +5 s; Redis' clock counts",
    );
    let histories = run(length, replica, RedisClock::Server, &skewed_clocks()).await;
    judge(&mut report, length, &histories);
    judge_part(&mut report, length, &histories);
    let fair = length.pick(0.6, 0.3);
    let is_fair = |share: &f64| (share * REPLICAS as f64 - 1.0).abs() <= fair;
    let shares = shares(&histories);
    let what = format!(
        "each share is within {:.0} % of a quarter: {shares:.3?}",
        fair * 100.0
    );
    report.promise(shares.iter().all(is_fair), what);
    report
}

/// The same, when the replicas' clocks count: they are clamped, so the bound holds. Shares are not promised.
pub async fn skewed_replicas_by_their_own_clocks(length: Length, replica: &Path) -> Report {
    let mut report = Report::new(
        "clocks of replicas apart by -5 s, -100 ms, +100 ms, +5 s; theirs count, clamped",
    );
    let histories = run(length, replica, RedisClock::Replica, &skewed_clocks()).await;
    judge(&mut report, length, &histories);
    report.fact(format!(
        "shares, not promised to be fair: {:.3?}",
        shares(&histories)
    ));
    report
}

async fn run(
    length: Length,
    replica: &Path,
    clock: RedisClock,
    clocks: &[Option<ShimClock>],
) -> Vec<ReplicaHistory> {
    let server = RedisServer::start();
    let seconds = Duration::from_secs(length.pick(4, 30));
    let orders = ReplicaArguments {
        clock,
        length: seconds,
        ..paced(&server, RULE)
    };
    Replicas::start(replica, &orders, clocks).finish().await
}

/// About 300 questions each second from each replica: more than ten times the limit from four.
fn paced(server: &RedisServer, rule: ReplicaRule) -> ReplicaArguments {
    ReplicaArguments {
        pause: Duration::from_millis(12),
        ..ReplicaArguments::new(server.url(), rule)
    }
}

fn skewed_clocks() -> Vec<Option<ShimClock>> {
    let shim = ClockShim::build();
    let skewed = |millis: i64| {
        let clock = shim.clock();
        clock.set_realtime_offset(millis * 1_000_000);
        Some(clock)
    };
    [-5_000, -100, 100, 5_000].map(skewed).into()
}

fn judge(report: &mut Report, length: Length, histories: &[ReplicaHistory]) {
    let all = merged(histories.to_vec());
    let rate = all.decisions() as f64 / span(&all).as_secs_f64();
    // A machine that is busy elsewhere makes the load smaller than it was meant to be.
    let least = length.pick(300.0, 600.0);
    report.promise(
        rate >= least,
        format!("the load is many times the limit: {rate:.0} questions each second"),
    );
    check_answers(report, &all);
    check_bound(report, RULE, &all, 0);
}

/// Hardly less passes than the limit says: burst and rate times the whole span is the most that anybody could have got.
fn judge_part(report: &mut Report, length: Length, histories: &[ReplicaHistory]) {
    let all = merged(histories.to_vec());
    let most = 50.0 + 100.0 * span(&all).as_secs_f64();
    let part = all.admitted() as f64 / most;
    let least = length.pick(0.98, 0.999);
    let what = format!(
        "{} admitted of {most:.1}: {part:.5}, in [{least}, 1]",
        all.admitted()
    );
    report.promise((least..=1.0).contains(&part), what);
}

fn shares(histories: &[ReplicaHistory]) -> Vec<f64> {
    let total: usize = histories.iter().map(ReplicaHistory::admitted).sum();
    histories
        .iter()
        .map(|history| history.admitted() as f64 / total as f64)
        .collect()
}
