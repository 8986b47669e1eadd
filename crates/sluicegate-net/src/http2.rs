//! Requests over HTTP/2. hyper speaks the protocol; here are its bounds, and the accounting that
//! timeouts need. [`crate::stream_clocks`] has the clock of each stream.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use sluicegate_config::Bounds;

use crate::handler::{Connection, Handler, IncomingRequest, ResponseBody};
use crate::request_body::ClientBody;
use crate::stream_clocks::{STREAMS_MAX, SentPart, StreamClock, StreamClocks};
use crate::validate;

/// A server of HTTP/2 whose memory for one client is bounded: streams, header bytes, and bytes of
/// bodies. Of these, one half is for what comes and the other for what is sent.
pub(crate) fn builder(
    bounds: &Bounds,
    buffered_bytes_max: usize,
) -> (http2::Builder<StreamExecutor>, Arc<StreamClocks>) {
    let half = buffered_bytes_max / 2;
    let clocks = StreamClocks::new(half);
    let window = u32::try_from(half).unwrap_or(u32::MAX >> 1);
    let mut builder = http2::Builder::new(StreamExecutor(Arc::clone(&clocks)));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(100)
        .max_header_list_size(u32::try_from(bounds.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(window)
        .initial_connection_window_size(window)
        .max_send_buf_size(clocks.part_max());
    (builder, clocks)
}

/// Runs each stream in a task that its clock can end.
#[derive(Clone)]
pub(crate) struct StreamExecutor(Arc<StreamClocks>);

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    /// hyper calls this right after the service that began the stream.
    fn execute(&self, future: F) {
        self.0.run(future);
    }
}

/// Answers one request.
pub(crate) async fn answer<H: Handler>(
    connection: Arc<Connection<H>>,
    clock: Arc<StreamClock>,
    request: Request<Incoming>,
) -> Result<Response<StreamBody<H>>, Infallible> {
    let guard = StreamGuard::new(connection, clock);
    let (parts, body) = request.into_parts();
    let request = IncomingRequest {
        end: validate::body_end(&parts),
        parts,
        body: ClientBody::Stream(body),
    };
    let response = H::handle(&guard.connection, request).await;
    let response = response.map(|body| StreamBody {
        body,
        guard,
        end: None,
    });
    Ok(response.into_response())
}

/// Returns true when it was us who ended the connection, because of what came on it.
pub(crate) fn is_our_end(error: &hyper::Error) -> bool {
    let cause = error
        .source()
        .and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| cause.is_go_away() && cause.is_library())
}

/// A request that is being answered. Dropped with its response's body, or before that if the
/// client resets the stream.
struct StreamGuard<H> {
    connection: Arc<Connection<H>>,
    clock: Arc<StreamClock>,
}

impl<H> StreamGuard<H> {
    /// Begins a request on this connection.
    fn new(connection: Arc<Connection<H>>, clock: Arc<StreamClock>) -> Self {
        connection.activity.begin_request();
        Self { connection, clock }
    }

    fn initial_window(&self) -> u32 {
        self.connection.activity.initial_window()
    }
}

impl<H> Drop for StreamGuard<H> {
    fn drop(&mut self) {
        self.clock.forget_task();
        self.connection.activity.end_request();
    }
}

/// A response's body whose bytes are counted until they have left. Over HTTP/1 the socket shows
/// what a client has yet to read; over HTTP/2 each stream has a window of its own.
pub(crate) struct StreamBody<H: Handler> {
    body: H::Body,
    guard: StreamGuard<H>,
    /// The end of the body, which is held back while the client may leave the rest unread.
    end: Option<HeldEnd>,
}

/// The end of a body.
enum HeldEnd {
    Bare,
    Trailers(HeaderMap),
}

impl<H: Handler> Body for StreamBody<H> {
    type Data = SentPart;
    type Error = <H::Body as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<SentPart>, Self::Error>>> {
        let Self { body, guard, end } = &mut *self;
        if end.is_none() {
            let room = ready!(guard.clock.poll_room(cx));
            body.limit_next_part(room);
            let frame = ready!(Pin::new(body).poll_frame(cx)).transpose()?;
            match frame.map(Frame::into_data) {
                Some(Ok(data)) => {
                    let part = guard.clock.hand_over(data);
                    return Poll::Ready(Some(Ok(Frame::data(part))));
                }
                Some(Err(other)) => {
                    let trailers = other.into_trailers();
                    *end = Some(trailers.map_or(HeldEnd::Bare, HeldEnd::Trailers));
                }
                None => *end = Some(HeldEnd::Bare),
            }
        }
        ready!(guard.clock.poll_end(cx, guard.initial_window()));
        Poll::Ready(match end.take() {
            Some(HeldEnd::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Some(HeldEnd::Bare) | None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        let Self { body, guard, end } = self;
        let is_over = end.is_none() && body.is_end_stream();
        is_over && guard.clock.may_end(guard.initial_window())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
