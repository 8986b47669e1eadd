//! Connections to servers that speak HTTP/2: one for each thread and server, with many requests at
//! a time.
//!
//! The server says how many streams it allows; requests beyond wait for a bounded time. A connection
//! that has ended, or that the server wants to end, is replaced by the next request; one that hangs
//! is found by pings (`liveness.rs`).

mod liveness;

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::Notify;
use tokio::time::Instant;

use self::liveness::{LivenessCheck, Silence};
use crate::request_body::ForwardedBody;
use crate::slots::{Grant, Slot, Slots};
use crate::transport::Transport;

thread_local! {
    /// Open connections by the number of their server. Each thread has its own.
    static OPEN: RefCell<HashMap<usize, Http2Connection>> = RefCell::new(HashMap::new());
}

/// An open connection; clones share it.
#[derive(Clone)]
pub struct Http2Connection {
    sender: SendRequest<ForwardedBody>,
    server: Option<usize>,
    streams: Arc<StreamSlots>,
    silence: Arc<Silence>,
    /// A stream has ended: time to look again how many the server allows.
    stream_ended: Arc<Notify>,
}

/// The streams that the server allows. Nothing is handed over.
type StreamSlots = Slots<Infallible>;

/// Streams that are allowed until the server has said how many it wants (RFC 9113, section 6.5.2).
const STREAMS_AT_FIRST: usize = 100;

/// The open connection of this thread to a server; `None` also if the server has no number.
pub fn open_connection(server: Option<usize>) -> Option<Http2Connection> {
    let server = server?;
    OPEN.with_borrow_mut(|open| match open.get(&server) {
        Some(connection) if connection.sender.is_closed() => {
            open.remove(&server);
            None
        }
        known => known.cloned(),
    })
}

/// Starts HTTP/2 over a new connection, which holds `slot` until it is closed. If the server has a
/// number, later requests of this thread share the connection.
pub async fn start(
    stream: Transport,
    server: Option<usize>,
    slot: impl Send + Unpin + 'static,
) -> Result<Http2Connection, hyper::Error> {
    const WINDOW: u32 = 1 << 20;
    let max = Arc::new(AtomicUsize::new(STREAMS_AT_FIRST));
    let streams = Arc::new(Slots::new(Arc::clone(&max)));
    let silence = Arc::new(Silence::new());
    let checked = LivenessCheck::new(stream, slot, Arc::clone(&streams), Arc::clone(&silence));
    let (sender, mut connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_max_send_streams(STREAMS_AT_FIRST)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .handshake(TokioIo::new(checked))
        .await?;
    let stream_ended = Arc::new(Notify::new());
    let ended = Arc::clone(&stream_ended);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = &mut connection => return,
                () = ended.notified() => {}
            }
            max.store(connection.current_max_send_streams(), Relaxed);
        }
    });
    let connection = Http2Connection {
        sender,
        server,
        streams,
        silence,
        stream_ended,
    };
    if let Some(server) = server {
        OPEN.with_borrow_mut(|open| open.insert(server, connection.clone()));
    }
    Ok(connection)
}

impl Http2Connection {
    /// Opens a stream, if the server allows one more.
    pub fn try_stream(&self) -> Option<OpenStream> {
        self.streams.try_take().map(|slot| self.stream(slot))
    }

    /// Opens a stream, and waits until the server allows one more.
    pub async fn wait_for_stream(&self, wait: Duration) -> Option<OpenStream> {
        match self.streams.take(wait).await {
            Ok(Grant::Slot(slot)) => Some(self.stream(slot)),
            Ok(Grant::HandedOver(never)) => match never {},
            Err(_) => None,
        }
    }

    fn stream(&self, slot: Slot<Infallible>) -> OpenStream {
        OpenStream {
            connection: self.clone(),
            slot: StreamSlot {
                _slot: slot,
                ended: Arc::clone(&self.stream_ended),
            },
        }
    }

    /// Lets later requests open another connection if nothing has come over this one since `begun`.
    pub fn retire_if_silent(&self, begun: Instant) {
        if self.silence.is_since(begun) {
            self.retire();
        }
    }

    /// Lets later requests open another connection. Those on this one go on.
    fn retire(&self) {
        let Some(server) = self.server else { return };
        let is_same = |other: &Self| Arc::ptr_eq(&other.streams, &self.streams);
        OPEN.with_borrow_mut(|open| {
            if open.get(&server).is_some_and(is_same) {
                open.remove(&server);
            }
        });
    }
}

/// The right to send one request over a connection.
pub struct OpenStream {
    connection: Http2Connection,
    slot: StreamSlot,
}

/// Counts a stream until it is over.
struct StreamSlot {
    _slot: Slot<Infallible>,
    ended: Arc<Notify>,
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.ended.notify_one();
    }
}

/// Reason why a request over HTTP/2 has no response.
pub enum Http2Error {
    /// The connection was at its end, and nothing of the request was sent.
    Unsent(Box<Request<ForwardedBody>>),
    /// It failed afterwards.
    Failed(hyper::Error),
}

impl OpenStream {
    /// The connection of this stream.
    pub fn connection(&self) -> &Http2Connection {
        &self.connection
    }

    /// Sends a request, and waits for the head of its response.
    pub async fn send(
        self,
        request: Request<ForwardedBody>,
    ) -> Result<Response<Http2Body>, Http2Error> {
        let Self {
            mut connection,
            slot,
        } = self;
        match connection.sender.try_send_request(request).await {
            Ok(response) => Ok(response.map(|body| Http2Body { body, _slot: slot })),
            Err(mut error) => match error.take_message() {
                Some(unsent) => {
                    // The server has said with GOAWAY that it takes no more.
                    connection.retire();
                    Err(Http2Error::Unsent(Box::new(unsent)))
                }
                None => Err(Http2Error::Failed(error.into_error())),
            },
        }
    }
}

/// The body of a response over HTTP/2. Its stream counts until it is dropped.
pub struct Http2Body {
    body: Incoming,
    _slot: StreamSlot,
}

impl Body for Http2Body {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
