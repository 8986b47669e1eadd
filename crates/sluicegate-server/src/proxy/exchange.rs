//! One exchange with a server over HTTP/1, driven by the request's own task: no second task and no channel to it.
//!
//! **Invariant:** a connection in the pool has nothing under way, and is looked at once more before it is used again.

mod head;
mod request;

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, Sleep, sleep_until};

use self::head::Head;
use super::answer::Answer;
use super::body::{BodyError, RequestBody};
use super::link::Link;
use super::rewrite::Hop;
use super::wire::{Decoded, Framing, Outgoing, Unsent};

/// A connection to a server.
pub(super) struct Exchange(Box<Wire>);

struct Wire {
    link: Link,
    /// Which server it leads to.
    server: Option<usize>,
    /// What has come and is not taken yet.
    input: BytesMut,
    outgoing: Outgoing<RequestBody>,
    /// Whether the server takes another request after this one.
    stays_open: bool,
    /// Rings when a server may be late. It is set once and asked by many requests: setting it for each would be dear.
    alarm: Option<Pin<Box<Sleep>>>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Broken {
    /// The connection ended before a byte of the answer: it may have been closed before the request came.
    Unanswered(io::Error),
    /// The connection ended within the answer.
    Closed(io::Error),
    /// What came is no answer.
    Protocol(&'static str),
    /// The client's body did not come to its end.
    Body(BodyError),
    /// The answer did not come in time.
    TooLate,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered(error) => write!(f, "the connection ended before the answer: {error}"),
            Self::Closed(error) => write!(f, "the connection ended within the answer: {error}"),
            Self::Protocol(what) => write!(f, "no answer in HTTP/1: {what}"),
            Self::Body(error) => error.fmt(f),
            Self::TooLate => f.write_str("the answer did not come in time"),
        }
    }
}

impl std::error::Error for Broken {}

/// Idle connections of one server that each thread keeps.
const IDLE_MAX: usize = 256;

thread_local! {
    /// For each server. Each thread has connections of its own, so no two wait for a lock.
    static POOL: RefCell<Vec<Vec<Exchange>>> = const { RefCell::new(Vec::new()) };
}

impl Exchange {
    /// Speaks HTTP/1 over a new connection.
    pub(super) fn start(link: Link, server: Option<usize>) -> Self {
        let (input, outgoing) = (BytesMut::new(), Outgoing::default());
        Self(Box::new(Wire {
            link,
            server,
            input,
            outgoing,
            stays_open: false,
            alarm: None,
        }))
    }

    /// An idle connection to a server that is still open.
    pub(super) fn reused(server: Option<usize>) -> Option<Self> {
        let server = server?;
        loop {
            let mut exchange = POOL.with_borrow_mut(|pool| pool.get_mut(server)?.pop())?;
            if exchange.0.is_quiet() {
                return Some(exchange);
            }
        }
    }

    /// Keeps the connection for the next request.
    fn recycle(self) {
        let Some(server) = self.0.server else { return };
        POOL.with_borrow_mut(|pool| {
            if pool.len() <= server {
                pool.resize_with(server + 1, Vec::new);
            }
            let idle = &mut pool[server];
            if idle.len() < IDLE_MAX {
                idle.push(self);
            }
        });
    }

    /// Sends a request, and waits for the head of the answer, for so long if anything: as the client may see it, but for its
    /// body.
    pub(super) async fn send(
        mut self,
        parts: &Parts,
        hop: &Hop<'_>,
        body: RequestBody,
        longest: Option<Duration>,
    ) -> Result<Answer<ExchangeBody>, Broken> {
        let wire = &mut *self.0;
        request::begin(&mut wire.outgoing, parts, hop, body);
        let is_head = parts.method == http::Method::HEAD;
        let due = longest.map(|longest| Instant::now() + longest);
        let answer = poll_fn(|cx| match (wire.poll_answer(cx, is_head), due) {
            (Poll::Pending, Some(due)) => wire.poll_late(cx, due).map(|()| Err(Broken::TooLate)),
            (answer, _) => answer,
        });
        let Head {
            status,
            lines,
            framing,
            stays_open,
        } = answer.await?;
        wire.stays_open = stays_open;
        Ok(Answer::new(status, lines, ExchangeBody::new(framing, self)))
    }
}

impl Wire {
    /// Whether nothing has come, not even the end.
    fn is_quiet(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(self.link.read_buf(&mut self.input))
            .poll(&mut context)
            .is_pending()
    }

    /// Sends what can be sent, and reads until the head of an answer is complete.
    fn poll_answer(&mut self, cx: &mut Context<'_>, is_head: bool) -> Poll<Result<Head, Broken>> {
        self.send_on(cx)?;
        loop {
            while let Some(head) = head::take(&mut self.input, is_head).map_err(Broken::Protocol)? {
                // Others, such as `100 Continue`, come before the answer.
                if !head.status.is_informational() || head.is_switch() {
                    return Poll::Ready(Ok(head));
                }
            }
            let nothing_yet = self.input.is_empty();
            match ready!(self.poll_read(cx, head::ROOM)) {
                Ok(0) if nothing_yet => {
                    return Poll::Ready(Err(Broken::Unanswered(
                        io::ErrorKind::UnexpectedEof.into(),
                    )));
                }
                Ok(0) => {
                    return Poll::Ready(Err(Broken::Closed(io::ErrorKind::UnexpectedEof.into())));
                }
                Ok(_) => {}
                Err(error) if nothing_yet => return Poll::Ready(Err(Broken::Unanswered(error))),
                Err(error) => return Poll::Ready(Err(Broken::Closed(error))),
            }
        }
    }

    /// Ready when it is too late.
    fn poll_late(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // What may be allowed has become less.
        if alarm.deadline() > due {
            alarm.as_mut().reset(due);
        }
        loop {
            ready!(alarm.as_mut().poll(cx));
            if Instant::now() >= due {
                return Poll::Ready(());
            }
            // It was set for an earlier request.
            alarm.as_mut().reset(due);
        }
    }

    /// A server that takes no more of a body may have answered all the same.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), Broken> {
        match self.outgoing.poll_send(&mut self.link, cx) {
            Poll::Pending | Poll::Ready(Ok(()) | Err(Unsent::Refused)) => Ok(()),
            Poll::Ready(Err(Unsent::Body(error))) => Err(Broken::Body(error)),
            Poll::Ready(Err(Unsent::Length)) => Err(Broken::Body(BodyError::Length)),
        }
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, room: usize) -> Poll<io::Result<usize>> {
        self.input.reserve(room);
        pin!(self.link.read_buf(&mut self.input)).poll(cx)
    }

    /// Whether the connection can take another request.
    fn is_free(&self) -> bool {
        self.stays_open && self.outgoing.is_sent() && self.input.is_empty()
    }
}

/// The body of an answer; whoever reads it drives the connection that it comes from.
pub(super) struct ExchangeBody {
    framing: Framing,
    /// Until the last byte has come.
    exchange: Option<Exchange>,
}

impl ExchangeBody {
    fn new(framing: Framing, exchange: Exchange) -> Self {
        let mut body = Self {
            framing,
            exchange: Some(exchange),
        };
        body.recycle_at_end();
        body
    }

    /// The bare connection after the server has agreed to speak something else, and what came already.
    pub(super) fn into_link(mut self) -> Option<(Link, Bytes)> {
        self.exchange
            .take()
            .map(|exchange| (exchange.0.link, exchange.0.input.freeze()))
    }

    fn recycle_at_end(&mut self) {
        if self.framing.is_over()
            && let Some(exchange) = self.exchange.take_if(|exchange| exchange.0.is_free())
        {
            exchange.recycle();
        }
    }

    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decoded, Broken>> {
        let Some(Exchange(wire)) = &mut self.exchange else {
            return Poll::Ready(Ok(Decoded::End));
        };
        wire.send_on(cx)?;
        loop {
            match self
                .framing
                .decode(&mut wire.input)
                .map_err(Broken::Protocol)?
            {
                Decoded::Incomplete => {}
                decoded => return Poll::Ready(Ok(decoded)),
            }
            match ready!(wire.poll_read(cx, self.framing.room())) {
                Ok(0) if self.framing.ends_with_connection() => {
                    return Poll::Ready(Ok(Decoded::End));
                }
                Ok(0) => {
                    return Poll::Ready(Err(Broken::Closed(io::ErrorKind::UnexpectedEof.into())));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(Broken::Closed(error))),
            }
        }
    }
}

impl Body for ExchangeBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
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
            Err(broken) => Some(Err(broken)),
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
