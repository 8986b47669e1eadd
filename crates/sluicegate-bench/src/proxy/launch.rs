//! Starts a contestant between client and backend.

use std::fs;
use std::net::SocketAddr;

use sluicegate_testkit::{free_port, watchdog};

use super::contestants::{ExternalQuota, ProxySettings};
use super::loads::{ClientProtocol, ProxyLoad};
use super::programs::ProxyProgram;
use crate::rate::Rate;
use crate::running_server::{RunningServer, ServerLaunch, on_loopback};
use crate::samples::ServerContestant;

/// The setup that a contestant is started with.
#[derive(Clone, Copy)]
pub struct LaunchPurpose {
    pub protocol: ClientProtocol,
    pub rate: Rate,
    pub backend: SocketAddr,
    /// Where ours has its quota from, if not from its configuration.
    pub external: Option<ExternalQuota>,
}

impl LaunchPurpose {
    pub const fn of(load: &ProxyLoad, backend: SocketAddr) -> Self {
        Self {
            protocol: load.protocol,
            rate: load.rate(),
            backend,
            external: None,
        }
    }
}

/// Returns when it accepts connections and has all its processes.
pub fn start(program: &ProxyProgram, purpose: &LaunchPurpose) -> Result<RunningServer, String> {
    let contestant = program.contestant;
    let directory = watchdog::temporary_directory("proxy-");
    let address = on_loopback(free_port());
    let setting = ProxySettings {
        listen: address,
        protocol: purpose.protocol,
        upstream: purpose.backend,
        admin: on_loopback(free_port()),
        rate: purpose.rate,
        external: purpose.external,
        directory: directory.path(),
    };
    let config = directory.path().join(contestant.config_name());
    fs::write(&config, contestant.config(&setting))
        .map_err(|error| format!("{}: its configuration: {error}", contestant.name()))?;
    RunningServer::start(ServerLaunch {
        name: contestant.name(),
        program: &program.path,
        arguments: contestant.arguments(&config),
        address,
        processes: contestant.processes(),
        directory,
    })
}
