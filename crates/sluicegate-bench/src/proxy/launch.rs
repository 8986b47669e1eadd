//! Starts a contestant between client and backend.

use std::fs;
use std::net::SocketAddr;

use sluicegate_testkit::{free_port, watchdog};

use super::contestants::{Outside, Setting};
use super::loads::{Load, Protocol};
use super::programs::Program;
use crate::rate::Rate;
use crate::running::{Launch, Running, on_loopback};
use crate::samples::Contestant;

/// What a contestant is started for.
#[derive(Clone, Copy)]
pub struct Purpose {
    pub protocol: Protocol,
    pub rate: Rate,
    pub backend: SocketAddr,
    /// Where ours has its quota from, if not from its configuration.
    pub outside: Option<Outside>,
}

impl Purpose {
    pub const fn of(load: &Load, backend: SocketAddr) -> Self {
        Self {
            protocol: load.protocol,
            rate: load.rate(),
            backend,
            outside: None,
        }
    }
}

/// Returns when it accepts connections and has all its processes.
pub fn start(program: &Program, purpose: &Purpose) -> Result<Running, String> {
    let who = program.who;
    let directory = watchdog::temporary_directory("proxy-");
    let address = on_loopback(free_port());
    let setting = Setting {
        listen: address,
        protocol: purpose.protocol,
        upstream: purpose.backend,
        admin: on_loopback(free_port()),
        rate: purpose.rate,
        outside: purpose.outside,
        directory: directory.path(),
    };
    let config = directory.path().join(who.config_name());
    fs::write(&config, who.config(&setting))
        .map_err(|error| format!("{}: its configuration: {error}", who.name()))?;
    Running::start(Launch {
        name: who.name(),
        program: &program.path,
        arguments: who.arguments(&config),
        address,
        processes: who.processes(),
        directory,
    })
}
