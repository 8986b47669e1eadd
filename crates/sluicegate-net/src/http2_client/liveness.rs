//! Finds connections of HTTP/2 that hang: the server is stopped, or nothing reaches it any more.
//!
//! While requests wait and nothing has come for a while, a PING is sent. If nothing comes after that
//! either, not even its answer, the connection is ended: the requests on it fail, and the next one
//! opens another. The ping is written between two frames of the library that speaks HTTP/2: it
//! flushes the stream only when it has written whole frames, and ignores the answer to a ping that
//! is not its own.
//!
//! Servers of gRPC end connections that ping too often while they have nothing to send: with the
//! third ping that comes within five minutes of the one before. So of one long silence only the
//! beginning is watched closely.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::StreamSlots;
use crate::transport::Transport;

/// Silence before the first ping, and before those after it that were answered.
const SILENCE: [Duration; 4] = [
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(60),
    // More than five minutes, from here on.
    Duration::from_secs(310),
];
/// Time for an answer to a ping.
const ANSWER: Duration = Duration::from_secs(5);

/// A PING with data of our own, and its answer (RFC 9113, section 6.7).
const PING: &[u8; 17] = b"\0\0\x08\x06\0\0\0\0\0sluiceok";
const PONG: &[u8; 17] = b"\0\0\x08\x06\x01\0\0\0\0sluiceok";

/// The time at which the last bytes came over a connection.
pub(super) struct Silence {
    opened: Instant,
    /// Milliseconds from then to the last bytes.
    last_read_ms: AtomicU64,
}

impl Silence {
    pub(super) fn new() -> Self {
        Self {
            opened: Instant::now(),
            last_read_ms: AtomicU64::new(0),
        }
    }

    /// Returns true when nothing has come since this time.
    pub(super) fn is_since(&self, time: Instant) -> bool {
        self.last_read() < time
    }

    fn last_read(&self) -> Instant {
        self.opened + Duration::from_millis(self.last_read_ms.load(Relaxed))
    }

    fn record(&self, now: Instant) {
        let since = now.saturating_duration_since(self.opened);
        self.last_read_ms.store(since.as_millis() as u64, Relaxed);
    }
}

/// A server's stream that fails when the server gives no sign of life.
pub(super) struct LivenessCheck<P> {
    stream: Transport,
    streams: Arc<StreamSlots>,
    silence: Arc<Silence>,
    /// Pings since something else than the answer to one has come.
    pings: usize,
    /// Bytes of a ping that are to be written.
    unwritten: &'static [u8],
    /// The time by which something must come.
    answer_by: Option<Instant>,
    /// The next time to look at the clock.
    timer: Pin<Box<Sleep>>,
    /// Held until the connection is closed.
    _slot: P,
}

impl<P> LivenessCheck<P> {
    pub(super) fn new(
        stream: Transport,
        slot: P,
        streams: Arc<StreamSlots>,
        silence: Arc<Silence>,
    ) -> Self {
        Self {
            stream,
            streams,
            silence,
            pings: 0,
            unwritten: &[],
            answer_by: None,
            timer: Box::pin(sleep_until(Instant::now() + SILENCE[0])),
            _slot: slot,
        }
    }

    /// Records that these bytes came. Returns false if they are an answer to our ping: the library
    /// would log a warning about it, which it does if it comes together with others.
    fn record(&mut self, bytes: &[u8]) -> bool {
        self.silence.record(Instant::now());
        self.answer_by = None;
        let is_pong = bytes == PONG;
        if !is_pong {
            self.pings = 0;
        }
        !is_pong
    }

    /// Ready with an error when the server gives no sign of life.
    fn poll_silence(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let now = Instant::now();
            if self.answer_by.is_some_and(|latest| latest <= now) {
                let words = "the server gives no sign of life";
                return Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, words));
            }
            let next = self.next_look(now);
            self.timer.as_mut().reset(next);
        }
    }

    /// Sends a ping if it is time, and returns when to look again.
    fn next_look(&mut self, now: Instant) -> Instant {
        if let Some(latest) = self.answer_by {
            return latest;
        }
        let silence = SILENCE[self.pings.min(SILENCE.len() - 1)];
        let ping_at = self.silence.last_read() + silence;
        if self.streams.used() == 0 {
            // Nobody waits for anything, so silence means nothing.
            return now + SILENCE[0];
        }
        if now < ping_at {
            return ping_at.min(now + SILENCE[0]);
        }
        self.pings += 1;
        self.unwritten = PING;
        self.answer_by = Some(now + ANSWER);
        now + ANSWER
    }
}

impl<P: Unpin> AsyncRead for LivenessCheck<P> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        loop {
            match Pin::new(&mut self.stream).poll_read(cx, buf) {
                Poll::Pending => return self.poll_silence(cx).map(Err),
                Poll::Ready(Ok(())) if !self.record(&buf.filled()[before..]) => {
                    buf.set_filled(before);
                }
                other => return other,
            }
        }
    }
}

impl<P: Unpin> AsyncWrite for LivenessCheck<P> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.as_mut().poll_ping_begun(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.as_mut().poll_ping_begun(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Called between two frames only, which is where a ping may begin.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.as_mut().poll_ping(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<P: Unpin> LivenessCheck<P> {
    /// Writes what is left of a ping.
    fn poll_ping(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unwritten.is_empty() {
            let unwritten = self.unwritten;
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, unwritten))?;
            self.unwritten = &unwritten[written..];
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the rest of a ping that was written in part: a frame cannot begin within it.
    fn poll_ping_begun(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.unwritten.len() {
            0 | 17 => Poll::Ready(Ok(())),
            _ => self.poll_ping(cx),
        }
    }
}
