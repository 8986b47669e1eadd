//! A stream whose close takes nothing back.
//!
//! A socket that is closed while bytes of the peer are unread, or that receives some afterwards,
//! is reset by the system, and the peer may lose what was sent to it before. So a stream is closed
//! in three steps: the peer is told that nothing more comes, everything that it still sends is
//! read and discarded, and when it has closed too, or has had its time, the socket is closed.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream that lingers when it is shut down: [`AsyncWrite::poll_shutdown`] is ready when the
/// peer has closed too, was silent for [`Self::SILENCE`], or has sent more than anybody must.
pub struct Lingering<S> {
    stream: S,
    /// Present while the stream is being shut down.
    close: Option<Box<LingeringClose>>,
}

/// Progress of a close.
struct LingeringClose {
    /// Runs out when the peer was silent, or has had all of its time.
    timer: Pin<Box<Sleep>>,
    /// End of all of its time.
    latest: Instant,
    /// Bytes that are still discarded.
    bytes_left: usize,
    /// The peer was told.
    is_shut: bool,
}

impl<S> Lingering<S> {
    /// Longest time without a byte of the peer.
    pub const SILENCE: Duration = Duration::from_secs(1);
    /// Longest time altogether.
    pub const LONGEST: Duration = Duration::from_secs(5);
    /// Most bytes that are read.
    pub const BYTES_MAX: usize = 16 * 1024 * 1024;

    /// Wraps a stream; nothing changes before it is shut down.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            close: None,
        }
    }

    /// The stream itself.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

impl LingeringClose {
    fn new() -> Self {
        Self {
            timer: Box::pin(sleep(Lingering::<()>::SILENCE)),
            latest: Instant::now() + Lingering::<()>::LONGEST,
            bytes_left: Lingering::<()>::BYTES_MAX,
            is_shut: false,
        }
    }

    /// Ready when nobody needs to wait any longer. Reads once at a time: a flood that is discarded
    /// must not keep others from their turn.
    fn poll<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_shut {
            ready!(Pin::new(&mut *stream).poll_shutdown(cx))?;
            self.is_shut = true;
            self.restart();
        }
        match self.poll_discard(stream, cx) {
            Poll::Ready(Ok(1..)) if self.bytes_left > 0 => {
                self.restart();
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            // It has closed, it was reset, or it sends without an end.
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => self.timer.as_mut().poll(cx).map(Ok),
        }
    }

    /// Gives the peer time for its next byte.
    fn restart(&mut self) {
        let next = Instant::now() + Lingering::<()>::SILENCE;
        self.timer.as_mut().reset(next.min(self.latest));
    }

    /// Reads once; returns the number of bytes.
    fn poll_discard<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        // Not in the future, because a process that ends closes all of its connections at a time.
        let mut room = [MaybeUninit::uninit(); 32 * 1024];
        let mut buf = ReadBuf::uninit(&mut room);
        ready!(Pin::new(stream).poll_read(cx, &mut buf))?;
        let length = buf.filled().len();
        self.bytes_left = self.bytes_left.saturating_sub(length);
        Poll::Ready(Ok(length))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Self { stream, close } = &mut *self;
        close
            .get_or_insert_with(|| Box::new(LingeringClose::new()))
            .poll(stream, cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    type Close = Lingering<()>;

    /// Time that the close of a stream takes whose peer does this.
    async fn took<P: Future<Output = ()> + Send + 'static>(
        peer: impl FnOnce(tokio::io::DuplexStream) -> P,
    ) -> Duration {
        let (near, far) = duplex(1024);
        let peer = tokio::spawn(peer(far));
        let began = Instant::now();
        let mut near = Lingering::new(near);
        near.write_all(b"the end").await.unwrap();
        near.shutdown().await.unwrap();
        let took = began.elapsed();
        drop(near);
        peer.await.unwrap();
        took
    }

    #[tokio::test(start_paused = true)]
    async fn it_lasts_until_the_peer_has_closed_too() {
        let took = took(|mut far| async move {
            let mut text = String::new();
            far.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "the end", "it is told at once");
            for _ in 0..3 {
                // bounded wait: the clock is paused
                sleep(Close::SILENCE / 2).await;
                far.write_all(b"late").await.unwrap();
            }
        })
        .await;
        assert_eq!(took, Close::SILENCE * 3 / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_that_is_discarded_lets_others_have_their_turn() {
        const FLOOD: usize = 1 << 20;
        let (near, mut far) = duplex(FLOOD);
        far.write_all(&vec![7; FLOOD]).await.unwrap();
        let mut near = Lingering::new(near);
        let turn = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut near).poll_shutdown(cx)));
        assert!(turn.await.is_pending());
        let mut sent = 0;
        while let Ok(Ok(bytes)) =
            tokio::time::timeout(Duration::from_millis(1), far.write(&[7; 1024])).await
        {
            sent += bytes;
        }
        assert!((1..=64 << 10).contains(&sent), "{sent} bytes in one turn");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_is_silent_or_never_ends_has_its_time_and_no_more() {
        let silent = took(|far| async move {
            // bounded wait: the clock is paused
            sleep(Close::LONGEST * 2).await;
            drop(far);
        });
        assert_eq!(silent.await.as_secs(), Close::SILENCE.as_secs());
        let trickling = took(|mut far| async move {
            while far.write_all(b"a").await.is_ok() {
                // bounded wait: the clock is paused
                sleep(Close::SILENCE / 4).await;
            }
        });
        assert_eq!(trickling.await.as_secs(), Close::LONGEST.as_secs());
        let flooding = took(|mut far| async move {
            let mut bytes = 0;
            while far.write_all(&[7; 1024]).await.is_ok() {
                bytes += 1024;
            }
            assert!((Close::BYTES_MAX..Close::BYTES_MAX + 64 * 1024).contains(&bytes));
        });
        assert!(flooding.await < Close::LONGEST);
    }
}
