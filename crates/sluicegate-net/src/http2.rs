//! Requests over HTTP/2. hyper speaks the protocol; here are its bounds, and the accounting that
//! timeouts need.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sluicegate_config::Bounds;

use crate::handler::{Connection, Handler, IncomingRequest};
use crate::request_body::ClientBody;
use crate::validate;

/// A server of HTTP/2 whose memory for one client is bounded: streams, header bytes, windows and
/// unsent bytes.
pub(crate) fn builder(bounds: &Bounds) -> http2::Builder<TokioExecutor> {
    const WINDOW: u32 = 1 << 20;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(100)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(100)
        .max_header_list_size(u32::try_from(bounds.header_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(256 * 1024);
    builder
}

/// Answers one request.
pub(crate) async fn answer<H: Handler>(
    connection: Arc<Connection<H>>,
    request: Request<Incoming>,
) -> Result<Response<StreamBody<H>>, Infallible> {
    let guard = StreamGuard::new(connection);
    let (parts, body) = request.into_parts();
    let request = IncomingRequest {
        end: validate::body_end(&parts),
        parts,
        body: ClientBody::Stream(body),
    };
    let response = H::handle(&guard.connection, request).await;
    let response = response.map(|body| StreamBody { body, guard });
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
    /// A part of the body was taken for sending and no other has been asked for since: the
    /// client's window is closed.
    is_blocked: bool,
}

impl<H> StreamGuard<H> {
    /// Begins a request on this connection.
    fn new(connection: Arc<Connection<H>>) -> Self {
        connection.activity.begin_request();
        Self {
            connection,
            is_blocked: false,
        }
    }

    /// Tells the activity when this stream begins or ends to wait for the client.
    fn set_blocked(&mut self, is_blocked: bool) {
        if self.is_blocked == is_blocked {
            return;
        }
        self.is_blocked = is_blocked;
        if is_blocked {
            self.connection.activity.block_stream();
        } else {
            self.connection.activity.unblock_stream();
        }
    }
}

impl<H> Drop for StreamGuard<H> {
    fn drop(&mut self) {
        self.set_blocked(false);
        self.connection.activity.end_request();
    }
}

/// A response's body that records when the client does not read it. Over HTTP/1 the socket shows
/// that; over HTTP/2 each stream has a window of its own, and hyper asks for the next part only
/// when there is room for it.
pub(crate) struct StreamBody<H: Handler> {
    body: H::Body,
    guard: StreamGuard<H>,
}

impl<H: Handler> Body for StreamBody<H> {
    type Data = Bytes;
    type Error = <H::Body as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.guard
            .set_blocked(matches!(frame, Poll::Ready(Some(Ok(_)))));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
