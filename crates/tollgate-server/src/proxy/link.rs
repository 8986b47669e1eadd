//! A connection to a server, encrypted or not.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::client::TlsStream;

use super::upstream::Server;

/// A connection to a server.
pub(super) enum Link {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Link {
    /// Dials, with all of TLS, within `timeout`.
    pub(super) async fn dial(server: &Server, timeout: Duration) -> io::Result<Self> {
        let dialled = tokio::time::timeout(timeout, Self::dial_in_time(server)).await;
        dialled.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn dial_in_time(server: &Server) -> io::Result<Self> {
        let stream = connect(server).await?;
        stream.set_nodelay(true)?;
        match &server.tls {
            None => Ok(Self::Plain(stream)),
            Some((connector, name)) => Ok(Self::Tls(Box::new(connector.connect(name.clone(), stream).await?))),
        }
    }

    /// Whether the server chose HTTP/2.
    pub(super) fn chose_http2(&self) -> bool {
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

/// Connects to the first address that answers, of those that may be dialled.
async fn connect(server: &Server) -> io::Result<TcpStream> {
    let target = (server.host.as_str(), server.port);
    let Some(policy) = &server.policy else { return TcpStream::connect(target).await };
    // What a name means now is what is checked, and what is checked is what is dialled.
    let mut last = io::Error::new(io::ErrorKind::PermissionDenied, "no address of the backend may be dialled");
    for address in lookup_host(target).await?.filter(|address| policy.may_dial(address.ip())) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl AsyncRead for Link {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Link {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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
