//! Many replicas lose Redis together and find it again (T-51): one by one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use sluicegate::FailurePolicy;
use sluicegate_testkit::Fault as Network;

use super::stage::{LIMIT, Replica, Stage, replica};
use crate::{Length, Report};

/// T-51: fifty replicas, and Redis refuses connections for a while.
///
/// At the cap each replica waits 500 to 900 ms, evenly, so after healing a bucket of 20 ms gets about 1 in 35 of them;
/// without jitter all come in the same bucket.
pub async fn herd(length: Length) -> Report {
    const REPLICAS: usize = 50;
    const BUCKET: Duration = Duration::from_millis(20);
    let mut report = Report::new("fifty replicas come back");
    let stage = Stage::new().await;
    let one = |_| replica(stage.options("herd"), FailurePolicy::Local);
    let replicas: Vec<Replica> = (0..REPLICAS).map(one).collect();
    for replica in &replicas {
        replica.store().start();
    }
    all_up(&replicas).await;

    stage.apart(|stage| stage.proxy.set(Network::Refuse)).await;
    stage
        .apart(|stage| {
            stage
                .server
                .command::<()>(&["CLIENT", "KILL", "TYPE", "normal"])
        })
        .await;
    tokio::time::sleep(Duration::from_secs(length.pick(3, 30))).await; // bounded wait: the length of the outage
    let noticed = replicas
        .iter()
        .all(|replica| !replica.store().health().is_up());
    report.promise(noticed, "everybody has noticed, without a request");
    let healed = Instant::now();
    stage.apart(|stage| stage.proxy.set(Network::None)).await;
    all_up(&replicas).await;
    let back = healed.elapsed();

    let longest = length.pick(Duration::from_secs(5), Duration::from_secs(1));
    report.promise(
        back <= longest,
        format!("all are back {back:.0?} after healing, at most {longest:?}"),
    );
    let times = stage.proxy.accept_times();
    let mut buckets: BTreeMap<u128, usize> = BTreeMap::new();
    for time in times
        .iter()
        .filter_map(|time| time.checked_duration_since(healed))
    {
        *buckets
            .entry(time.as_nanos() / BUCKET.as_nanos())
            .or_default() += 1;
    }
    let (connects, fullest) = (
        buckets.values().sum::<usize>(),
        buckets.values().max().copied().unwrap_or(0),
    );
    report.promise(
        connects <= REPLICAS + REPLICAS / 10,
        format!("{connects} connects for {REPLICAS} replicas"),
    );
    let most = REPLICAS * length.pick(50, 25) / 100;
    report.promise(
        fullest <= most,
        format!("at most {fullest} connects fell into the same {BUCKET:?} (limit {most})"),
    );
    let mut forwarded = 0;
    for (place, replica) in replicas.iter().enumerate() {
        let caller = place.to_string();
        forwarded += usize::from(
            !replica
                .check_named(LIMIT, &[&caller], 1)
                .await
                .decision()
                .is_none_or(|d| d.is_degraded()),
        );
    }
    report.promise(
        forwarded >= REPLICAS * 9 / 10,
        format!("{forwarded} of {REPLICAS} are served by the store"),
    );
    stage.leaves_nothing(&mut report).await;
    report
}

async fn all_up(replicas: &[Replica]) {
    let end = Instant::now() + Duration::from_secs(10);
    while !replicas
        .iter()
        .all(|replica| replica.store().health().is_up())
        && Instant::now() < end
    {
        tokio::time::sleep(Duration::from_millis(5)).await; // bounded wait: until the end above
    }
}
