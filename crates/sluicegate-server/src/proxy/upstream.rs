//! The servers behind the proxy, their health, and the routes that lead to them.
//!
//! Servers outlive the configuration: a reload that names the same server gets the same one, with
//! its idle connections and its health.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::HeaderValue;
use rustls::pki_types::ServerName;
use sluicegate_config::{Route, Upstream, UpstreamHttp};
use sluicegate_core::PathPattern;
use sluicegate_gate::external::{Backend, BackendHttp, BackendPolicy};
use sluicegate_net::{ClientConnections, ConnectionSlots, tls};
use tokio_rustls::TlsConnector;

use crate::file_hash;

/// A server that requests are forwarded to.
pub(crate) struct UpstreamServer {
    /// The pool of its idle connections; `None` when none are kept. It stays the same as long as
    /// the server is configured in the same way.
    pub(super) id: Option<usize>,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) http: UpstreamHttp,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    /// `host:port`, for logs and for requests that say no host.
    pub(super) authority: HeaderValue,
    /// The addresses that may be dialled; `None` allows all, because an operator named the server.
    pub(super) policy: Option<BackendPolicy>,
    /// The connections that may be open to it.
    pub(super) slots: Arc<ConnectionSlots>,
    /// Requests of each client that have begun while those were scarce.
    pub(super) scarce_requests: Arc<ClientConnections>,
    health: ServerHealth,
}

/// Failures in a row. After [`UpstreamServer::FAILURES`] of them, other servers are preferred for a
/// while. Relaxed order suffices: a request that reads an old value tries a server in vain.
#[derive(Default)]
struct ServerHealth {
    failures: AtomicU32,
    /// The end of the pause, in milliseconds of this process; 0 when there is none.
    away_until: AtomicU64,
}

impl UpstreamServer {
    fn new(
        id: Option<usize>,
        host: String,
        port: u16,
        http: UpstreamHttp,
        tls: Option<(TlsConnector, ServerName<'static>)>,
        policy: Option<BackendPolicy>,
        slots: Arc<ConnectionSlots>,
    ) -> Result<Self, String> {
        let named = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        let authority = HeaderValue::try_from(named).map_err(|_| format!("{host:?} is no host"))?;
        Ok(Self {
            id,
            host,
            port,
            http,
            tls,
            authority,
            policy,
            slots,
            scarce_requests: Arc::default(),
            health: ServerHealth::default(),
        })
    }

    /// Returns true for a server that the limits service names, and no configuration.
    pub(super) fn is_named_by_service(&self) -> bool {
        self.policy.is_some()
    }

    /// Failures in a row after which a server is avoided.
    const FAILURES: u32 = 3;
    /// The time for which a server is avoided after the last failure.
    const PAUSE: Duration = Duration::from_secs(5);

    /// Records a response, and ends the pause. It writes only after failures, so that healthy
    /// servers share a cache line that nobody writes to.
    pub(super) fn succeeded(&self) {
        if self.health.failures.load(Relaxed) != 0 {
            self.health.failures.store(0, Relaxed);
            self.health.away_until.store(0, Relaxed);
        }
    }

    /// Records that it refused a connection, broke one, or did not answer in time.
    pub(super) fn failed(&self) {
        if self.health.failures.fetch_add(1, Relaxed) + 1 >= Self::FAILURES {
            self.health
                .away_until
                .store(millis() + Self::PAUSE.as_millis() as u64, Relaxed);
        }
    }

    /// True when the server is not avoided. After the pause one failure is enough to avoid it
    /// again.
    pub(super) fn is_well(&self) -> bool {
        let until = self.health.away_until.load(Relaxed);
        until == 0 || millis() >= until
    }
}

/// Milliseconds since the first call in this process: a time that fits an atomic.
fn millis() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64
}

impl fmt::Debug for UpstreamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({}:{})", self.host, self.port)
    }
}

/// All servers of this process, so that a reload keeps their connections and their health.
pub(crate) struct ServerRegistry {
    known: Mutex<HashMap<ServerIdentity, Arc<UpstreamServer>>>,
    /// The number of the next pool of connections; numbers are never reused.
    next_id: AtomicUsize,
    /// The most connections to one server.
    connections_max: Arc<AtomicUsize>,
    /// The connections to all servers that are not remembered, together.
    unremembered: Arc<ConnectionSlots>,
}

/// The key under which a server is found again after a reload.
#[derive(PartialEq, Eq, Hash)]
enum ServerIdentity {
    /// Its configuration, and the hash of its CA file: with other authorities it is another server.
    Configured(Upstream, Option<[u8; 32]>),
    /// The URL that the limits service names, and the policy for such URLs.
    Backend(Backend, BackendPolicy),
}

impl ServerRegistry {
    pub(super) fn new() -> Self {
        let connections_max = Arc::new(AtomicUsize::new(usize::MAX));
        Self {
            known: Mutex::default(),
            next_id: AtomicUsize::new(0),
            unremembered: Arc::new(ConnectionSlots::new(Arc::clone(&connections_max))),
            connections_max,
        }
    }

    /// Bounds the connections to each server, from now on. Those that are open stay.
    pub(super) fn bound_connections(&self, max: usize) {
        self.connections_max.store(max, Relaxed);
    }

    fn slots(&self) -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots::new(Arc::clone(&self.connections_max)))
    }

    /// Finds or makes a configured server; `echo` is the port of the built-in one.
    fn server(
        &self,
        upstream: &Upstream,
        echo: Option<u16>,
    ) -> Result<Arc<UpstreamServer>, String> {
        let mut known = self.known.lock().expect("no holder of this lock panics");
        let authorities = match upstream {
            Upstream::Server {
                ca_file: Some(file),
                ..
            } => file_hash::sha256_of(file).ok(),
            _ => None,
        };
        let key = ServerIdentity::Configured(upstream.clone(), authorities);
        if let Some(server) = known.get(&key) {
            return Ok(Arc::clone(server));
        }
        let (host, port, http, tls) = match upstream {
            Upstream::Echo => {
                let port = echo.ok_or("the built-in upstream is not running")?;
                ("127.0.0.1".to_owned(), port, UpstreamHttp::Http1, None)
            }
            Upstream::Server {
                tls,
                host,
                port,
                http,
                ca_file,
            } => {
                let tls = if *tls {
                    Some(tls::connector(host, *http, ca_file.as_deref())?)
                } else {
                    None
                };
                (host.clone(), *port, *http, tls)
            }
        };
        let id = Some(self.next_id.fetch_add(1, Relaxed));
        let slots = self.slots();
        let server = Arc::new(UpstreamServer::new(id, host, port, http, tls, None, slots)?);
        known.insert(key, Arc::clone(&server));
        Ok(server)
    }

    /// Finds or makes the server that the limits service names. Beyond `BACKENDS_MAX` servers, the
    /// later ones are not remembered and keep no connections.
    pub(crate) fn backend(
        &self,
        backend: &Backend,
        policy: &BackendPolicy,
    ) -> Result<Arc<UpstreamServer>, String> {
        const BACKENDS_MAX: usize = 1_024;
        let key = ServerIdentity::Backend(backend.clone(), policy.clone());
        if let Some(server) = self
            .known
            .lock()
            .expect("no holder of this lock panics")
            .get(&key)
        {
            return Ok(Arc::clone(server));
        }
        let Backend {
            tls,
            host,
            port,
            http,
        } = backend.clone();
        let http = match http {
            BackendHttp::Auto => UpstreamHttp::Auto,
            BackendHttp::Http1 => UpstreamHttp::Http1,
            BackendHttp::Http2 => UpstreamHttp::Http2,
        };
        // Not under the lock, because this reads files.
        let tls = if tls {
            Some(tls::connector(&host, http, None)?)
        } else {
            None
        };
        let mut known = self.known.lock().expect("no holder of this lock panics");
        let backends = known
            .keys()
            .filter(|key| matches!(key, ServerIdentity::Backend(..)))
            .count();
        let (id, slots) = if backends < BACKENDS_MAX {
            (Some(self.next_id.fetch_add(1, Relaxed)), self.slots())
        } else {
            (None, Arc::clone(&self.unremembered))
        };
        let server = Arc::new(UpstreamServer::new(
            id,
            host,
            port,
            http,
            tls,
            Some(policy.clone()),
            slots,
        )?);
        Ok(match id {
            Some(_) => Arc::clone(known.entry(key).or_insert(server)),
            None => server,
        })
    }

    /// Makes the routes of a configuration; an error lists every mistake in them.
    pub(crate) fn routes(
        &self,
        routes: &[Route],
        echo: Option<u16>,
    ) -> Result<RouteTable, Vec<String>> {
        let mut mistakes = Vec::new();
        let mut made = Vec::new();
        for route in routes {
            let mut servers = Vec::new();
            for upstream in &route.upstreams {
                match self.server(upstream, echo) {
                    Ok(server) => servers.push(server),
                    Err(mistake) => mistakes.push(format!("proxy.upstream: {mistake}")),
                }
            }
            made.push(RouteEntry {
                host: route.host.clone(),
                path: route.path.clone(),
                group: Arc::new(ServerGroup {
                    servers,
                    next: AtomicUsize::new(0),
                }),
            });
        }
        if mistakes.is_empty() {
            Ok(RouteTable(made))
        } else {
            Err(mistakes)
        }
    }
}

/// The routes, the most particular first: the first that covers a request is taken.
pub(crate) struct RouteTable(Vec<RouteEntry>);

/// One route and its servers.
struct RouteEntry {
    /// The host, or `*.` and a domain; `None` covers every host, and requests without one.
    host: Option<String>,
    /// The pattern of paths; `None` covers every path.
    path: Option<PathPattern>,
    group: Arc<ServerGroup>,
}

/// The servers of one route, any of which can answer.
pub(crate) struct ServerGroup {
    servers: Vec<Arc<UpstreamServer>>,
    /// Counts requests; the remainder is the server that is tried first.
    next: AtomicUsize,
}

impl RouteTable {
    /// The servers for a host and a path; `None` when no route covers them.
    pub(super) fn group(&self, host: Option<&str>, path: &str) -> Option<&Arc<ServerGroup>> {
        self.0
            .iter()
            .find(|destination| destination.covers(host, path))
            .map(|destination| &destination.group)
    }
}

impl RouteEntry {
    fn covers(&self, host: Option<&str>, path: &str) -> bool {
        let host_covers = |own: &str| match (own.strip_prefix("*."), host) {
            (_, None) => false,
            (Some(domain), Some(host)) => host
                .strip_suffix(domain)
                .is_some_and(|rest| rest.ends_with('.')),
            (None, Some(host)) => own == host,
        };
        self.host.as_deref().is_none_or(host_covers)
            && self.path.as_ref().is_none_or(|own| own.covers(path))
    }
}

impl ServerGroup {
    pub(super) fn servers(&self) -> &[Arc<UpstreamServer>] {
        &self.servers
    }

    /// The servers in the order in which a request tries them: round robin, healthy ones first.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = &Arc<UpstreamServer>> {
        let count = self.servers.len();
        let first = if count > 1 {
            self.next.fetch_add(1, Relaxed)
        } else {
            0
        };
        let turn = move |place: usize| &self.servers[(first.wrapping_add(place)) % count.max(1)];
        let well = (0..count).map(turn).filter(|server| server.is_well());
        well.chain((0..count).map(turn).filter(|server| !server.is_well()))
    }
}
