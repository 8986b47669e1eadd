//! Everything before the first request of a connection: the PROXY protocol, TLS, and the version
//! of HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use ipnet::IpNet;
use rustls::ServerConfig;
use sluicegate_config::Bounds;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::HttpServer;
use crate::activity::Activity;
use crate::client_connections::ClientPermit;
use crate::client_io::ClientIo;
use crate::counters::ConnectionRefusal;
use crate::handler::Connection;
use crate::proxy_protocol::{self, ProxyHeader};
use crate::transport::Transport;

/// A connection whose handshake is over, before it has a handler.
pub(super) struct OpenedConnection {
    io: Box<ClientIo>,
    /// The client; not the balancer in front of us if that names the client.
    peer: SocketAddr,
    is_tls: bool,
    /// The server's name in the TLS handshake.
    server_name: Option<Box<str>>,
    is_http2: bool,
    client: ClientPermit,
}

impl OpenedConnection {
    /// A connection whose handshake is over.
    pub(super) fn without_handshake(
        transport: Transport,
        peer: SocketAddr,
        is_http2: bool,
        activity: &Arc<Activity>,
    ) -> Self {
        let activity = Arc::clone(activity);
        Self {
            peer,
            is_tls: transport.is_tls(),
            server_name: transport.client_server_name(),
            is_http2,
            io: Box::new(ClientIo::new(Bytes::new(), transport, activity, is_http2)),
            client: ClientPermit::uncounted(),
        }
    }

    /// The bytes of the connection, and the connection as its requests see it.
    pub(super) fn with_handler<H>(
        self,
        handler: Arc<H>,
        bounds: Bounds,
        activity: Arc<Activity>,
    ) -> (Box<ClientIo>, Arc<Connection<H>>) {
        let connection = Connection {
            handler,
            peer: self.peer,
            is_tls: self.is_tls,
            server_name: self.server_name,
            is_http2: self.is_http2,
            bounds,
            activity,
            private_connections: OnceLock::new(),
            _client: self.client,
        };
        (self.io, Arc::new(connection))
    }
}

/// Reason why a connection is not ready for requests.
pub(super) enum OpenError {
    /// The client closed it, perhaps without a byte.
    Closed,
    /// The client did not begin as it must.
    Refused(ConnectionRefusal),
}

impl From<io::Error> for OpenError {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// Opens a connection. The result is in a box, because the caller's future would have room for it
/// as long as the connection lasts. It has no time limit of its own: the supervisor's header
/// timeout covers it.
pub(super) async fn open(
    server: &HttpServer,
    tls: Option<Arc<ServerConfig>>,
    mut stream: TcpStream,
    peer: SocketAddr,
    activity: Arc<Activity>,
) -> Result<Box<OpenedConnection>, OpenError> {
    stream.set_nodelay(true)?;
    let address = peer.ip().to_canonical();
    let speaks_for_clients = |net: &IpNet| net.contains(&address);
    let (named, first) = if server.proxy_protocol_from.iter().any(speaks_for_clients) {
        read_proxy_header(&mut stream)
            .await
            .map_err(|_| OpenError::Refused(ConnectionRefusal::ProxyProtocol))?
    } else {
        (None, BytesMut::new())
    };
    let client = match (named, &server.named_clients) {
        (Some(client), Some(admit)) => {
            let too_many = OpenError::Refused(ConnectionRefusal::TooManyOfClient);
            admit(client.ip()).ok_or(too_many)?
        }
        _ => ClientPermit::uncounted(),
    };
    let peer = named.unwrap_or(peer);
    if let Some(tls) = tls {
        if !first.is_empty() {
            // Only as many bytes as the PROXY header needs are read, so there are none.
            return Err(OpenError::Refused(ConnectionRefusal::ProxyProtocol));
        }
        let accepted = TlsAcceptor::from(tls).accept(stream).await;
        let stream = accepted.map_err(|_| OpenError::Refused(ConnectionRefusal::Tls))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let transport = Transport::Tls(Box::new(stream.into()));
        return Ok(Box::new(OpenedConnection {
            server_name: transport.client_server_name(),
            io: Box::new(ClientIo::new(Bytes::new(), transport, activity, is_http2)),
            peer,
            is_tls: true,
            is_http2,
            client,
        }));
    }
    let (is_http2, first) = read_preface(&mut stream, first).await?;
    let transport = Transport::Plain(stream);
    Ok(Box::new(OpenedConnection {
        io: Box::new(ClientIo::new(first.freeze(), transport, activity, is_http2)),
        peer,
        is_tls: false,
        server_name: None,
        is_http2,
        client,
    }))
}

/// Reads the PROXY protocol's header; returns the client that it names, if it names one, and bytes
/// after it.
async fn read_proxy_header(stream: &mut TcpStream) -> io::Result<(Option<SocketAddr>, BytesMut)> {
    let mut bytes = BytesMut::with_capacity(256);
    loop {
        match proxy_protocol::parse(&bytes)
            .map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))?
        {
            ProxyHeader::Complete { source, used } => {
                let rest = bytes.split_off(used);
                return Ok((source, rest));
            }
            // No more than the header is read: a TLS handshake after it must stay in the socket.
            ProxyHeader::Incomplete(more) => {
                let mut part = stream.take(more as u64);
                if part.read_buf(&mut bytes).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

/// Reads until it is clear whether the client begins with the preface of HTTP/2. Returns true if
/// so, and all bytes that were read.
async fn read_preface(stream: &mut TcpStream, mut first: BytesMut) -> io::Result<(bool, BytesMut)> {
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
