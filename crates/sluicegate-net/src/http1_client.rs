//! The HTTP/1 client: requests to servers, over connections that are used again.
//!
//! An exchange is driven by the task of the request that it forwards: polling the response also
//! sends the rest of the request. There is no second task and no channel to one. Idle
//! connections are kept in the pool of the thread (`pool.rs`), or by the client that they belong to
//! (`private.rs`).
//!
//! **Invariant:** an idle connection has sent all of its request and received all of its response.
//! It is checked once more before it is used again, because the server may have closed it meanwhile.
//!
//! **Invariant:** a connection on which a client has authenticated itself serves no other client.

mod pool;
mod private;
mod request;
mod response_head;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, Sleep, sleep_until};

pub use self::private::PrivateConnections;
#[cfg(feature = "fuzz-internals")]
pub(crate) use self::response_head::take as take_response_head;

use self::response_head::ReceivedHead;
use crate::body_error::BodyError;
use crate::request_body::ForwardedBody;
use crate::response::HttpResponse;
use crate::slots::{Grant, Slot, Slots};
use crate::transport::Transport;
use crate::upgrade::SwitchedServer;
use crate::wire::{Decoded, Framing, HeaderText, Outgoing, SendError};

/// A connection to a server, for one request and its response at a time.
pub struct Exchange(Box<ServerWire>);

/// The connections that may be open to one server, of all threads.
pub type ConnectionSlots = Slots<Exchange>;
/// The permission to open a connection to a server. It is held until the connection is closed.
pub type ConnectionSlot = Slot<Exchange>;
/// A connection to a server that was waited for: the permission for one, or one that became idle.
pub type ConnectionGrant = Grant<Exchange>;

struct ServerWire {
    stream: Transport,
    /// Number of the server in the pool; `None` is a connection that is not kept.
    server: Option<usize>,
    slot: ConnectionSlot,
    /// The client has authenticated this connection, or was asked to.
    is_private: bool,
    /// The sweep of the pool after which it became idle.
    idle_since: u32,
    /// Bytes that have come and were not taken yet.
    input: BytesMut,
    outgoing: Outgoing<ForwardedBody>,
    /// The method is HEAD: the response has no body.
    is_head_method: bool,
    /// The server takes another request after this one.
    stays_open: bool,
    /// Timer for late responses. It is set once and serves many requests, because setting it for
    /// each would cost more than the rest of the bookkeeping.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Reason why there is no response, or no whole one.
#[derive(Debug)]
pub enum ExchangeError {
    /// The connection ended before a byte of the response: perhaps before the request arrived.
    NoResponse(io::Error),
    /// The connection ended within the response.
    Closed(io::Error),
    /// The bytes that came are not a response; says why.
    Protocol(&'static str),
    /// The client's body did not come to its end.
    Body(BodyError),
    /// The response did not begin in time.
    TimedOut,
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoResponse(error) => {
                write!(f, "the connection ended before the response: {error}")
            }
            Self::Closed(error) => write!(f, "the connection ended within the response: {error}"),
            Self::Protocol(what) => write!(f, "not a response of HTTP/1: {what}"),
            Self::Body(error) => error.fmt(f),
            Self::TimedOut => f.write_str("the response did not come in time"),
        }
    }
}

impl std::error::Error for ExchangeError {}

impl Exchange {
    /// Starts HTTP/1 over a new connection to the server with this number.
    pub fn start(stream: Transport, server: Option<usize>, slot: ConnectionSlot) -> Self {
        let (input, outgoing) = (BytesMut::new(), Outgoing::default());
        Self(Box::new(ServerWire {
            stream,
            server,
            slot,
            is_private: false,
            idle_since: 0,
            input,
            outgoing,
            is_head_method: false,
            stays_open: false,
            timer: None,
        }))
    }

    /// Takes an idle connection to a server out of the pool of this thread.
    pub fn reused(server: Option<usize>) -> Option<Self> {
        pool::take(server?)
    }

    /// Prepares a request with the method, target and trailers of `parts`; `write_headers` writes
    /// its header lines. Nothing is sent before [`Exchange::response`].
    pub fn request(
        mut self,
        parts: &Parts,
        body: ForwardedBody,
        write_headers: impl FnOnce(&mut HeaderText<'_>),
    ) -> Self {
        request::begin(&mut self.0.outgoing, parts, body, write_headers);
        self.0.is_head_method = parts.method == http::Method::HEAD;
        self.0.is_private |= private::is_request_binding(&parts.headers);
        self
    }

    /// Sends the request and waits for the head of the response. `timeout` runs from now until the
    /// head is complete; without one it is the caller's to give up.
    pub async fn response(
        mut self,
        timeout: Option<Duration>,
    ) -> Result<HttpResponse<ExchangeBody>, ExchangeError> {
        let wire = &mut *self.0;
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let head = poll_fn(|cx| match (wire.poll_head(cx), deadline) {
            (Poll::Pending, Some(deadline)) => wire
                .poll_deadline(cx, deadline)
                .map(|()| Err(ExchangeError::TimedOut)),
            (head, _) => head,
        });
        let ReceivedHead {
            status,
            lines,
            framing,
            stays_open,
            binds_connection,
        } = head.await?;
        wire.stays_open = stays_open;
        wire.is_private |= binds_connection;
        let body = ExchangeBody::new(framing, self);
        Ok(HttpResponse::new(status, lines, body))
    }
}

impl ServerWire {
    /// Returns true when nothing has come, not even the end of the connection.
    fn is_quiet(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(self.stream.read_buf(&mut self.input))
            .poll(&mut context)
            .is_pending()
    }

    /// Sends what can be sent, and reads until the head of a response is complete.
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<ReceivedHead, ExchangeError>> {
        self.send_on(cx)?;
        loop {
            while let Some(head) = response_head::take(&mut self.input, self.is_head_method)
                .map_err(ExchangeError::Protocol)?
            {
                // `100 Continue` and its like come before the response.
                if !head.status.is_informational() || head.is_switch() {
                    return Poll::Ready(Ok(head));
                }
            }
            let nothing_yet = self.input.is_empty();
            match ready!(self.poll_read(cx, response_head::ROOM)) {
                Ok(0) if nothing_yet => {
                    return Poll::Ready(Err(ExchangeError::NoResponse(
                        io::ErrorKind::UnexpectedEof.into(),
                    )));
                }
                Ok(0) => {
                    return Poll::Ready(Err(ExchangeError::Closed(
                        io::ErrorKind::UnexpectedEof.into(),
                    )));
                }
                Ok(_) => {}
                Err(error) if nothing_yet => {
                    return Poll::Ready(Err(ExchangeError::NoResponse(error)));
                }
                Err(error) => return Poll::Ready(Err(ExchangeError::Closed(error))),
            }
        }
    }

    /// Ready when the deadline has passed.
    fn poll_deadline(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        // An earlier request had more time.
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if Instant::now() >= deadline {
                return Poll::Ready(());
            }
            // It was set for an earlier request, whose deadline came first.
            timer.as_mut().reset(deadline);
        }
    }

    /// Sends what can be sent. A server that takes no more of a body may have responded all the
    /// same, so that is no error.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), ExchangeError> {
        match self.outgoing.poll_send(&mut self.stream, cx) {
            Poll::Pending | Poll::Ready(Ok(()) | Err(SendError::Closed)) => Ok(()),
            Poll::Ready(Err(SendError::Body(error))) => Err(ExchangeError::Body(error)),
            Poll::Ready(Err(SendError::Length)) => Err(ExchangeError::Body(BodyError::Length)),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        self.poll_read_at_most(cx, room, usize::MAX)
    }

    /// Reads at most `bytes_max`, also where there is more memory than the `room` that is needed.
    fn poll_read_at_most(
        &mut self,
        cx: &mut Context<'_>,
        room: usize,
        bytes_max: usize,
    ) -> Poll<io::Result<usize>> {
        self.input.reserve(room);
        let mut input = (&mut self.input).limit(bytes_max);
        pin!(self.stream.read_buf(&mut input)).poll(cx)
    }

    /// Returns true when the connection can take another request.
    fn is_free(&self) -> bool {
        self.stays_open && self.outgoing.is_sent() && self.input.is_empty()
    }
}

/// The body of a response. Polling it drives the connection that it comes from.
pub struct ExchangeBody {
    framing: Framing,
    /// Bytes to read at a time at most.
    part_max: usize,
    /// The connection, until the last byte has come.
    exchange: Option<Exchange>,
    /// The client that a private connection belongs to. Without one it is closed.
    owner: Option<Arc<PrivateConnections>>,
}

impl ExchangeBody {
    fn new(framing: Framing, exchange: Exchange) -> Self {
        let mut body = Self {
            framing,
            part_max: usize::MAX,
            exchange: Some(exchange),
            owner: None,
        };
        // A private connection stays until its owner is known.
        if !body.is_private() {
            body.recycle_at_end();
        }
        body
    }

    /// Returns true when the connection must not be used by another client.
    pub fn is_private(&self) -> bool {
        let exchange = self.exchange.as_ref();
        exchange.is_some_and(|exchange| exchange.0.is_private)
    }

    /// Reads at most so many bytes at a time from now on.
    pub fn limit_part(&mut self, bytes_max: usize) {
        self.part_max = bytes_max.max(1);
    }

    /// Ready when the deadline has passed, which is the caller's. Uses the connection's own timer.
    pub fn poll_deadline(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        match &mut self.exchange {
            Some(Exchange(wire)) => wire.poll_deadline(cx, deadline),
            None => Poll::Pending,
        }
    }

    /// Lets only this client use the connection again.
    pub fn bind(&mut self, owner: &Arc<PrivateConnections>) {
        self.owner = Some(Arc::clone(owner));
        self.recycle_at_end();
    }

    /// The bare connection after the server has agreed to another protocol, which ends when nothing
    /// moves for `idle`.
    pub fn into_switched(mut self, idle: Duration) -> Option<SwitchedServer> {
        let wire = *self.exchange.take()?.0;
        Some(SwitchedServer {
            stream: wire.stream,
            first: wire.input.freeze(),
            idle,
            slot: Box::new(wire.slot),
        })
    }

    /// Keeps the connection for another request as soon as the body is complete: in the pool, or
    /// with the client that it belongs to.
    fn recycle_at_end(&mut self) {
        if self.framing.is_over()
            && let Some(exchange) = self.exchange.take_if(|exchange| exchange.0.is_free())
        {
            match &self.owner {
                _ if !exchange.0.is_private => pool::keep(exchange),
                Some(owner) => owner.keep(exchange),
                None => drop(exchange),
            }
        }
    }

    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decoded, ExchangeError>> {
        let Some(Exchange(wire)) = &mut self.exchange else {
            return Poll::Ready(Ok(Decoded::End));
        };
        wire.send_on(cx)?;
        loop {
            match self
                .framing
                .decode(&mut wire.input)
                .map_err(ExchangeError::Protocol)?
            {
                Decoded::Incomplete => {}
                decoded => return Poll::Ready(Ok(decoded)),
            }
            let room = self.framing.room().min(self.part_max);
            match ready!(wire.poll_read_at_most(cx, room, self.part_max)) {
                Ok(0) if self.framing.ends_with_connection() => {
                    return Poll::Ready(Ok(Decoded::End));
                }
                Ok(0) => {
                    return Poll::Ready(Err(ExchangeError::Closed(
                        io::ErrorKind::UnexpectedEof.into(),
                    )));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(ExchangeError::Closed(error))),
            }
        }
    }
}

impl Body for ExchangeBody {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        let decoded = ready!(self.poll_decoded(cx));
        if decoded.is_ok() {
            self.recycle_at_end();
        } else {
            self.exchange = None;
        }
        Poll::Ready(match decoded {
            Ok(Decoded::Data(data)) => Some(Ok(Frame::data(data))),
            Ok(Decoded::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(Decoded::End | Decoded::Incomplete) => {
                self.exchange = None;
                None
            }
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.framing.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        self.framing.size_hint()
    }
}

#[cfg(test)]
mod tests;
