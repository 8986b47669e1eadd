//! Many replicas lose Redis together and find it again, one by one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluicegate::FailurePolicy;
use sluicegate_testkit::Fault as Network;

use super::faulty_redis::{FaultyRedis, LIMIT, RedisLimiter, replica};
use crate::{Length, Report};

const REPLICAS: usize = 50;
/// Connects within this time of each other count as coming together.
const BUCKET: Duration = Duration::from_millis(20);

/// Fifty replicas, and Redis refuses connections for a while.
///
/// At the cap each replica waits 500 to 900 ms, evenly, so after healing a bucket of 20 ms gets about 1 in 35 of them;
/// without jitter all come in the same bucket.
pub async fn herd(length: Length) -> Report {
    let mut report = Report::new("fifty replicas come back");
    let redis = FaultyRedis::new().await;
    let one = |_| replica(redis.options("herd"), FailurePolicy::Local);
    let replicas: Vec<RedisLimiter> = (0..REPLICAS).map(one).collect();
    for replica in &replicas {
        replica.store().start();
    }
    all_up(&replicas).await;

    lose_connections(&redis).await;
    tokio::time::sleep(Duration::from_secs(length.pick(3, 30))).await; // bounded wait: the length of the outage
    let noticed = replicas
        .iter()
        .all(|replica| !replica.store().health().is_up());
    report.promise(noticed, "everybody has noticed, without a request");
    let healed = Instant::now();
    redis.apart(|redis| redis.proxy.set(Network::None)).await;
    all_up(&replicas).await;
    let back = healed.elapsed();

    let longest = length.pick(Duration::from_secs(5), Duration::from_secs(1));
    report.promise(
        back <= longest,
        format!("all are back {back:.0?} after healing, at most {longest:?}"),
    );
    judge_connects(&redis, healed, length, &mut report);
    let served = served_by_store(&replicas).await;
    report.promise(
        served >= REPLICAS * 9 / 10,
        format!("{served} of {REPLICAS} are served by the store"),
    );
    redis.leaves_nothing(&mut report).await;
    report
}

/// Refuses new connections and ends the open ones.
async fn lose_connections(redis: &Arc<FaultyRedis>) {
    redis.apart(|redis| redis.proxy.set(Network::Refuse)).await;
    redis
        .apart(|redis| {
            redis
                .server
                .command::<()>(&["CLIENT", "KILL", "TYPE", "normal"])
        })
        .await;
}

/// Every replica connects about once after healing, and they are spread over time.
fn judge_connects(redis: &FaultyRedis, healed: Instant, length: Length, report: &mut Report) {
    let times = redis.proxy.accept_times();
    let mut buckets: BTreeMap<u128, usize> = BTreeMap::new();
    for time in times
        .iter()
        .filter_map(|time| time.checked_duration_since(healed))
    {
        *buckets
            .entry(time.as_nanos() / BUCKET.as_nanos())
            .or_default() += 1;
    }
    let connects: usize = buckets.values().sum();
    let fullest = buckets.values().max().copied().unwrap_or(0);
    report.promise(
        connects <= REPLICAS + REPLICAS / 10,
        format!("{connects} connects for {REPLICAS} replicas"),
    );
    let most = REPLICAS * length.pick(50, 25) / 100;
    report.promise(
        fullest <= most,
        format!("at most {fullest} connects fell into the same {BUCKET:?} (limit {most})"),
    );
}

/// How many replicas decide a request by the store again, instead of by their fallback.
async fn served_by_store(replicas: &[RedisLimiter]) -> usize {
    let mut served = 0;
    for (place, replica) in replicas.iter().enumerate() {
        let caller = place.to_string();
        let verdict = replica.check_named(LIMIT, &[&caller], 1).await;
        let is_degraded = verdict.decision().is_none_or(|d| d.is_degraded());
        served += usize::from(!is_degraded);
    }
    served
}

async fn all_up(replicas: &[RedisLimiter]) {
    let end = Instant::now() + Duration::from_secs(10);
    while !replicas
        .iter()
        .all(|replica| replica.store().health().is_up())
        && Instant::now() < end
    {
        tokio::time::sleep(Duration::from_millis(5)).await; // bounded wait: until the end above
    }
}
