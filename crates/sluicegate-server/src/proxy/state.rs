//! The proxy's part of the configuration in force, and the state that outlives it: servers and
//! their health.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use http::HeaderName;
use rustls::ServerConfig;
use sluicegate_config::{Bounds, Config, Proxy, Timeouts};
use sluicegate_gate::external::Backend;
use sluicegate_gate::gate::Gate;
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_net::{ClientConnections, ClientPermit, TrailerFilter, tls};

use super::client_bound::ClientBound;
use super::refused_requests::RefusedRequests;
use super::rewrite;
use super::upstream::{RouteTable, ServerRegistry, UpstreamServer};

/// One version of the proxy's configuration, together with the gate's.
pub(crate) struct ProxySnapshot {
    /// The gate's part, of the same version: a request that looks here never mixes two versions.
    pub(super) gate: Arc<Snapshot>,
    settings: Arc<ProxySettings>,
}

/// The settings of the section `proxy`, ready for use.
pub(crate) struct ProxySettings {
    pub(super) routes: RouteTable,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) bounds: Bounds,
    pub(super) timeouts: Timeouts,
    /// The most connections to one server.
    max_connections_per_upstream: usize,
    /// How many connections one client may have.
    pub(super) client_bound: ClientBound,
    /// The most bytes of bodies that wait for one connection of HTTP/2.
    pub(super) max_buffered_per_connection: usize,
    /// Headers that limits and credentials are read from.
    pub(super) key_headers: Arc<[HeaderName]>,
    /// Counts requests that are refused before any limit is asked.
    pub(super) refused_requests: Option<Arc<RefusedRequests>>,
    /// The trailers that clients may send.
    pub(super) trailers: TrailerFilter,
}

impl std::ops::Deref for ProxySnapshot {
    type Target = ProxySettings;

    fn deref(&self) -> &ProxySettings {
        &self.settings
    }
}

impl ProxySettings {
    pub(super) fn request_timeout(&self) -> Duration {
        self.timeouts.request.into()
    }

    pub(super) fn header_timeout(&self) -> Duration {
        self.timeouts.header.into()
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.timeouts.connect.into()
    }

    pub(super) fn upstream_wait(&self) -> Duration {
        self.timeouts.upstream_wait.into()
    }
}

/// The state that all connections of the proxy share.
pub(crate) struct ProxyState {
    pub(super) gate: Arc<Gate>,
    current: ArcSwap<ProxySnapshot>,
    /// The open connections of each client.
    clients: Arc<ClientConnections>,
    servers: ServerRegistry,
    /// The port of the built-in server, if it runs.
    echo: Option<u16>,
}

impl ProxyState {
    /// Puts the proxy's part of a first configuration in force.
    pub(crate) fn new(
        gate: &Arc<Gate>,
        config: &Config,
        proxy: &Proxy,
        echo: Option<u16>,
    ) -> Result<Self, Vec<String>> {
        let servers = ServerRegistry::new();
        let settings = settings(config, proxy, &servers, echo, None)?;
        servers.bound_connections(settings.max_connections_per_upstream);
        let snapshot = ProxySnapshot {
            gate: Arc::clone(&gate.snapshot()),
            settings: Arc::new(settings),
        };
        Ok(Self {
            gate: Arc::clone(gate),
            current: ArcSwap::from_pointee(snapshot),
            clients: Arc::default(),
            servers,
            echo,
        })
    }

    /// The configuration in force, for a request to keep.
    ///
    /// All threads hold the same snapshot, and a count of its holders that each request changed
    /// would move from core to core. So each thread has a holder of its own, which its requests
    /// share; it lets an old snapshot go with the thread's first request after a reload.
    #[expect(
        clippy::redundant_allocation,
        reason = "the outer count is the thread's own, which is the point"
    )]
    pub(super) fn snapshot_for_request(&self) -> Arc<Arc<ProxySnapshot>> {
        thread_local! {
            static OWN: RefCell<Option<Arc<Arc<ProxySnapshot>>>> = const { RefCell::new(None) };
        }
        let current = self.snapshot();
        OWN.with_borrow_mut(|own| match own {
            Some(own) if Arc::ptr_eq(&**own, &current) => Arc::clone(own),
            own => Arc::clone(own.insert(Arc::new(Arc::clone(&current)))),
        })
    }

    /// The configuration in force at this moment.
    pub(super) fn snapshot(&self) -> Guard<Arc<ProxySnapshot>> {
        self.current.load()
    }

    /// Counts a connection of a client; `None` when it has too many already.
    pub(super) fn admit_client(&self, client: IpAddr) -> Option<ClientPermit> {
        self.snapshot().client_bound.admit(&self.clients, client)
    }

    /// Makes the settings of another configuration, or says everything that is wrong with it. A
    /// configuration without a proxy leaves the settings as they are: the addresses stay open until
    /// a restart.
    pub(crate) fn prepare(&self, config: &Config) -> Result<Arc<ProxySettings>, Vec<String>> {
        match &config.proxy {
            Some(proxy) => {
                let in_force = self.snapshot();
                let refused = in_force.refused_requests.as_ref();
                settings(config, proxy, &self.servers, self.echo, refused).map(Arc::new)
            }
            None => Ok(Arc::clone(&self.snapshot().settings)),
        }
    }

    /// Puts prepared settings in force for the next request, with the gate's snapshot of the same
    /// version.
    pub(crate) fn publish(&self, gate: Arc<Snapshot>, settings: Arc<ProxySettings>) {
        self.servers
            .bound_connections(settings.max_connections_per_upstream);
        self.current
            .store(Arc::new(ProxySnapshot { gate, settings }));
    }

    /// The server that the limits service sends a caller to, if the configuration in force still
    /// asks that service.
    pub(super) fn backend_server(
        &self,
        snapshot: &Snapshot,
        backend: &Backend,
    ) -> Result<Arc<UpstreamServer>, String> {
        let external = snapshot
            .external
            .as_ref()
            .ok_or("there is no limits service any more")?;
        self.servers.backend(backend, external.backends())
    }
}

fn settings(
    config: &Config,
    proxy: &Proxy,
    servers: &ServerRegistry,
    echo: Option<u16>,
    refused_requests: Option<&Arc<RefusedRequests>>,
) -> Result<ProxySettings, Vec<String>> {
    let routes = servers.routes(&proxy.routes, echo);
    let tls = proxy.tls.as_ref();
    let tls = tls.map(|files| tls::server_config(files, None, "proxy.tls", &["h2", "http/1.1"]));
    let tls = tls.transpose().map_err(|mistake| vec![mistake]);
    match (routes, tls) {
        (Ok(routes), Ok(tls)) => {
            let key_headers: Arc<[HeaderName]> =
                rewrite::key_headers(&config.policy, &config.principals).into();
            Ok(ProxySettings {
                routes,
                tls,
                bounds: proxy.bounds,
                timeouts: proxy.timeouts,
                max_connections_per_upstream: proxy.max_connections_per_upstream,
                client_bound: ClientBound::new(config, proxy),
                max_buffered_per_connection: proxy.max_buffered_per_connection,
                refused_requests: RefusedRequests::new(
                    proxy.refused_requests,
                    config.client_ip.prefixes,
                    refused_requests,
                ),
                trailers: rewrite::trailer_filter(Arc::clone(&key_headers)),
                key_headers,
            })
        }
        (routes, tls) => {
            let mistakes = routes.err().into_iter().chain(tls.err());
            Err(mistakes.flatten().collect())
        }
    }
}
