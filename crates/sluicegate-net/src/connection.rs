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
use std::sync::Arc;
use std::task::Poll;

use ipnet::IpNet;
use rustls::ServerConfig;
use sluicegate_config::Bounds;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;

use self::opening::{OpenError, OpenedConnection};
use crate::activity::Activity;
use crate::client_connections::ClientAdmission;
use crate::client_io::ClientIo;
use crate::client_wire::{ClientWire, WireEnd};
use crate::counters::{ConnectionCounters, ConnectionRefusal};
use crate::handler::{Connection, Handler};
use crate::http1::{self, Http1End};
use crate::http2::{AnsweredRequest, BufferBounds, Driver, DriverSettings, ExtendedConnectUse};
use crate::lingering::Lingering;
use crate::supervisor::{ConnectionSupervisor, EndMode, EndReason, Supervised, WhenQuiet};
use crate::timeouts::TimeoutPolicy;
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
    /// with or agrees to in TLS. To be called within the runtime that serves it.
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
        let activity = Arc::new(Activity::new());
        let supervisor = self.supervisor(&activity, settings.timeouts);
        let opening = Box::pin(async move {
            let (tls, bounds) = (settings.tls, settings.bounds);
            let opened = opening::open(&self, tls, stream, peer, Arc::clone(&activity)).await?;
            let (io, connection) = opened.with_handler(handler, bounds, activity);
            Ok(OpenConnection {
                io,
                connection,
                buffered_bytes_max: settings.buffered_bytes_max,
            })
        });
        serve_opening(supervisor, opening)
    }

    /// Serves HTTP/1 over a stream whose handshake is over; `settings.tls` has no meaning.
    pub fn serve_http1<H: Handler>(
        self: Arc<Self>,
        handler: Arc<H>,
        settings: ConnectionSettings,
        transport: Transport,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send {
        self.serve_open(handler, settings, transport, peer, false)
    }

    /// Serves HTTP/2 over a stream whose handshake is over; `settings.tls` has no meaning.
    pub fn serve_http2<H: Handler>(
        self: Arc<Self>,
        handler: Arc<H>,
        settings: ConnectionSettings,
        transport: Transport,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send {
        self.serve_open(handler, settings, transport, peer, true)
    }

    fn serve_open<H: Handler>(
        &self,
        handler: Arc<H>,
        settings: ConnectionSettings,
        transport: Transport,
        peer: SocketAddr,
        is_http2: bool,
    ) -> impl Future<Output = ()> + Send + use<H> {
        let activity = Arc::new(Activity::new());
        let supervisor = self.supervisor(&activity, settings.timeouts);
        let opened = OpenedConnection::without_handshake(transport, peer, is_http2, &activity);
        let (io, connection) = opened.with_handler(handler, settings.bounds, activity);
        let opened = OpenConnection {
            io,
            connection,
            buffered_bytes_max: settings.buffered_bytes_max,
        };
        serve_opening(supervisor, Box::pin(std::future::ready(Ok(opened))))
    }

    fn supervisor(
        &self,
        activity: &Arc<Activity>,
        timeouts: TimeoutPolicy,
    ) -> Box<ConnectionSupervisor> {
        let (counters, ending) = (&self.counters, &self.ending);
        ConnectionSupervisor::new(counters, Arc::clone(activity), timeouts, ending)
    }
}

/// A connection that is ready for requests.
struct OpenConnection<H> {
    io: Box<ClientIo>,
    connection: Arc<Connection<H>>,
    buffered_bytes_max: usize,
}

/// Serves a connection from its opening to its end.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn has room for its arguments twice, in every connection that waits"
)]
fn serve_opening<H: Handler>(
    mut supervisor: Box<ConnectionSupervisor>,
    mut opening: Pin<Box<impl Future<Output = Result<OpenConnection<H>, OpenError>>>>,
) -> impl Future<Output = ()> {
    async move {
        // A client that has connected may have sent a request already, which is answered even
        // if the process ends.
        let opened = supervisor.supervise(opening.as_mut(), |_, _| EndMode::Graceful);
        let Supervised::Finished(opened) = opened.await else {
            return;
        };
        drop(opening);
        match opened {
            Ok(opened) if opened.connection.is_http2 => {
                Box::pin(serve_http2(supervisor, opened)).await;
            }
            Ok(opened) => serve_http1(supervisor, opened.io, opened.connection).await,
            Err(OpenError::Closed) => {}
            Err(OpenError::Refused(reason)) => supervisor.refuse(reason),
        }
    }
}

/// Serves HTTP/2 until the connection ends.
async fn serve_http2<H: Handler>(
    mut supervisor: Box<ConnectionSupervisor>,
    opened: OpenConnection<H>,
) {
    let connection = opened.connection;
    let handler = Arc::clone(&connection.handler);
    let settings = DriverSettings {
        header_bytes: connection.bounds.header_bytes,
        bounds: BufferBounds(opened.buffered_bytes_max),
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
    let mut served = Box::pin(Driver::new(opened.io, settings, begin));
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

/// Serves and rests by turns. Nothing is lost in between: bytes that have come are in `io`, and a
/// connection rests only between two requests.
#[expect(
    clippy::manual_async_fn,
    reason = "an async fn has room for its arguments twice, in every connection that waits"
)]
fn serve_http1<H: Handler>(
    mut supervisor: Box<ConnectionSupervisor>,
    mut io: Box<ClientIo>,
    connection: Arc<Connection<H>>,
) -> impl Future<Output = ()> {
    async move {
        let mut end = WireEnd::Open;
        loop {
            let wire = ClientWire::new(io);
            wire.end(end);
            match Box::pin(serve_requests(&mut supervisor, wire, &connection)).await {
                Some(rested) => io = rested,
                None => return,
            }
            supervisor.when_quiet = WhenQuiet::End;
            let mut readable = pin!(poll_fn(|cx| io.poll_readable(cx)));
            let woken = supervisor.supervise(readable.as_mut(), |_, reason| match reason {
                EndReason::ProcessEnds => EndMode::Graceful,
                EndReason::Quiet | EndReason::Idle => EndMode::Immediate,
            });
            // An error is found again by the next read.
            if let Supervised::Finished(_) = woken.await {
                continue;
            }
            // The server would need memory for a buffer, which so many connections that end at a
            // time have no use for.
            if !io.has_unread() {
                let _ = Box::pin(Lingering::new(io).shutdown()).await;
                return;
            }
            end = WireEnd::Closing;
        }
    }
}

/// Answers requests until the connection is quiet, and gives its stream back; `None` when it has
/// come to its end.
async fn serve_requests<H: Handler>(
    supervisor: &mut ConnectionSupervisor,
    mut wire: ClientWire,
    connection: &Arc<Connection<H>>,
) -> Option<Box<ClientIo>> {
    if supervisor.is_ending() {
        wire.end(WireEnd::Draining);
    }
    supervisor.when_quiet = WhenQuiet::Rest;
    loop {
        let mut requests = Box::pin(http1::serve(&wire, connection));
        let served = supervisor.supervise(requests.as_mut(), |_, reason| {
            wire.end(match reason {
                EndReason::ProcessEnds => WireEnd::Draining,
                EndReason::Quiet | EndReason::Idle => WireEnd::Closing,
            });
            EndMode::Graceful
        });
        match served.await {
            Supervised::Resting => {}
            Supervised::Finished(Http1End::Malformed) => {
                supervisor.refuse(ConnectionRefusal::Protocol);
                return None;
            }
            Supervised::Finished(Http1End::Finished) | Supervised::Ended => return None,
        }
        drop(requests);
        match wire.into_io() {
            Ok(io) => return Some(io),
            Err(shared) => wire = shared,
        }
    }
}

#[cfg(test)]
mod tests;
