//! Starts a contestant between client and backend.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use sluicegate_testkit::{TlsFiles, free_port, watchdog};

use super::contestants::{COMBINED_PEM, Counters, ProxySettings};
use super::loads::{ClientProtocol, LoadAnswer, ProxyLoad};
use super::programs::ProxyProgram;
use crate::callgrind_server::Callgrind;
use crate::rate::Rate;
use crate::running_server::{RunningServer, ServerLaunch, on_loopback};
use crate::samples::ServerContestant;

/// The setup that a contestant is started with.
#[derive(Clone, Copy)]
pub struct LaunchPurpose<'a> {
    pub protocol: ClientProtocol,
    pub rate: Rate,
    pub answer: LoadAnswer,
    pub backend: SocketAddr,
    pub counters: Counters,
    pub tls: &'a TlsFiles,
    /// It runs under callgrind.
    pub callgrind: Option<&'a Callgrind>,
}

impl<'a> LaunchPurpose<'a> {
    pub const fn of(load: &ProxyLoad, backend: SocketAddr, tls: &'a TlsFiles) -> Self {
        Self {
            protocol: load.protocol,
            rate: load.rate(),
            answer: load.answer,
            backend,
            counters: Counters::Local,
            tls,
            callgrind: None,
        }
    }

    /// The settings for a server that listens here.
    pub const fn settings<'b>(
        &'b self,
        listen: SocketAddr,
        admin: SocketAddr,
        directory: &'b Path,
    ) -> ProxySettings<'b> {
        ProxySettings {
            listen,
            protocol: self.protocol,
            upstream: self.backend,
            admin,
            rate: self.rate,
            answer: self.answer,
            counters: self.counters,
            directory,
            tls: self.tls,
            is_counted: self.callgrind.is_some(),
        }
    }
}

/// Returns when it accepts connections and has all its processes.
pub fn start(program: &ProxyProgram, purpose: &LaunchPurpose<'_>) -> Result<RunningServer, String> {
    let contestant = program.contestant;
    let directory = watchdog::temporary_directory("proxy-");
    let [address, admin] = [free_port(), free_port()].map(on_loopback);
    let config = directory.path().join(contestant.config_name());
    let text = contestant.config(&purpose.settings(address, admin, directory.path()));
    fs::write(&config, text)
        .and_then(|()| write_combined_pem(purpose.tls, directory.path()))
        .map_err(|error| format!("{}: its configuration: {error}", contestant.name()))?;
    RunningServer::start(ServerLaunch {
        name: contestant.name(),
        program: &program.path,
        arguments: contestant.arguments(&config),
        address,
        processes: contestant.processes(purpose.callgrind.is_some()),
        directory,
        callgrind: purpose.callgrind,
    })
}

fn write_combined_pem(tls: &TlsFiles, directory: &Path) -> std::io::Result<()> {
    let certificate = fs::read_to_string(tls.server_certificate())?;
    let key = fs::read_to_string(tls.server_key())?;
    fs::write(directory.join(COMBINED_PEM), certificate + &key)
}
