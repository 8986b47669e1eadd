//! Redis goes and comes, and leaves debts that last for seconds: no answer is called degraded on their account.

use std::time::Duration;

use sluicegate::{
    Clock, FailurePolicy, KeyPart, Limit, Limiter, MonotonicClock, Nanos, Policy, Quota, RedisStore,
};
use sluicegate_testkit::{Bound, Fault as Network};

use super::callers::{Callers, FaultTimes, begins_now};
use super::faulty_redis::{FaultyRedis, LIMIT};
use crate::load::now;
use crate::{Length, LoadRun, Report};

const RATE: u32 = 5;
/// A debt of a whole burst lasts for twenty seconds.
const BURST: u32 = 100;

/// After each outage every answer is the store's again within a second, though callers still owe.
pub async fn debts(length: Length) -> Report {
    let mut report = Report::new("debts outlast outages");
    let redis = FaultyRedis::new().await;
    let limit = Limit::new(LIMIT, Quota::per_second(RATE).burst(BURST)).key([KeyPart::Principal]);
    let mut options = redis.options("debts");
    // A busy machine is not to be taken for a store that is away.
    options.deadline = length.pick(Nanos::from_millis(500), options.deadline);
    let replica = Limiter::with_failure_policy(
        Policy::new([limit]).expect("a limit that is as it should be"),
        RedisStore::new(options).expect("options that are as they should be"),
        MonotonicClock::new(),
        FailurePolicy::Local,
    );
    let callers = Callers::start([(FailurePolicy::Local, replica.clone())]);
    callers.go_on(Duration::from_millis(400)).await;
    let mut outages = Vec::new();
    for _ in 0..length.pick(1, 20) {
        let mut fault = begins_now();
        redis.apart(|redis| redis.proxy.set(Network::Reset)).await;
        callers.go_on(Duration::from_millis(500)).await;
        redis.apart(|redis| redis.proxy.set(Network::None)).await;
        fault.healed = now();
        // Longer than what is judged below.
        callers.go_on(Duration::from_secs(length.pick(8, 2))).await;
        outages.push(fault);
    }
    let owing = replica
        .fallback()
        .map_or(0, |counters| counters.live_keys(replica.clock().now()));
    report.promise(owing > 0, format!("{owing} callers owe at the end"));
    for (_, run) in callers.stop(&mut report).await {
        judge(&outages, &run, length, &mut report);
    }
    redis.leaves_nothing(&mut report).await;
    report
}

fn judge(outages: &[FaultTimes], run: &LoadRun, length: Length, report: &mut Report) {
    let longest = length.pick(Duration::from_secs(5), Duration::from_secs(1));
    let times = FaultTimes::times_to_normal(outages, run);
    let in_time = times.iter().filter(|time| **time <= longest).count();
    report.fact(format!("{:?}", run.answers()));
    report.fact(format!("the last degraded answer after {times:.0?}"));
    report.promise(
        in_time == outages.len(),
        format!(
            "no degraded answer later than {longest:?} after {in_time} of {} outages",
            outages.len()
        ),
    );
    let bound = Bound::new(u64::from(RATE), Duration::from_secs(1), u64::from(BURST));
    let checked = bound.check(&run.admissions());
    report.promise(
        checked.holds(),
        format!("admitted within the bound: {checked}"),
    );
}
