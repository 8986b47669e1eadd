//! A server inside another program, such as a test: without signals, process log and file watch.

use std::net::SocketAddr;

use sluicegate_config::Config;
use sluicegate_gate::telemetry::metrics::resident_bytes;
use sluicegate_net::InheritedSockets;

use crate::overload::UsedMemory;
use crate::reload::LoadedConfig;
use crate::server::Server;

/// A running server. Dropping it ends it, after the requests in progress or the drain timeout.
pub struct Embedded(Option<Server>);

impl Embedded {
    /// Starts everything that the configuration turns on, or returns all mistakes.
    pub fn start(config: Config) -> Result<Self, Vec<String>> {
        Self::with_used_memory(config, Box::new(resident_bytes))
    }

    /// The same, where `used_memory` says how much memory is used.
    pub fn with_used_memory(
        config: Config,
        used_memory: Box<UsedMemory>,
    ) -> Result<Self, Vec<String>> {
        let read_again = Box::new(|| {
            Err("no configuration file: an embedded server cannot be reloaded".to_owned())
        });
        let loaded = LoadedConfig {
            config,
            text: String::new(),
        };
        let inherited = InheritedSockets::default();
        let server = Server::start(loaded, None, read_again, inherited, used_memory)?;
        Ok(Self(Some(server)))
    }

    /// The addresses of the proxy.
    pub fn proxy_addresses(&self) -> Vec<SocketAddr> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, Server::proxy_addresses)
    }

    /// The address of the admin API, if it is on.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.0.as_ref().and_then(Server::admin_address)
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(server) = self.0.take() {
            server.drain();
        }
    }
}
