//! A client's connection as bytes: with what was read before it was handed on, and under watch.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::frame_guard::FrameGuard;
use super::watch::{Part, Watch};

/// A connection, encrypted or not.
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection whose first bytes may have been read already.
pub(super) struct ClientIo {
    first: Bytes,
    transport: Transport,
    watch: Arc<Watch>,
    /// Of a connection that speaks HTTP/2.
    guard: Option<FrameGuard>,
}

impl ClientIo {
    pub(super) fn new(
        first: Bytes,
        transport: Transport,
        watch: Arc<Watch>,
        is_http2: bool,
    ) -> Self {
        Self {
            first,
            transport,
            watch,
            guard: is_http2.then(FrameGuard::new),
        }
    }
}

impl ClientIo {
    /// Bytes that were read too early.
    pub(super) fn put_back(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.first = bytes;
        }
    }

    /// Ready when there is something to read, or the client has ended, without taking it.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            return Poll::Ready(Ok(()));
        }
        self.transport.socket().poll_read_ready(cx)
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            let length = self.first.len().min(buf.remaining());
            let first = self.first.split_to(length);
            buf.put_slice(&first);
            return Poll::Ready(self.look(&first));
        }
        let before = buf.filled().len();
        ready!(self.transport.poll_read(cx, buf))?;
        let bytes = &buf.filled()[before..];
        let looked = self.look(bytes);
        let is_whole = self.guard.as_ref().is_some_and(|guard| !guard.is_within());
        self.watch.has_read(
            bytes.len(),
            if is_whole {
                Part::Frames
            } else {
                Part::Unfinished
            },
        );
        Poll::Ready(looked)
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = self.transport.with(|io| io.poll_write(cx, bytes));
        self.note(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = self.transport.with(|io| io.poll_write_vectored(cx, slices));
        self.note(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        matches!(self.transport, Transport::Plain(_))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.with(|io| io.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.transport.with(|io| io.poll_shutdown(cx))
    }
}

impl ClientIo {
    fn look(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.guard {
            None => Ok(()),
            Some(guard) => guard
                .look(bytes, self.watch.bytes_written())
                .map_err(|flood| {
                    self.watch.has_flooded();
                    io::Error::other(flood)
                }),
        }
    }

    fn note(&self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &wrote {
            Poll::Ready(Ok(bytes)) => self.watch.has_written(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.watch.cannot_write(),
        }
        wrote
    }
}

impl Drop for ClientIo {
    /// The system would keep what is unread, and offer it to the client again and again.
    fn drop(&mut self) {
        if self.watch.is_given_up() {
            let _ = self.transport.socket().set_zero_linger();
        }
    }
}

impl Transport {
    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }

    fn with<T>(&mut self, write: impl FnOnce(Pin<&mut (dyn AsyncWrite + Unpin)>) -> T) -> T {
        match self {
            Self::Plain(stream) => write(Pin::new(stream)),
            Self::Tls(stream) => write(Pin::new(&mut **stream)),
        }
    }
}
