//! A client that has sent everything already and reads everything at once, so that a server runs
//! without a socket and never waits for it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The client's side of a connection.
pub(crate) struct WrittenClient {
    sent: Vec<u8>,
    read: usize,
    /// The most bytes of one read.
    piece: usize,
    received: ReceivedBytes,
}

/// The bytes that a server has sent so far.
#[derive(Clone, Default)]
pub(crate) struct ReceivedBytes(Arc<Mutex<Vec<u8>>>);

impl ReceivedBytes {
    pub(crate) fn take(&self) -> Vec<u8> {
        let received = self.0.lock();
        std::mem::take(&mut received.unwrap_or_else(PoisonError::into_inner))
    }
}

impl WrittenClient {
    /// A client that sends these bytes and then closes; and what it will have received.
    pub(crate) fn new(sent: &[u8]) -> (Self, ReceivedBytes) {
        Self::in_pieces(sent, usize::MAX)
    }

    /// The same, of which no read gets more than `piece` bytes.
    pub(crate) fn in_pieces(sent: &[u8], piece: usize) -> (Self, ReceivedBytes) {
        let received = ReceivedBytes::default();
        let client = Self {
            sent: sent.to_vec(),
            read: 0,
            piece,
            received: received.clone(),
        };
        (client, received)
    }
}

impl AsyncRead for WrittenClient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let unread = &self.sent[self.read..];
        let room = buf.remaining();
        let length = unread.len().min(room).min(self.piece);
        buf.put_slice(&unread[..length]);
        self.read += length;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WrittenClient {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut received = self
            .received
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        received.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
