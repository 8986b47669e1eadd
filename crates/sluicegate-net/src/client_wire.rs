//! A client's connection of HTTP/1: the bytes that have come, the request that they belong to, and
//! the stream behind them.
//!
//! Two parties read from it by turns: the server loop in `http1.rs` reads heads, and the body of
//! the request that is being answered reads itself. Both hold the same [`ClientWire`]. They are
//! polled by one task, so its lock is never contended; it is there because the body may be handed
//! to code that requires `Send`.
//!
//! **Invariant:** while a request is answered, nothing of the next one is looked at; it waits in
//! [`WireState::input`].

mod body;
mod request_head;

pub use body::WireBody;
pub(crate) use request_head::{HeadError, ReplyOptions, RequestHead, RequestHeadReader};

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use sluicegate_config::Bounds;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::activity::{Activity, ReadKind};
use crate::client_io::ClientIo;
use crate::lingering::Lingering;
use crate::request_parts::RequestParts;
use crate::wire::Framing;

/// A client's connection. Clones share it: the server loop has one, and so has the body of the
/// request that is being answered.
#[derive(Clone)]
pub(crate) struct ClientWire(Arc<SharedWire>);

struct SharedWire {
    state: Mutex<WireState>,
    /// A [`WireEnd`] as a number.
    end: AtomicU8,
}

/// Manner in which a connection comes to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WireEnd {
    /// It does not: requests are read for as long as the client sends them.
    Open,
    /// Requests that have come are answered, and one more is waited for. The last answer tells the
    /// client that the connection closes.
    Draining,
    /// The same without the wait.
    Closing,
}

pub(crate) struct WireState {
    io: Box<ClientIo>,
    /// Bytes that have come and belong to nobody yet.
    input: BytesMut,
    head_reader: RequestHeadReader,
    /// End of the body of the request that is being answered.
    body: Framing,
    /// The client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
    /// The body's chunks are malformed: its end, and so the next request, cannot be found.
    is_body_end_lost: bool,
    /// Requests that are still answered when the connection ends, if the client has sent so many.
    last_requests: u8,
}

/// Bytes of memory for a head and a short body.
const ROOM: usize = 4 * 1024;

impl ClientWire {
    pub(crate) fn new(io: Box<ClientIo>) -> Self {
        let state = WireState {
            io,
            input: BytesMut::new(),
            head_reader: RequestHeadReader::default(),
            body: Framing::EMPTY,
            expects_continue: false,
            is_body_end_lost: false,
            last_requests: u8::MAX,
        };
        Self(Arc::new(SharedWire {
            state: Mutex::new(state),
            end: AtomicU8::new(WireEnd::Open as u8),
        }))
    }

    /// Lets the connection come to its end; it never goes back to an earlier step.
    pub(crate) fn end(&self, end: WireEnd) {
        self.0.end.fetch_max(end as u8, Ordering::Relaxed);
    }

    fn has_reached(&self, end: WireEnd) -> bool {
        self.0.end.load(Ordering::Relaxed) >= end as u8
    }

    /// Returns true when another request may follow the one that is being answered. Once the
    /// connection ends that is one that has come already, here or in the system: its client has
    /// sent it before it could know. A client that never stops sending is told all the same.
    pub(crate) fn takes_another(&self) -> bool {
        let mut state = self.state();
        if state.expects_continue || state.is_body_end_lost {
            return false;
        }
        if !self.has_reached(WireEnd::Draining) {
            return true;
        }
        let has_come = state.body.is_over() && state.has_unread();
        has_come
            && state.last_requests.checked_sub(1).is_some_and(|left| {
                state.last_requests = left;
                true
            })
    }

    /// Returns true when bytes behind the current request have been read. Asks nobody for more.
    pub(crate) fn has_buffered(&self) -> bool {
        !self.state().input.is_empty()
    }

    /// The stream alone, which takes less memory while nothing comes; the same connection if the
    /// body of a request still shares it. To be called between two requests.
    pub(crate) fn into_io(self) -> Result<Box<ClientIo>, Self> {
        let shared = Arc::try_unwrap(self.0).map_err(Self)?;
        let mut state = (shared.state.into_inner()).unwrap_or_else(PoisonError::into_inner);
        state.io.put_back(state.input.freeze());
        Ok(state.io)
    }

    /// Reads the next request's head into `parts`; `None` when there is none and the connection is
    /// closing. `keeps_bytes` tells whether a head keeps the bytes it was read from.
    pub(crate) async fn read_head(
        &self,
        activity: &Activity,
        bounds: &Bounds,
        keeps_bytes: impl Fn() -> bool,
        parts: &mut RequestParts,
    ) -> Result<Option<RequestHead>, HeadError> {
        // Some of it may have come while the last request was answered; its time runs from now.
        if !self.state().input.is_empty() {
            activity.record_read(0, ReadKind::Partial);
        }
        poll_fn(|cx| self.poll_head(cx, bounds, &keeps_bytes, parts)).await
    }

    fn poll_head(
        &self,
        cx: &mut Context<'_>,
        bounds: &Bounds,
        keeps_bytes: impl Fn() -> bool,
        parts: &mut RequestParts,
    ) -> Poll<Result<Option<RequestHead>, HeadError>> {
        let mut state = self.state();
        loop {
            let WireState {
                head_reader, input, ..
            } = &mut *state;
            if let Some(head) = head_reader.take(input, bounds, &keeps_bytes, parts)? {
                return Poll::Ready(Ok(Some(head)));
            }
            if self.has_reached(WireEnd::Closing) && !state.has_unread() {
                return Poll::Ready(Ok(None));
            }
            match ready!(state.poll_read(cx, ROOM)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(HeadError::Closed)),
                Ok(_) => {}
            }
        }
    }

    /// Prepares for the body that follows a head; returns true when there is one.
    pub(crate) fn begin_body(&self, framing: Framing, expects_continue: bool) -> bool {
        let mut state = self.state();
        state.expects_continue = expects_continue;
        state.body = framing;
        !state.body.is_over()
    }

    /// Returns true when the whole body of the current request was read.
    pub(crate) fn is_body_over(&self) -> bool {
        self.state().body.is_over()
    }

    /// Waits for `future`; `None` if the client closes the connection first. As long as a part of
    /// the body is unread nobody can know, and the future is simply awaited.
    pub(crate) async fn unless_closed<F: Future>(
        &self,
        mut future: Pin<&mut F>,
    ) -> Option<F::Output> {
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.state().poll_closed(cx).map(|()| None),
        })
        .await
    }

    /// Gives bytes that came after a head back to the stream, for a protocol that is not HTTP.
    pub(crate) fn put_back(&self) {
        let mut state = self.state();
        let unread = state.input.split().freeze();
        state.io.put_back(unread);
    }

    /// Ends the connection after a response. Only a client that has asked for the end, and whose
    /// bytes are all read, can be relied on to send no more; others are waited for.
    pub(crate) async fn close(&self, is_asked_for: bool) {
        let is_all_read = {
            let mut state = self.state();
            state.body.is_over() && !state.has_unread()
        };
        if is_asked_for && is_all_read {
            let _ = self.clone().shutdown().await;
        } else {
            self.linger().await;
        }
    }

    /// Tells the client that no more comes, and discards what it sends until it closes too, or for
    /// a while.
    pub(crate) async fn linger(&self) {
        let _ = Lingering::new(self.clone()).shutdown().await;
    }

    fn state(&self) -> MutexGuard<'_, WireState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WireState {
    /// Ready when the client has closed. Bytes that come instead are kept for the next request;
    /// one read of them is enough, so that a client cannot fill our memory.
    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.body.is_over() || !self.input.is_empty() {
            return Poll::Pending;
        }
        match ready!(self.poll_read(cx, 1)) {
            Ok(0) | Err(_) => Poll::Ready(()),
            Ok(_) => Poll::Pending,
        }
    }

    /// Returns true when bytes have come that nobody has looked at.
    fn has_unread(&mut self) -> bool {
        !self.input.is_empty() || self.io.has_unread()
    }

    /// Reads once into `input`, which has space for at least one byte, and for `room` if it is
    /// empty.
    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        let free = self.input.capacity() - self.input.len();
        if free == 0 || free < room && self.input.is_empty() {
            self.input.reserve(room.max(ROOM));
        }
        pin!(self.io.read_buf(&mut self.input)).poll(cx)
    }
}

impl AsyncRead for ClientWire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.state().io).poll_read(cx, buf)
    }
}

impl AsyncWrite for ClientWire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.state().io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.state().io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.state().io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.state().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.state().io).poll_shutdown(cx)
    }
}
