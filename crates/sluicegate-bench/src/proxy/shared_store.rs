//! The proxy with its counters in Redis.
//!
//! Neither nginx nor HAProxy counts in a store that replicas share. Envoy does it with a service that it asks over
//! gRPC for every request; ours can be that service. So the two ways to have the same limit on several machines stand
//! side by side: the proxy that counts in Redis itself, and Envoy with a service that does.

use std::fs;
use std::path::Path;

use sluicegate_testkit::{RedisServer, free_port, watchdog};

use super::contestants::{Counters, ProxyContestant, SERVICE_TEMPLATE};
use super::launch::{self, LaunchPurpose};
use super::loads::{LOADS, ProxyLoad};
use super::measure::{self, RunConditions};
use super::programs::ProxyPrograms;
use crate::running_server::{RunningServer, ServerLaunch, on_loopback};
use crate::samples::{ServerContestant, ServerSample};

/// The section, as `--only` knows it.
pub const SHARED: &str = "Redis store";

/// A way to count in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedStoreContestant {
    Sluicegate,
    /// The same proxy with its counters in the process, for the difference.
    Local,
    /// Envoy with our decision service; both are counted.
    EnvoyWithService,
}

impl SharedStoreContestant {
    pub const ALL: [Self; 3] = [Self::Sluicegate, Self::Local, Self::EnvoyWithService];

    const fn proxy(self) -> ProxyContestant {
        match self {
            Self::Sluicegate | Self::Local => ProxyContestant::Sluicegate,
            Self::EnvoyWithService => ProxyContestant::Envoy,
        }
    }
}

impl ServerContestant for SharedStoreContestant {
    const OURS: Self = Self::Sluicegate;

    fn name(self) -> &'static str {
        match self {
            Self::Sluicegate => "sluicegate, Redis",
            Self::Local => "sluicegate, local",
            Self::EnvoyWithService => "Envoy + service, Redis",
        }
    }
}

/// Those whose programs are there.
pub fn taking_part(programs: &ProxyPrograms) -> Vec<SharedStoreContestant> {
    let mut all = SharedStoreContestant::ALL.to_vec();
    all.retain(|contestant| {
        programs.get(contestant.proxy()).is_some()
            && programs.get(ProxyContestant::Sluicegate).is_some()
    });
    all
}

/// One turn, with a Redis of its own.
pub fn sample(
    conditions: &RunConditions<'_>,
    programs: &ProxyPrograms,
    contestant: SharedStoreContestant,
) -> Result<ServerSample, String> {
    let find = |proxy| programs.get(proxy).ok_or("its program is not there");
    let load: ProxyLoad = LOADS[0];
    let redis = RedisServer::start();
    let counters = Counters::Redis {
        redis: redis.address(),
        service: on_loopback(free_port()),
    };
    let local = conditions.purpose(&load);
    let purpose = LaunchPurpose { counters, ..local };
    let program = find(contestant.proxy())?;
    match contestant {
        SharedStoreContestant::Local => measure::sample_for(conditions, program, &load, &local),
        SharedStoreContestant::Sluicegate => {
            measure::sample_for(conditions, program, &load, &purpose)
        }
        SharedStoreContestant::EnvoyWithService => {
            let ours = find(ProxyContestant::Sluicegate)?;
            let service = start_service(&ours.path, &purpose)?;
            let envoy = launch::start(program, &purpose)?;
            let both = envoy.tree().with(service.tree());
            measure::sample_of(conditions, &envoy, both, &load)
        }
    }
}

fn start_service(program: &Path, purpose: &LaunchPurpose<'_>) -> Result<RunningServer, String> {
    let Counters::Redis { service, .. } = purpose.counters else {
        return Err("a service is asked only where the counters are in Redis".to_string());
    };
    let directory = watchdog::temporary_directory("service-");
    let config = directory.path().join("service.yaml");
    let admin = on_loopback(free_port());
    let text = purpose
        .settings(service, admin, directory.path())
        .fill(SERVICE_TEMPLATE);
    fs::write(&config, text).map_err(|error| format!("the service's configuration: {error}"))?;
    RunningServer::start(ServerLaunch {
        name: "the service",
        program,
        arguments: ProxyContestant::Sluicegate.arguments(&config),
        address: service,
        processes: 1,
        directory,
        callgrind: None,
    })
}
