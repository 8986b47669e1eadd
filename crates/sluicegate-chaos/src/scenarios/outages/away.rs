//! Redis goes away in every way we know, under every policy at once, and comes back.

use std::time::Duration;

use sluicegate_testkit::Fault as Network;

use super::callers::{Callers, begins_now, failures};
use super::faulty_redis::{FaultyRedis, policies};
use crate::load::now;
use crate::{Length, Report};

/// The process is stopped; its connections stay open.
pub async fn stopped(length: Length) -> Report {
    every_length("redis stopped", Outage::Stopped, length).await
}

/// The process is killed and comes back empty.
pub async fn killed(length: Length) -> Report {
    every_length("redis killed", Outage::Killed, length).await
}

/// Packets are dropped, those of new connections too.
pub async fn packets_dropped(length: Length) -> Report {
    every_length("packets dropped", Outage::Network(Network::Drop), length).await
}

/// Connections are reset, new ones too.
pub async fn reset(length: Length) -> Report {
    every_length("connections reset", Outage::Network(Network::Reset), length).await
}

/// Connections are accepted, but nothing passes.
pub async fn stalled(length: Length) -> Report {
    every_length(
        "connections stalled",
        Outage::Network(Network::Stall),
        length,
    )
    .await
}

/// One byte passes each second.
pub async fn one_byte_per_second(length: Length) -> Report {
    every_length(
        "one byte per second",
        Outage::Network(Network::OneBytePerSecond),
        length,
    )
    .await
}

/// The server seems to have closed every connection, new ones too.
pub async fn half_closed(length: Length) -> Report {
    every_length(
        "connections half closed",
        Outage::Network(Network::HalfClose),
        length,
    )
    .await
}

/// Every byte comes later than the deadline.
pub async fn too_late(length: Length) -> Report {
    every_length(
        "200 ms late",
        Outage::Network(Network::Latency(Duration::from_millis(200))),
        length,
    )
    .await
}

/// A firewall has forgotten the connections there were; new ones work.
pub async fn old_connections_swallowed(length: Length) -> Report {
    every_length("old connections swallowed", Outage::OldConnections, length).await
}

#[derive(Clone, Copy)]
enum Outage {
    Stopped,
    Killed,
    Network(Network),
    OldConnections,
}

impl Outage {
    fn begin(self, redis: &FaultyRedis) {
        match self {
            Self::Stopped => redis.server.stop(),
            Self::Killed => redis.server.kill(),
            Self::Network(fault) => redis.proxy.set(fault),
            Self::OldConnections => redis.proxy.stall_existing(),
        }
    }

    fn end(self, redis: &FaultyRedis) {
        match self {
            Self::Stopped => redis.server.resume(),
            Self::Killed => redis.server.restart(),
            Self::Network(_) => redis.proxy.set(Network::None),
            Self::OldConnections => {}
        }
    }

    /// New connections work from the first instant.
    fn heals_at_once(self) -> bool {
        matches!(self, Self::OldConnections)
    }

    fn losses(self) -> u64 {
        u64::from(matches!(self, Self::Killed))
    }
}

async fn every_length(name: &str, outage: Outage, length: Length) -> Report {
    let mut report = Report::new(name);
    for seconds in length.pick(vec![1], vec![1, 4, 15]) {
        report.include(once(outage, Duration::from_secs(seconds), length).await);
    }
    report
}

async fn once(outage: Outage, span: Duration, length: Length) -> Report {
    const BEFORE: Duration = Duration::from_millis(400);
    let mut report = Report::new(format!("{span:?}"));
    let redis = FaultyRedis::new().await;
    let callers = Callers::start(policies().map(|policy| (policy, redis.replica(policy))));
    callers.go_on(BEFORE).await;

    let mut fault = begins_now();
    fault.losses = outage.losses();
    redis.apart(move |redis| outage.begin(redis)).await;
    if outage.heals_at_once() {
        fault.healed = now();
    }
    callers.go_on(span).await;
    if !outage.heals_at_once() {
        redis.apart(move |redis| outage.end(redis)).await;
        fault.healed = now();
    }
    callers.are_served().await;

    for (policy, run) in callers.stop(&mut report).await {
        let felt = failures(&run.between(fault.began, u64::MAX));
        report.promise(
            felt > 0,
            format!("{policy}: the fault was felt ({felt} times)"),
        );
        fault.judge(policy, &run, length, &mut report);
    }
    redis.leaves_nothing(&mut report).await;
    report
}
