//! One exchange with a server over HTTP/1, driven by the request's own task: no second task and no channel to it.
//!
//! **Invariant:** a connection in the pool has nothing under way, and is looked at once more before it is used again.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, Parts, SendRequest};
use hyper_util::rt::TokioIo;

use super::body::RequestBody;
use super::link::Link;

/// A connection to a server, and our end of it.
pub(super) struct Exchange {
    sender: SendRequest<RequestBody>,
    connection: Pin<Box<Connection<TokioIo<Link>, RequestBody>>>,
    /// Which server it leads to.
    server: usize,
}

/// Idle connections of one server that each thread keeps.
const IDLE_MAX: usize = 256;

thread_local! {
    /// Each thread has connections of its own, so no two wait for a lock.
    static POOL: RefCell<HashMap<usize, Vec<Exchange>>> = RefCell::new(HashMap::new());
}

impl Exchange {
    /// Speaks HTTP/1 over a new connection.
    pub(super) async fn start(link: Link, server: usize) -> Result<Self, hyper::Error> {
        let (sender, connection) = hyper::client::conn::http1::Builder::new()
            .max_headers(256)
            .max_buf_size(256 * 1024)
            .handshake(TokioIo::new(link))
            .await?;
        Ok(Self { sender, connection: Box::pin(connection), server })
    }

    /// An idle connection to a server that is still open.
    pub(super) fn reused(server: usize) -> Option<Self> {
        loop {
            let mut exchange = POOL.with_borrow_mut(|pool| pool.get_mut(&server)?.pop())?;
            if exchange.is_idle() {
                return Some(exchange);
            }
        }
    }

    /// Lets the connection notice what has come; whether it can take a request.
    fn is_idle(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.connection.as_mut().poll(&mut context).is_pending() && self.sender.is_ready()
    }

    /// Keeps the connection for the next request, if it can take one.
    fn recycle(mut self) {
        if !self.is_idle() {
            return;
        }
        POOL.with_borrow_mut(|pool| {
            let idle = pool.entry(self.server).or_default();
            if idle.len() < IDLE_MAX {
                idle.push(self);
            }
        });
    }

    /// Sends a request and waits for the head of the answer.
    pub(super) async fn send(
        mut self,
        request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Self), hyper::Error> {
        let mut answer = pin!(self.sender.send_request(request));
        let connection = &mut self.connection;
        let response = poll_fn(|cx| {
            if let Poll::Ready(answered) = answer.as_mut().poll(cx) {
                return Poll::Ready(answered);
            }
            // Whether it ends here or not, whoever asked is told.
            let _ = Pin::new(&mut **connection).poll_without_shutdown(cx);
            answer.as_mut().poll(cx)
        })
        .await?;
        Ok((response, self))
    }

    /// The bare connection after the server has agreed to speak something else.
    pub(super) fn into_parts(self) -> Parts<TokioIo<Link>> {
        Pin::into_inner(self.connection).into_parts()
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        let _ = Pin::new(&mut *self.connection).poll_without_shutdown(cx);
    }
}

/// The body of an answer; whoever reads it drives the connection that it comes from.
pub(super) struct ExchangeBody {
    incoming: Incoming,
    exchange: Option<Exchange>,
}

impl ExchangeBody {
    pub(super) fn new(incoming: Incoming, exchange: Exchange) -> Self {
        Self { incoming, exchange: Some(exchange) }
    }
}

impl Body for ExchangeBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut frame = Pin::new(&mut self.incoming).poll_frame(cx);
        if frame.is_pending() {
            if let Some(exchange) = &mut self.exchange {
                exchange.drive(cx);
            }
            frame = Pin::new(&mut self.incoming).poll_frame(cx);
        }
        match &frame {
            Poll::Ready(None) => self.exchange.take().into_iter().for_each(Exchange::recycle),
            Poll::Ready(Some(Err(_))) => self.exchange = None,
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for ExchangeBody {
    /// A body whose end is known is not read to it: the connection is as good as after reading.
    fn drop(&mut self) {
        if self.incoming.is_end_stream() {
            self.exchange.take().into_iter().for_each(Exchange::recycle);
        }
    }
}
