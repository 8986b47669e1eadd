//! One client's connection from its first byte to its last.

use std::convert::Infallible;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use ipnet::IpNet;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Interval, Sleep, sleep};
use tokio_rustls::TlsAcceptor;

use super::bell::Bell;
use super::body::ClientBody;
use super::http1::{Client, Over};
use super::io::{ClientIo, Transport};
use super::proxy_protocol::{self, Parsed};
use super::service::{self, Caller};
use super::state::{ProxySnapshot, ProxyState};
use super::validate;
use super::watch::{Late, Notice, Patrol, Rules, Watch};
use crate::telemetry::metrics::ConnectionRefusal;

/// What all connections share.
pub(super) struct Door {
    pub(super) proxy: Arc<ProxyState>,
    /// Peers from whom the PROXY protocol is required.
    pub(super) proxy_protocol_from: Vec<IpNet>,
    /// Becomes true when no request may begin any more.
    pub(super) draining: watch::Receiver<bool>,
}

/// Serves a connection until it ends, is late, or the process is told to end.
///
/// What is large lies in boxes: thousands of connections wait for their next request, and wait in little memory.
pub(super) async fn serve(door: Arc<Door>, stream: TcpStream, peer: SocketAddr) {
    let snapshot = Arc::clone(&door.proxy.snapshot());
    let _open = door.proxy.gate.metrics.connection();
    let watch = Arc::new(Watch::new());
    let mut attendant =
        Attendant::new(&door, Arc::clone(&watch), Rules::new(&snapshot.timeouts)).await;
    let mut opening = Box::pin(open(&door, &snapshot, stream, peer, Arc::clone(&watch)));
    // Who has connected may have sent a request already, which is answered also if the process ends.
    let Attended::Ended(opened) = attendant
        .attend(opening.as_mut(), |_| End::Await, |_| End::AtOnce)
        .await
    else {
        return;
    };
    drop(opening);
    let Opened {
        io,
        peer,
        is_tls,
        is_http2,
    } = match opened {
        Ok(opened) => opened,
        Err(Unopened::Gone) => return,
        Err(Unopened::Refused(reason)) => {
            return door.proxy.gate.metrics.connection_refused(reason);
        }
    };
    let proxy = Arc::clone(&door.proxy);
    let caller = Arc::new(Caller {
        proxy,
        watch,
        peer,
        is_tls,
        is_http2,
    });
    if is_http2 {
        Box::pin(serve_http2(&mut attendant, &snapshot, io, caller)).await;
    } else {
        serve_http1(&mut attendant, &snapshot, Client::new(io), &caller).await;
    }
}

async fn serve_http2(
    attendant: &mut Attendant<'_>,
    snapshot: &ProxySnapshot,
    io: Box<ClientIo>,
    caller: Arc<Caller>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let caller = Arc::clone(&caller);
        let (parts, body) = request.into_parts();
        async move {
            let end = validate::body_end(&parts);
            let answer = service::answer(&caller, parts, end, ClientBody::Stream(body)).await;
            Ok::<_, Infallible>(answer.into_response())
        }
    });
    let mut connection =
        Box::pin(http2_builder(snapshot).serve_connection(TokioIo::new(io), service));
    let end = |connection: Pin<&mut _>| {
        http2::Connection::graceful_shutdown(connection);
        End::Await
    };
    // Whoever is between requests is told before the end.
    let when_late = |late| {
        if late == Late::Idle {
            End::Await
        } else {
            End::AtOnce
        }
    };
    // Other errors are nobody's business but the client's.
    if let Attended::Ended(Err(error)) = attendant.attend(connection.as_mut(), end, when_late).await
        && (error.is_parse() || attendant.watch.is_flooded() || is_our_end(&error))
    {
        attendant
            .door
            .proxy
            .gate
            .metrics
            .connection_refused(ConnectionRefusal::Protocol);
    }
}

/// Whether it was us who ended the connection, for what came on it.
fn is_our_end(error: &hyper::Error) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| cause.is_go_away() && cause.is_library())
}

/// While nothing is under way for a while, there is nothing but the socket: the rest is made anew for the next request.
async fn serve_http1(
    attendant: &mut Attendant<'_>,
    snapshot: &ProxySnapshot,
    client: Client,
    caller: &Arc<Caller>,
) {
    let end = || {
        client.end();
        End::Await
    };
    loop {
        attendant.can_rest = true;
        let mut requests = Box::pin(client.serve(caller, &snapshot.bounds));
        match attendant
            .attend(requests.as_mut(), |_| end(), |_| End::AtOnce)
            .await
        {
            Attended::Resting => {}
            Attended::Ended(Over::NotHttp) => {
                return attendant
                    .door
                    .proxy
                    .gate
                    .metrics
                    .connection_refused(ConnectionRefusal::Protocol);
            }
            Attended::Ended(Over::Done) | Attended::Over => return,
        }
        drop(requests);
        attendant.can_rest = false;
        let next = attendant
            .attend(pin!(client.rest()), |_| End::AtOnce, |_| End::AtOnce)
            .await;
        let Attended::Ended(()) = next else { return };
    }
}

/// Sees to it that a connection ends in time.
struct Attendant<'a> {
    door: &'a Door,
    watch: Arc<Watch>,
    patrol: Patrol,
    ticks: Interval,
    /// Ends when no request may begin any more.
    draining: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// When a connection that is quiet has been so for long enough, and what had been read when it began to be.
    rest: Option<(Pin<Box<Sleep>>, u64)>,
    /// Whether what is attended can be put to rest.
    can_rest: bool,
    /// For all of the above.
    bell: Bell,
}

/// How something ends that should.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// On its own, soon: it was told.
    Await,
    AtOnce,
}

/// What became of something that was attended.
enum Attended<T> {
    Ended(T),
    /// Nothing is under way, and has not been for a while.
    Resting,
    /// It was late, or the process ends.
    Over,
}

impl<'a> Attendant<'a> {
    async fn new(door: &'a Door, watch: Arc<Watch>, rules: Rules) -> Self {
        let (patrol, ticks) = (Patrol::new(rules), tokio::time::interval(rules.tick));
        let mut draining = door.draining.clone();
        let draining = Box::pin(async move {
            let _ = draining.wait_for(|draining| *draining).await;
        });
        Self {
            door,
            watch,
            patrol,
            ticks,
            draining: Some(draining),
            rest: None,
            can_rest: false,
            bell: Bell::for_this_task().await,
        }
    }

    /// Waits for what is under way, and asks it to `end` when the process is told to, or when it is late and need not end
    /// at once.
    async fn attend<F: Future>(
        &mut self,
        mut under_way: Pin<&mut F>,
        end: impl Fn(Pin<&mut F>) -> End,
        when_late: impl Fn(Late) -> End,
    ) -> Attended<F::Output> {
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(ended) = under_way.as_mut().poll(cx) {
                    return Poll::Ready(Attended::Ended(ended));
                }
                if self.can_rest && self.rest.is_none() && self.watch.is_quiet() {
                    self.begin_to_rest();
                }
                if !self.bell.has_rung() {
                    return Poll::Pending;
                }
                match self.look() {
                    Look::Fine => {}
                    Look::Resting => return Poll::Ready(Attended::Resting),
                    Look::ToEnd if end(under_way.as_mut()) == End::AtOnce => {
                        return Poll::Ready(Attended::Over);
                    }
                    Look::ToEnd => {}
                    Look::Late(late) if !self.is_ending() && when_late(late) == End::Await => {
                        self.draining = None;
                        end(under_way.as_mut());
                    }
                    Look::Late(late) => {
                        if late != Late::Idle {
                            self.door
                                .proxy
                                .gate
                                .metrics
                                .connection_refused(ConnectionRefusal::Slow);
                        }
                        return Poll::Ready(Attended::Over);
                    }
                }
            }
        })
        .await
    }

    fn is_ending(&self) -> bool {
        self.draining.is_none()
    }

    /// What has changed since the bell rang.
    fn look(&mut self) -> Look {
        let mut cx = self.bell.context();
        if let Some(draining) = &mut self.draining
            && draining.as_mut().poll(&mut cx).is_ready()
        {
            self.draining = None;
            // The clock is asked next.
            cx.waker().wake_by_ref();
            return Look::ToEnd;
        }
        while self.ticks.poll_tick(&mut cx).is_ready() {
            if let Notice::Late(late) = self.patrol.tick(&self.watch) {
                cx.waker().wake_by_ref();
                return Look::Late(late);
            }
        }
        match self
            .rest
            .take_if(|(until, _)| until.as_mut().poll(&mut cx).is_ready())
        {
            Some((_, read))
                if !self.is_ending()
                    && self.watch.is_quiet()
                    && self.watch.bytes_read() == read =>
            {
                Look::Resting
            }
            _ => Look::Fine,
        }
    }

    fn begin_to_rest(&mut self) {
        let mut until = Box::pin(sleep(before_rest(
            self.door.proxy.gate.metrics.connections(),
        )));
        // Not ready yet: it will ring.
        let _ = until.as_mut().poll(&mut self.bell.context());
        self.rest = Some((until, self.watch.bytes_read()));
    }
}

/// How long a connection stays awake without a request: the more there are, the less. With few there is memory enough, and
/// waking up is work; many have longer pauses between their requests anyway.
fn before_rest(connections: u64) -> Duration {
    const LONGEST: Duration = Duration::from_millis(100);
    const FEW: u64 = 256;
    LONGEST.mul_f64(FEW as f64 / connections.max(FEW) as f64)
}

/// What is seen when the bell has rung.
enum Look {
    Fine,
    Resting,
    /// The process is told to end.
    ToEnd,
    Late(Late),
}

fn http2_builder(snapshot: &ProxySnapshot) -> http2::Builder<TokioExecutor> {
    const WINDOW: u32 = 1 << 20;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(100)
        .max_header_list_size(u32::try_from(snapshot.bounds.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(256 * 1024);
    builder
}

/// Why a connection is not ready for requests.
enum Unopened {
    /// The client ended it, or never said a word.
    Gone,
    Refused(ConnectionRefusal),
}

impl From<io::Error> for Unopened {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

/// A connection that is ready for requests.
struct Opened {
    io: Box<ClientIo>,
    peer: SocketAddr,
    is_tls: bool,
    is_http2: bool,
}

/// Everything before the first request: the PROXY protocol, TLS, and which HTTP it is.
async fn open(
    door: &Door,
    snapshot: &ProxySnapshot,
    mut stream: TcpStream,
    peer: SocketAddr,
    watch: Arc<Watch>,
) -> Result<Opened, Unopened> {
    stream.set_nodelay(true)?;
    let address = peer.ip().to_canonical();
    let (peer, first) = if door
        .proxy_protocol_from
        .iter()
        .any(|net| net.contains(&address))
    {
        named_peer(&mut stream, peer)
            .await
            .map_err(|_| Unopened::Refused(ConnectionRefusal::ProxyProtocol))?
    } else {
        (peer, BytesMut::new())
    };
    if let Some(tls) = &snapshot.tls {
        if !first.is_empty() {
            // A client sends nothing of its handshake in one packet with the balancer's line.
            return Err(Unopened::Refused(ConnectionRefusal::ProxyProtocol));
        }
        let accepted = TlsAcceptor::from(Arc::clone(tls)).accept(stream).await;
        let stream = accepted.map_err(|_| Unopened::Refused(ConnectionRefusal::Tls))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let transport = Transport::Tls(Box::new(stream));
        return Ok(Opened {
            io: Box::new(ClientIo::new(Bytes::new(), transport, watch, is_http2)),
            peer,
            is_tls: true,
            is_http2,
        });
    }
    let (is_http2, first) = is_http2_preface(&mut stream, first).await?;
    let io = Box::new(ClientIo::new(
        first.freeze(),
        Transport::Plain(stream),
        watch,
        is_http2,
    ));
    Ok(Opened {
        io,
        peer,
        is_tls: false,
        is_http2,
    })
}

/// The client that the balancer in front of us names, and what came after.
async fn named_peer(
    stream: &mut TcpStream,
    peer: SocketAddr,
) -> io::Result<(SocketAddr, BytesMut)> {
    let mut bytes = BytesMut::with_capacity(256);
    loop {
        match proxy_protocol::parse(&bytes)
            .map_err(|refused| io::Error::new(io::ErrorKind::InvalidData, refused))?
        {
            Parsed::Done { source, used } => {
                let rest = bytes.split_off(used);
                return Ok((source.unwrap_or(peer), rest));
            }
            // No more than the header is read, so that what follows stays for whoever reads next.
            Parsed::Need(more) => {
                let mut part = stream.take(more as u64);
                if part.read_buf(&mut bytes).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

/// Whether the client begins in HTTP/2; reads as little as is needed to know.
async fn is_http2_preface(
    stream: &mut TcpStream,
    mut first: BytesMut,
) -> io::Result<(bool, BytesMut)> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const ROOM: usize = 4 * 1024;
    first.reserve(ROOM);
    loop {
        let common = first
            .iter()
            .zip(PREFACE)
            .take_while(|(own, other)| own == other)
            .count();
        if common == PREFACE.len() {
            return Ok((true, first));
        }
        if common < first.len() {
            return Ok((false, first));
        }
        if stream.read_buf(&mut first).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_connections_there_are_the_sooner_each_rests() {
        assert_eq!(before_rest(0), before_rest(256));
        assert_eq!(before_rest(512), before_rest(256) / 2);
        assert!(before_rest(1_000_000) < Duration::from_millis(1));
    }
}
