//! A stream of bytes, encrypted or not.
//!
//! Which server is dialled, at which of its addresses, and how long that may take is decided by the
//! one who dials; how a client's stream begins is in `connection/opening.rs`.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::pki_types::ServerName;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, TlsStream};

/// A stream after its handshake, to a client or to a server.
pub enum Transport {
    /// A bare socket.
    Plain(TcpStream),
    /// A socket with TLS on it.
    Tls(Box<TlsStream<TcpStream>>),
    /// Any other stream, such as a pipe within this process.
    Other(Box<dyn ByteStream>),
}

/// A stream of bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

impl Transport {
    /// Returns true when the stream is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Prepares a socket that is connected to a server: small writes go at once, and TLS is agreed
    /// on if wanted. The name is the one that the server's certificate must have.
    pub async fn to_server(
        socket: TcpStream,
        tls: Option<&(TlsConnector, ServerName<'static>)>,
    ) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        match tls {
            None => Ok(Self::Plain(socket)),
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), socket).await?;
                Ok(Self::Tls(Box::new(stream.into())))
            }
        }
    }

    /// Returns true when HTTP/2 was chosen in the handshake.
    pub fn chose_http2(&self) -> bool {
        match self {
            Self::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
            Self::Plain(_) | Self::Other(_) => false,
        }
    }

    /// The name that the client asked for in its handshake, lower case; `None` without TLS, without
    /// a name, and on a stream to a server.
    pub(crate) fn client_server_name(&self) -> Option<Box<str>> {
        let Self::Tls(stream) = self else { return None };
        let TlsStream::Server(stream) = &**stream else {
            return None;
        };
        let name = stream.get_ref().1.server_name()?;
        Some(name.to_ascii_lowercase().into())
    }

    /// The TCP socket, if there is one.
    pub(crate) fn socket(&self) -> Option<&TcpStream> {
        match self {
            Self::Plain(stream) => Some(stream),
            Self::Tls(stream) => Some(stream.get_ref().0),
            Self::Other(_) => None,
        }
    }

    /// Returns true when bytes have come that were not read yet. The system is asked too, because
    /// the runtime learns of them later. Of streams without a socket nobody can know.
    pub fn has_unread(&mut self) -> bool {
        if let Self::Tls(stream) = self
            && decrypted_bytes(stream) > 0
        {
            return true;
        }
        let mut byte = [MaybeUninit::uninit()];
        self.socket()
            .is_some_and(|socket| matches!(SockRef::from(socket).peek(&mut byte), Ok(1..)))
    }

    /// Holds written bytes back until the stream is shut down, so that the peer receives them
    /// together with the end: it cannot send anything in between. Where the system cannot do that
    /// they are sent at once, as usual.
    pub fn hold_until_shutdown(&self) {
        #[cfg(target_os = "linux")]
        if let Some(socket) = self.socket() {
            let _ = SockRef::from(socket).set_tcp_cork(true);
        }
    }

    /// Calls `write` with whichever stream this is.
    fn with<T>(&mut self, write: impl FnOnce(Pin<&mut (dyn AsyncWrite + Unpin)>) -> T) -> T {
        match self {
            Self::Plain(stream) => write(Pin::new(stream)),
            Self::Tls(stream) => write(Pin::new(&mut **stream)),
            Self::Other(stream) => write(Pin::new(&mut **stream)),
        }
    }
}

/// Bytes that were decrypted and not read yet.
fn decrypted_bytes(stream: &mut TlsStream<TcpStream>) -> usize {
    let state = match stream {
        TlsStream::Client(stream) => stream.get_mut().1.process_new_packets(),
        TlsStream::Server(stream) => stream.get_mut().1.process_new_packets(),
    };
    state.map_or(0, |state| state.plaintext_bytes_to_read())
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Other(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Transport {
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

    /// TLS copies everything into records, so nothing is gained by passing it several slices.
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
