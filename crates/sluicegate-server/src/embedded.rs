//! A server inside another program, such as a test: without signals, a log, or a file that is followed.

use std::net::SocketAddr;

use sluicegate_config::Config;
use sluicegate_net::InheritedSockets;

use crate::reloading::Loaded;
use crate::server::Server;

/// A running server. It ends when dropped, after what is under way or the time for that.
pub struct Embedded(Option<Server>);

impl Embedded {
    /// Starts everything that the configuration turns on, or says all that stands in the way.
    pub fn start(config: Config) -> Result<Self, Vec<String>> {
        let read_again = Box::new(|| Err("there is no file to read again".to_owned()));
        let loaded = Loaded {
            config,
            text: String::new(),
        };
        Server::start(loaded, None, read_again, InheritedSockets::default())
            .map(|server| Self(Some(server)))
    }

    /// Where the proxy listens.
    pub fn proxy_addresses(&self) -> Vec<SocketAddr> {
        self.0
            .as_ref()
            .map_or_else(Vec::new, Server::proxy_addresses)
    }

    /// Where operators ask.
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
