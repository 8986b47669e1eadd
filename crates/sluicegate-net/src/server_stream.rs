//! A connection to a server, encrypted or not.
//!
//! Which server, which of its addresses and how long that may take is decided by the one who
//! dials; here begins the connection that was made.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A connection to a server after its handshake.
pub enum ServerStream {
    /// A bare socket.
    Plain(TcpStream),
    /// A socket with TLS on it.
    Tls(Box<TlsStream<TcpStream>>),
}

impl ServerStream {
    /// Prepares a connected socket: small writes go at once, and TLS is agreed on if wanted. The
    /// name is the one that the server's certificate must have.
    pub async fn new(
        socket: TcpStream,
        tls: Option<&(TlsConnector, ServerName<'static>)>,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        match tls {
            None => Ok(Self::Plain(socket)),
            Some((connector, name)) => Ok(Self::Tls(Box::new(
                connector.connect(name.clone(), socket).await?,
            ))),
        }
    }

    /// Returns true when the server chose HTTP/2 in the handshake.
    pub fn chose_http2(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }

    fn with<T>(&mut self, write: impl FnOnce(Pin<&mut (dyn AsyncWrite + Unpin)>) -> T) -> T {
        match self {
            Self::Plain(stream) => write(Pin::new(stream)),
            Self::Tls(stream) => write(Pin::new(&mut **stream)),
        }
    }
}

impl AsyncRead for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|io| io.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|io| io.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|io| io.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|io| io.poll_shutdown(cx))
    }
}
