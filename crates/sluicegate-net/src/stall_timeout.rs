//! A stream that fails when its peer reads nothing.
//!
//! For protocols that have no [`crate::HttpServer`] around them: a peer that sends requests and
//! never reads the responses would hold its connection and their memory for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream whose writes fail with [`io::ErrorKind::TimedOut`] when the peer takes nothing for a
/// while. Reading is left to the protocol.
pub struct StallTimeout<S> {
    stream: S,
    /// Runs out when the peer has been waited for long enough. Boxed, so that the stream stays
    /// [`Unpin`].
    deadline: Pin<Box<Sleep>>,
    /// A write is waiting, and `deadline` was set for it.
    is_waiting: bool,
}

impl<S> StallTimeout<S> {
    /// Longest time without a byte taken.
    pub const LONGEST: Duration = Duration::from_secs(10);

    /// Wraps a stream; no time runs until a write has to wait.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            deadline: Box::pin(sleep(Self::LONGEST)),
            is_waiting: false,
        }
    }

    /// The stream itself.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Passes the result of a write on, or fails when writes have waited for too long.
    fn check<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_waiting = false;
            return written;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.deadline.as_mut().reset(Instant::now() + Self::LONGEST);
        }
        ready!(self.deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.check(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.check(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.check(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_left_and_one_that_takes_a_little_is_not() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = StallTimeout::new(near);
        let taking = tokio::spawn(async move {
            for _ in 0..3 {
                // bounded wait: the clock is paused
                sleep(StallTimeout::<()>::LONGEST * 9 / 10).await;
                far.read_exact(&mut [0; 4]).await.unwrap();
            }
            // bounded wait: the clock is paused
            sleep(StallTimeout::<()>::LONGEST * 10).await;
            drop(far);
        });
        near.write_all(&[0; 16]).await.unwrap();
        let began = Instant::now();
        assert_eq!(
            near.write_all(&[0; 16]).await.unwrap_err().kind(),
            io::ErrorKind::TimedOut
        );
        assert_eq!(
            began.elapsed().as_secs(),
            StallTimeout::<()>::LONGEST.as_secs()
        );
        taking.abort();
    }
}
