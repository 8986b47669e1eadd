//! The whole program: everything that a configuration turns on, until it is told to end.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use tollgate_config::{Config, Upstream};

use crate::echo;
use crate::handover::Inherited;
use crate::live::{Applied, Gate};
use crate::proxy::Proxy;
use crate::store::AnyStore;

/// A running Tollgate.
pub(crate) struct Server {
    gate: Arc<Gate>,
    proxy: Option<Proxy>,
    /// Drives what is not tied to a request, such as connections to Redis.
    background: tokio::runtime::Runtime,
}

impl Server {
    /// Starts everything, or says all that stands in the way.
    pub(crate) fn start(config: Config, mut inherited: Inherited) -> Result<Self, Vec<String>> {
        let wants_echo = |proxy: &tollgate_config::Proxy| {
            proxy.routes.iter().flat_map(|route| &route.upstreams).any(|upstream| *upstream == Upstream::Echo)
        };
        let echo = match &config.proxy {
            Some(proxy) if wants_echo(proxy) => Some(echo::start().map_err(|mistake| vec![mistake])?),
            _ => None,
        };
        let background = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("background")
            .enable_all()
            .build()
            .map_err(|error| vec![format!("no runtime: {error}")])?;
        let proxy_config = config.proxy.clone();
        let gate = Arc::new(Gate::new(config, echo)?);
        if let AnyStore::Redis(store) = gate.limiter.store() {
            let _entered = background.enter();
            store.start();
        }
        let proxy = match &proxy_config {
            None => None,
            Some(proxy) => Some(Proxy::start(proxy, &gate, &mut inherited).map_err(|mistake| vec![mistake])?),
        };
        for address in inherited.addresses() {
            tracing::warn!("a socket was inherited on which nothing listens: {address}");
        }
        Ok(Self { gate, proxy, background })
    }

    /// Where the proxy listens.
    pub(crate) fn proxy_addresses(&self) -> &[SocketAddr] {
        self.proxy.as_ref().map_or(&[], Proxy::addresses)
    }

    /// Where operators ask.
    pub(crate) fn admin_address(&self) -> Option<SocketAddr> {
        None
    }

    /// All listening sockets.
    pub(crate) fn sockets(&self) -> Vec<TcpListener> {
        let own = self.proxy.iter().flat_map(Proxy::sockets);
        own.filter_map(|socket| socket.try_clone().ok()).collect()
    }

    /// Puts another configuration in force, or says why not and changes nothing.
    pub(crate) fn reload(&self, config: Config) -> Result<Applied, Vec<String>> {
        self.gate.apply(config)
    }

    /// Ends when every request is answered, or the time for that is over.
    pub(crate) fn drain(self) {
        if let Some(proxy) = self.proxy {
            proxy.drain();
        }
        self.background.shutdown_background();
    }
}
