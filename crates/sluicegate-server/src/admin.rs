//! The admin API: health, metrics, version and reload of the configuration, and the operator's
//! work.
//!
//! This file listens and serves connections; `access_guard.rs` checks each request, `routes.rs`
//! finds what it asks for, `operator_routes.rs` has the routes of bans, overrides and statistics.
//!
//! `connection_shares.rs` keeps strangers from taking all connections.
//!
//! The API is on loopback unless there is a token, answers one request per connection, and gives a
//! browser nothing to work with but its own page: no foreign host, no foreign origin, no foreign
//! script.

mod access_guard;
mod connection_shares;
mod operator_routes;
mod page;
mod query;
mod response;
mod routes;

use std::fmt;
use std::future::{Future, pending};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use sluicegate_config::Bounds;
use sluicegate_gate::telemetry::Metrics;
use sluicegate_net::{
    Connection, ConnectionSettings, Handler, HttpResponse, HttpServer, HttpTimeouts,
    IncomingRequest, TimeoutPolicy, Transport, listen,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::operator::Operator;
use access_guard::{AccessGuard, is_for_strangers};
use connection_shares::{ConnectionShare, ConnectionShares};
use response::AdminBody;
use routes::AdminRoutes;

pub use crate::configuration::ConfigVersion;
pub use crate::token_file::{AdminToken, TokenError};

/// The parts of the process that the admin API shows and changes.
pub struct AdminState {
    /// The counters behind `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Tells `/readyz` if requests should be sent to this process.
    pub ready: Box<dyn Fn() -> Readiness + Send + Sync>,
    /// Loads the configuration again. Returns a sentence about the result, or the mistakes, one per
    /// line. It reads files, so it may block.
    pub reload: Box<dyn Fn() -> Result<String, String> + Send + Sync>,
    /// The running configuration.
    pub version: Box<dyn Fn() -> ConfigVersion + Send + Sync>,
    /// Serves `/v1/stats`, `/v1/bans` and the like; without it those paths do not exist.
    pub operator: Option<Arc<Operator>>,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState").finish_non_exhaustive()
    }
}

/// The answer to `/readyz`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// True when requests should be sent to this process.
    pub is_ready: bool,
    /// Everything that is wrong; there may be reasons although the process is ready.
    pub reasons: Vec<String>,
}

/// Bytes of the request line and headers.
const HEADER_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// From the first byte of a connection to its last.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest stream of events; a client that still wants events opens another one.
const STREAM_TIMEOUT: Duration = Duration::from_secs(3_600);
/// Time that requests in progress have when the process ends.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Pause before the next attempt to accept when the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is ready and the requests in progress are answered. An address other
/// than loopback without a token is an error.
pub async fn serve(
    listener: TcpListener,
    token: Option<AdminToken>,
    state: Arc<AdminState>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if token.is_none() && !address.ip().to_canonical().is_loopback() {
        let what =
            format!("admin.listen: {address} is not loopback, so admin.token_file is required");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let service = Arc::new(AdminService {
        guard: AccessGuard::new(address.ip(), token),
        routes: AdminRoutes::new(state),
    });
    let (end, ending) = watch::channel(false);
    let server = Arc::new(HttpServer {
        // Not those of the metrics, which count the clients of the proxy.
        counters: Arc::default(),
        proxy_protocol_from: Vec::new(),
        named_clients: None,
        ending,
    });
    let mut accepting = Accepting {
        listener,
        server,
        service,
        shares: Arc::default(),
        connections: JoinSet::new(),
    };
    tokio::select! {
        () = accepting.accept() => {}
        () = shutdown => {}
    }
    accepting.accept_waiting();
    end.send_replace(true);
    let Accepting {
        listener,
        mut connections,
        ..
    } = accepting;
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(DRAIN_MAX, drained).await.is_err() {
        connections.shutdown().await;
    }
    Ok(())
}

/// The socket and the connections that came from it.
struct Accepting {
    listener: TcpListener,
    server: Arc<HttpServer>,
    service: Arc<AdminService>,
    shares: Arc<ConnectionShares>,
    connections: JoinSet<()>,
}

impl Accepting {
    /// Accepts for ever.
    async fn accept(&mut self) {
        loop {
            while self.connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, peer)) => self.spawn(stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "the admin API cannot accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Accepts the connections that the system would reset together with the socket, as many as
    /// there is room for.
    fn accept_waiting(&mut self) {
        for _ in 0..ConnectionShares::STRANGERS_MAX {
            let Some((stream, peer)) = listen::take_waiting(&self.listener) else {
                return;
            };
            self.spawn(stream, peer);
        }
    }

    fn spawn(&mut self, stream: TcpStream, peer: SocketAddr) {
        let (share, closed) = self.shares.begin();
        let handler = Arc::new(AdminConnection {
            service: Arc::clone(&self.service),
            share,
            streams: AtomicBool::new(false),
        });
        let server = Arc::clone(&self.server);
        self.connections.spawn(async move {
            tokio::select! {
                () = serve_connection(server, handler, stream, peer) => {}
                // Its place was given to another.
                _ = closed => {}
            }
        });
    }
}

/// Checks access, then answers.
struct AdminService {
    guard: AccessGuard,
    routes: AdminRoutes,
}

/// Handler of one connection, which has one request.
struct AdminConnection {
    service: Arc<AdminService>,
    share: ConnectionShare,
    /// The response is a stream of events, which may take longer than others.
    streams: AtomicBool,
}

impl Handler for AdminConnection {
    type Body = AdminBody;

    async fn handle(
        connection: &Arc<Connection<Self>>,
        request: &mut IncomingRequest,
    ) -> HttpResponse<AdminBody> {
        let Self {
            service,
            share,
            streams,
        } = &*connection.handler;
        share.heard();
        let IncomingRequest { parts, end, body } = request.take();
        let valid = end.and_then(|_| connection.check_size(&parts));
        let checked = || {
            service
                .guard
                .check(&parts.method, &parts.uri, &parts.headers)
        };
        let response = match valid {
            Err(invalid) => response::error(invalid.status(), &invalid.to_string()),
            Ok(()) => match checked() {
                Ok(()) if !is_for_strangers(parts.uri.path()) && !share.move_to_operators() => {
                    response::error(StatusCode::SERVICE_UNAVAILABLE, "too many connections")
                }
                Ok(()) => service.routes.respond(&parts, body, connection.peer).await,
                Err(refusal) => refusal.response(),
            },
        };
        streams.store(response.body().is_stream(), Ordering::Relaxed);
        let mut response = HttpResponse::from(response::protected(response));
        response.closes = true;
        response
    }
}

/// Serves one connection to its end, or for as long as it may take. A stream of events has no end,
/// so it ends with the process.
async fn serve_connection(
    server: Arc<HttpServer>,
    handler: Arc<AdminConnection>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let mut ending = server.ending.clone();
    let transport = Transport::Plain(stream);
    let served = async {
        let mut served =
            pin!(server.serve_http1(Arc::clone(&handler), settings(), transport, peer));
        if timeout(CONNECTION_TIMEOUT, &mut served).await.is_err()
            && handler.streams.load(Ordering::Relaxed)
        {
            let _ = timeout(STREAM_TIMEOUT, served).await;
        }
    };
    let stream_ended = async {
        let _ = ending.wait_for(|ending| *ending).await;
        if !handler.streams.load(Ordering::Relaxed) {
            pending().await
        }
    };
    tokio::select! {
        () = served => {}
        () = stream_ended => {}
    }
}

fn settings() -> ConnectionSettings {
    let timeouts = HttpTimeouts {
        header: HEADER_TIMEOUT,
        idle: HEADER_TIMEOUT,
        unread: CONNECTION_TIMEOUT,
        unread_bytes_min: 1,
    };
    ConnectionSettings {
        timeouts: TimeoutPolicy::new(&timeouts),
        bounds: Bounds {
            header_bytes: HEADER_BYTES_MAX,
            headers: HEADERS_MAX,
            target_bytes: HEADER_BYTES_MAX,
            body_bytes: None,
        },
        buffered_bytes_max: ConnectionSettings::BUFFERED_BYTES_MAX,
        tls: None,
    }
}
