//! One client's connection from its first byte to its last.
//!
//! A connection is opened (`opening.rs`: PROXY protocol, TLS, version of HTTP), then served until
//! either side closes it, a timeout expires, or the process ends. All of that happens in one task,
//! under one [`ConnectionSupervisor`].
//!
//! Most connections wait for their next request most of the time, so the memory of one that waits
//! counts. The large futures lie in boxes that are dropped when they are done: the opening, and,
//! when a connection has been quiet for a while, the HTTP/1 server itself. Such a connection rests:
//! only its socket and its supervisor are left, and the server is made anew when bytes come.

mod opening;

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use bytes::Bytes;
use ipnet::IpNet;
use rustls::ServerConfig;
use sluicegate_config::Bounds;
use tokio::net::TcpStream;
use tokio::sync::watch;

use self::opening::OpenError;
use crate::activity::Activity;
use crate::client_connections::{ClientAdmission, ClientPermit};
use crate::client_io::ClientIo;
use crate::client_wire::{ClientWire, WireEnd};
use crate::counters::{ConnectionCounters, ConnectionRefusal};
use crate::handler::{Connection, Handler};
use crate::http1::{self, Http1End};
use crate::http2::{AnsweredRequest, BufferBounds, Driver, DriverSettings, ExtendedConnectUse};
use crate::supervisor::{ConnectionSupervisor, EndMode, EndReason, Supervised, WhenQuiet};
use crate::timeouts::{TimeoutCheck, TimeoutPolicy};
use crate::transport::Transport;

/// Serves HTTP connections; shared by all connections of an endpoint.
pub struct HttpServer {
    /// Counts the connections.
    pub counters: Arc<ConnectionCounters>,
    /// Peers that must begin with the PROXY protocol.
    pub proxy_protocol_from: Vec<IpNet>,
    /// Decides whether a client that the PROXY protocol names may have one more connection; `None`
    /// admits any number. Other peers are asked about when they are accepted.
    pub named_clients: Option<Arc<ClientAdmission>>,
    /// Becomes true when no request may begin any more.
    pub ending: watch::Receiver<bool>,
}

/// Settings of one connection. They are those in force when it was accepted.
#[derive(Clone, Debug)]
pub struct ConnectionSettings {
    /// Timeouts between and within requests.
    pub timeouts: TimeoutPolicy,
    /// Sizes of requests that are read.
    pub bounds: Bounds,
    /// The most bytes of bodies that wait for a connection of HTTP/2, in both directions together.
    pub buffered_bytes_max: usize,
    /// The certificate; `None` is a connection without TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

impl ConnectionSettings {
    /// The usual value of [`ConnectionSettings::buffered_bytes_max`].
    pub const BUFFERED_BYTES_MAX: usize = 1024 * 1024;
}

impl HttpServer {
    /// Serves a connection that was just accepted: HTTP/1 or HTTP/2, whichever the client begins
    /// with or agrees to in TLS.
    ///
    /// This is no `async fn`: its arguments would be kept in the future for the whole life of the
    /// connection, although most of them are only needed to open it.
    pub fn serve<H: Handler>(
        self: Arc<Self>,
        handler: Arc<H>,
        settings: ConnectionSettings,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send {
        let ConnectionSettings {
            timeouts,
            bounds,
            buffered_bytes_max,
            tls,
        } = settings;
        let (activity, check) = (Arc::new(Activity::new()), TimeoutCheck::new(timeouts));
        let server = Arc::clone(&self);
        let for_io = Arc::clone(&activity);
        let mut opening =
            Box::pin(async move { opening::open(&server, tls, stream, peer, for_io).await });
        async move {
            let _open = self.counters.open_connection();
            let mut supervisor = Box::pin(self.supervisor(Arc::clone(&activity), check)).await;
            // A client that has connected may have sent a request already, which is answered even
            // if the process ends.
            let Supervised::Finished(opened) = supervisor
                .supervise(opening.as_mut(), |_, _| EndMode::Graceful)
                .await
            else {
                return;
            };
            drop(opening);
            let (io, connection) = match opened {
                Ok(opened) => (*opened).with_handler(handler, bounds, activity),
                Err(OpenError::Closed) => return,
                Err(OpenError::Refused(reason)) => return self.counters.refuse(reason),
            };
            if connection.is_http2 {
                let served = serve_http2(&mut supervisor, io, connection, buffered_bytes_max);
                Box::pin(served).await;
            } else {
                serve_http1(&mut supervisor, ClientWire::new(io), &connection).await;
            }
        }
    }

    /// Serves HTTP/1 over a stream whose handshake is over; `settings.tls` has no meaning.
    pub fn serve_http1<H: Handler>(
        self: Arc<Self>,
        handler: Arc<H>,
        settings: ConnectionSettings,
        transport: Transport,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send {
        let (io, connection, check) = opened(handler, settings, transport, peer, false);
        let wire = ClientWire::new(io);
        async move {
            let _open = self.counters.open_connection();
            let activity = Arc::clone(&connection.activity);
            let mut supervisor = Box::pin(self.supervisor(activity, check)).await;
            serve_http1(&mut supervisor, wire, &connection).await;
        }
    }

    /// Serves HTTP/2 over a stream whose handshake is over; `settings.tls` has no meaning.
    pub fn serve_http2<H: Handler>(
        self: Arc<Self>,
        handler: Arc<H>,
        settings: ConnectionSettings,
        transport: Transport,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send {
        let buffered_bytes_max = settings.buffered_bytes_max;
        let (io, connection, check) = opened(handler, settings, transport, peer, true);
        async move {
            let _open = self.counters.open_connection();
            let activity = Arc::clone(&connection.activity);
            let mut supervisor = Box::pin(self.supervisor(activity, check)).await;
            serve_http2(&mut supervisor, io, connection, buffered_bytes_max).await;
        }
    }

    /// A supervisor in the calling task. Its future is large and done at once, so callers box it.
    async fn supervisor(
        &self,
        activity: Arc<Activity>,
        check: TimeoutCheck,
    ) -> ConnectionSupervisor {
        let (counters, ending) = (Arc::clone(&self.counters), self.ending.clone());
        ConnectionSupervisor::new(counters, activity, check, ending).await
    }
}

/// The parts of a connection whose handshake is over.
fn opened<H: Handler>(
    handler: Arc<H>,
    settings: ConnectionSettings,
    transport: Transport,
    peer: SocketAddr,
    is_http2: bool,
) -> (Box<ClientIo>, Arc<Connection<H>>, TimeoutCheck) {
    let activity = Arc::new(Activity::new());
    let connection = Arc::new(Connection {
        handler,
        peer,
        is_tls: transport.is_tls(),
        server_name: transport.client_server_name(),
        is_http2,
        bounds: settings.bounds,
        activity: Arc::clone(&activity),
        private_connections: OnceLock::new(),
        _client: ClientPermit::uncounted(),
    });
    let io = ClientIo::new(Bytes::new(), transport, activity, is_http2);
    let check = TimeoutCheck::new(settings.timeouts);
    (Box::new(io), connection, check)
}

/// Serves HTTP/2 until the connection ends.
async fn serve_http2<H: Handler>(
    supervisor: &mut ConnectionSupervisor,
    io: Box<ClientIo>,
    connection: Arc<Connection<H>>,
    buffered_bytes_max: usize,
) {
    let handler = Arc::clone(&connection.handler);
    let settings = DriverSettings {
        header_bytes: connection.bounds.header_bytes,
        bounds: BufferBounds(buffered_bytes_max),
        timeouts: supervisor.timeouts(),
        whole_body: Box::new(move |parts| handler.whole_body(parts)),
        sign_of_life: H::SIGN_OF_LIFE,
        extended_connect: match H::TAKES_EXTENDED_CONNECT {
            true => ExtendedConnectUse::Offered,
            false => ExtendedConnectUse::Excluded,
        },
        activity: Arc::clone(&connection.activity),
        counters: Arc::clone(supervisor.counters()),
        task: poll_fn(|cx| Poll::Ready(cx.waker().clone())).await,
    };
    let begin = move |mut request| {
        let connection = Arc::clone(&connection);
        async move {
            let response = H::handle(&connection, &mut request).await;
            let headers = request.parts.take_headers();
            AnsweredRequest { response, headers }
        }
    };
    let mut served = Box::pin(Driver::new(io, settings, begin));
    // The client is told with GOAWAY that it has to open another connection, and once more a round
    // trip later: every request that was under way until then is answered.
    let end = |served: Pin<&mut _>, _| {
        Driver::end(served);
        EndMode::Graceful
    };
    if supervisor.is_ending() {
        end(served.as_mut(), EndReason::ProcessEnds);
    }
    supervisor.when_quiet = WhenQuiet::End;
    supervisor.supervise(served.as_mut(), end).await;
}

/// Serves and rests by turns. Nothing is lost in between: bytes that have come and the position in
/// the stream are in `wire`, and a connection rests only between two requests.
async fn serve_http1<H: Handler>(
    supervisor: &mut ConnectionSupervisor,
    wire: ClientWire,
    connection: &Arc<Connection<H>>,
) {
    let end = |reason| match reason {
        EndReason::ProcessEnds => wire.end(WireEnd::Draining),
        EndReason::Quiet | EndReason::Idle => wire.end(WireEnd::Closing),
    };
    if supervisor.is_ending() {
        end(EndReason::ProcessEnds);
    }
    loop {
        supervisor.when_quiet = WhenQuiet::Rest;
        let mut requests = Box::pin(http1::serve(&wire, connection));
        let served = supervisor.supervise(requests.as_mut(), |_, reason| {
            end(reason);
            EndMode::Graceful
        });
        match served.await {
            Supervised::Resting => {}
            Supervised::Finished(Http1End::Malformed) => {
                return supervisor.refuse(ConnectionRefusal::Protocol);
            }
            Supervised::Finished(Http1End::Finished) | Supervised::Ended => return,
        }
        drop(requests);
        supervisor.when_quiet = WhenQuiet::End;
        let mut readable = pin!(wire.wait_readable());
        let woken = supervisor.supervise(readable.as_mut(), |_, reason| {
            end(reason);
            match reason {
                EndReason::ProcessEnds => EndMode::Graceful,
                EndReason::Quiet | EndReason::Idle => EndMode::Immediate,
            }
        });
        let Supervised::Finished(()) = woken.await else {
            // The server would need memory for a buffer, which so many connections that end at a
            // time have no use for.
            if !wire.has_unread() {
                return Box::pin(wire.linger()).await;
            }
            continue;
        };
    }
}

#[cfg(test)]
mod tests;
