//! A client's connection as bytes, every one of which is recorded in its activity.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::activity::{Activity, ReadKind};
use crate::transport::Transport;

/// A client's stream that records what is read and written in an [`Activity`].
pub(crate) struct ClientIo {
    /// Bytes that were read before, to be read again first.
    first: Bytes,
    transport: Transport,
    activity: Arc<Activity>,
    /// Whoever reads frames finds out by itself where they end.
    is_http2: bool,
}

impl ClientIo {
    /// Wraps a stream. `first` are the bytes that were read from it to find out its protocol.
    pub(crate) fn new(
        first: Bytes,
        transport: Transport,
        activity: Arc<Activity>,
        is_http2: bool,
    ) -> Self {
        Self {
            first,
            transport,
            activity,
            is_http2,
        }
    }

    /// Gives back bytes that were read too early. They are not recorded a second time.
    pub(crate) fn put_back(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.first = bytes;
        }
    }

    /// Returns true when bytes of the client are waiting, here or in the system.
    pub(crate) fn has_unread(&mut self) -> bool {
        !self.first.is_empty() || self.transport.has_unread()
    }

    /// Ready when there is something to read, or the client has closed. Of a socket nothing is
    /// taken, so no buffer is needed while it waits.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.first.is_empty() {
            return Poll::Ready(Ok(()));
        }
        match self.transport.socket() {
            Some(socket) => socket.poll_read_ready(cx),
            None => self.poll_read_ahead(cx),
        }
    }

    /// Reads a little and puts it back: other streams cannot be asked without reading.
    fn poll_read_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; 256];
        let mut buf = ReadBuf::new(&mut bytes);
        ready!(Pin::new(&mut self.transport).poll_read(cx, &mut buf))?;
        self.record(buf.filled().len());
        self.put_back(Bytes::copy_from_slice(buf.filled()));
        Poll::Ready(Ok(()))
    }

    /// Records bytes that came.
    fn record(&self, bytes: usize) {
        if self.is_http2 {
            self.activity.record_bytes(bytes);
        } else {
            self.activity.record_read(bytes, ReadKind::Partial);
        }
    }

    /// Records the result of a write. `Pending` means that the client's buffers are full.
    fn record_write(&self, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &wrote {
            Poll::Ready(Ok(bytes)) => self.activity.record_write(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.activity.record_blocked_write(),
        }
        wrote
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
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.transport).poll_read(cx, buf))?;
        self.record(buf.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.transport).poll_write(cx, bytes);
        self.record_write(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.transport).poll_write_vectored(cx, slices);
        self.record_write(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.transport.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.transport).poll_shutdown(cx)
    }
}

impl Drop for ClientIo {
    /// Resets the connection of a client that does not read: the system would keep the unread
    /// bytes, and offer them to the client again and again.
    fn drop(&mut self) {
        if self.activity.is_given_up()
            && let Some(socket) = self.transport.socket()
        {
            let _ = socket.set_zero_linger();
        }
    }
}
