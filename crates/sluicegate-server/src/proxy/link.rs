//! A connection to a server, encrypted or not.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::client::TlsStream;

use super::upstream::Server;
use crate::external::BackendPolicy;

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
            Some((connector, name)) => Ok(Self::Tls(Box::new(
                connector.connect(name.clone(), stream).await?,
            ))),
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
    let Some(policy) = &server.policy else {
        return TcpStream::connect(target).await;
    };
    // What a name means now is what is checked, and what is checked is what is dialled.
    first_of(lookup_host(target).await?, policy).await
}

/// A connection to the first of these addresses that may be dialled and answers.
async fn first_of(
    addresses: impl Iterator<Item = SocketAddr>,
    policy: &BackendPolicy,
) -> io::Result<TcpStream> {
    let mut last = io::Error::new(
        io::ErrorKind::PermissionDenied,
        "no address of the backend may be dialled",
    );
    for address in addresses.filter(|address| policy.may_dial(address.ip())) {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl AsyncRead for Link {
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

impl AsyncWrite for Link {
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

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use sluicegate_config::BackendUrlSettings;
    use tokio::net::TcpListener;

    use super::*;

    /// A name server that says something else each time, and always something inside.
    fn rebinding(turn: usize, port: u16) -> Vec<SocketAddr> {
        const INSIDE: [&str; 12] = [
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "::",
            "10.0.0.1",
            "169.254.169.254",
            "64:ff9b::7f00:1",
            "fd00::1",
            "fe80::1",
            "192.168.1.1",
        ];
        let address = |place: usize| INSIDE[place % INSIDE.len()].parse::<IpAddr>().unwrap();
        (turn..turn + 3)
            .map(|place| SocketAddr::new(address(place), port))
            .collect()
    }

    #[tokio::test]
    async fn whatever_a_name_means_this_time_nothing_inside_is_dialled() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let careful = BackendPolicy::new(&BackendUrlSettings::default());
        for turn in 0..60 {
            let refused = first_of(rebinding(turn, port).into_iter(), &careful)
                .await
                .unwrap_err();
            assert_eq!(
                refused.kind(),
                io::ErrorKind::PermissionDenied,
                "{:?}",
                rebinding(turn, port)
            );
        }
        let nobody = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
        assert!(nobody.is_err(), "somebody was dialled");
        let open = BackendPolicy::new(&BackendUrlSettings {
            deny_private_networks: false,
            ..Default::default()
        });
        assert!(
            first_of(rebinding(0, port).into_iter(), &open)
                .await
                .is_ok(),
            "where it is allowed, it is dialled"
        );
    }
}
