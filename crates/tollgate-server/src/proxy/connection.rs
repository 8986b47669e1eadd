//! One client's connection from its first byte to its last.

use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use ipnet::IpNet;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Interval;
use tokio_rustls::TlsAcceptor;

use super::io::{ClientIo, Transport};
use super::proxy_protocol::{self, Parsed};
use super::service::{self, Caller};
use super::watch::{Late, Patrol, Rules, Watch};
use crate::live::{Gate, Live};
use crate::telemetry::metrics::ConnectionRefusal;

/// What all connections share.
pub(super) struct Door {
    pub(super) gate: Arc<Gate>,
    /// Peers from whom the PROXY protocol is required.
    pub(super) proxy_protocol_from: Vec<IpNet>,
    /// Becomes true when no request may begin any more.
    pub(super) draining: watch::Receiver<bool>,
}

/// Serves a connection until it ends, is late, or the process is told to end.
pub(super) async fn serve(door: Arc<Door>, stream: TcpStream, peer: SocketAddr) {
    let live = Arc::clone(&door.gate.live());
    let _open = door.gate.metrics.connection();
    let watch = Arc::new(Watch::new());
    let mut attendant = Attendant::new(&door, Arc::clone(&watch), Rules::new(&live.timeouts));
    let opening = open(&door, &live, stream, peer, Arc::clone(&watch));
    let Some(opened) = attendant.attend(pin!(opening), |_| {}, |_| true).await else { return };
    let Opened { io, peer, is_tls, is_http2 } = match opened {
        Ok(opened) => opened,
        Err(Unopened::Gone) => return,
        Err(Unopened::Refused(reason)) => return door.gate.metrics.connection_refused(reason),
    };
    let caller = Arc::new(Caller { gate: Arc::clone(&door.gate), watch, peer, is_tls, is_http2 });
    let service = service_fn(move |request| service::answer(Arc::clone(&caller), request));
    // An error ends the connection, and is nobody's business but the client's.
    if is_http2 {
        let connection = pin!(http2_builder(&live).serve_connection(TokioIo::new(io), service));
        // Whoever is between requests is told before the end.
        let ends_at_once = |late| late != Late::Idle;
        let _ = attendant.attend(connection, |connection| connection.graceful_shutdown(), ends_at_once).await;
    } else {
        let connection = pin!(http1_builder(&live).serve_connection(TokioIo::new(io), service).with_upgrades());
        let _ = attendant.attend(connection, |connection| connection.graceful_shutdown(), |_| true).await;
    }
}

/// Sees to it that a connection ends in time.
struct Attendant<'a> {
    door: &'a Door,
    watch: Arc<Watch>,
    patrol: Patrol,
    ticks: Interval,
    draining: watch::Receiver<bool>,
}

impl<'a> Attendant<'a> {
    fn new(door: &'a Door, watch: Arc<Watch>, rules: Rules) -> Self {
        let (patrol, ticks) = (Patrol::new(rules), tokio::time::interval(rules.tick));
        Self { door, watch, patrol, ticks, draining: door.draining.clone() }
    }

    /// Waits for what is under way; `None` if it was late. It is asked to `end` when the process is told to, or when it
    /// is late and does not end at once.
    async fn attend<F: Future>(
        &mut self,
        mut under_way: Pin<&mut F>,
        end: impl Fn(Pin<&mut F>),
        ends_at_once: impl Fn(Late) -> bool,
    ) -> Option<F::Output> {
        let mut is_ending = false;
        loop {
            tokio::select! {
                biased;
                ended = under_way.as_mut() => return Some(ended),
                _ = self.draining.wait_for(|draining| *draining), if !is_ending => {
                    is_ending = true;
                    end(under_way.as_mut());
                }
                _ = self.ticks.tick() => match self.patrol.tick(&self.watch) {
                    None => {}
                    Some(late) if !is_ending && !ends_at_once(late) => {
                        is_ending = true;
                        end(under_way.as_mut());
                    }
                    Some(Late::Idle) => return None,
                    Some(Late::Header | Late::Body | Late::Read) => {
                        self.door.gate.metrics.connection_refused(ConnectionRefusal::Slow);
                        return None;
                    }
                },
            }
        }
    }
}

fn http1_builder(live: &Live) -> http1::Builder {
    const LEAST: usize = 8 * 1024;
    let mut builder = http1::Builder::new();
    // Time is watched by us.
    builder
        .header_read_timeout(None)
        .half_close(false)
        .max_headers(live.bounds.headers + 1)
        .max_buf_size(live.bounds.header_bytes.max(LEAST));
    builder
}

fn http2_builder(live: &Live) -> http2::Builder<TokioExecutor> {
    const WINDOW: u32 = 1 << 20;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(100)
        .max_header_list_size(u32::try_from(live.bounds.header_bytes).unwrap_or(u32::MAX))
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
    io: ClientIo,
    peer: SocketAddr,
    is_tls: bool,
    is_http2: bool,
}

/// Everything before the first request: the PROXY protocol, TLS, and which HTTP it is.
async fn open(
    door: &Door,
    live: &Live,
    mut stream: TcpStream,
    peer: SocketAddr,
    watch: Arc<Watch>,
) -> Result<Opened, Unopened> {
    stream.set_nodelay(true)?;
    let address = peer.ip().to_canonical();
    let (peer, first) = if door.proxy_protocol_from.iter().any(|net| net.contains(&address)) {
        named_peer(&mut stream, peer).await.map_err(|_| Unopened::Refused(ConnectionRefusal::ProxyProtocol))?
    } else {
        (peer, BytesMut::new())
    };
    if let Some(tls) = &live.tls {
        if !first.is_empty() {
            // A client sends nothing of its handshake in one packet with the balancer's line.
            return Err(Unopened::Refused(ConnectionRefusal::ProxyProtocol));
        }
        let accepted = TlsAcceptor::from(Arc::clone(tls)).accept(stream).await;
        let stream = accepted.map_err(|_| Unopened::Refused(ConnectionRefusal::Tls))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let transport = Transport::Tls(Box::new(stream));
        return Ok(Opened {
            io: ClientIo::new(Bytes::new(), transport, watch, is_http2),
            peer,
            is_tls: true,
            is_http2,
        });
    }
    let (is_http2, first) = is_http2_preface(&mut stream, first).await?;
    let io = ClientIo::new(first.freeze(), Transport::Plain(stream), watch, is_http2);
    Ok(Opened { io, peer, is_tls: false, is_http2 })
}

/// The client that the balancer in front of us names, and what came after.
async fn named_peer(stream: &mut TcpStream, peer: SocketAddr) -> io::Result<(SocketAddr, BytesMut)> {
    let mut bytes = BytesMut::with_capacity(256);
    loop {
        match proxy_protocol::parse(&bytes).map_err(|refused| io::Error::new(io::ErrorKind::InvalidData, refused))? {
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
async fn is_http2_preface(stream: &mut TcpStream, mut first: BytesMut) -> io::Result<(bool, BytesMut)> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const ROOM: usize = 4 * 1024;
    first.reserve(ROOM);
    loop {
        let common = first.iter().zip(PREFACE).take_while(|(own, other)| own == other).count();
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
