//! The HTTP/1 server: requests are read, answered and read again, all in the connection's task.
//!
//! One loop serves a connection: read a head, let the handler answer it, send the response, and
//! begin again unless one side wants to close. There is no task and no channel for a request. The
//! body of a request is read by the one who polls it (`client_wire/body.rs`), and the body of a
//! response is polled by the sending of it, so a slow reader on either side slows the other down
//! and nothing is buffered in between.
//!
//! While a request is answered the loop also watches for the client's end of the connection: a
//! client that has gone away need not be answered, and its request is dropped.

mod response_head;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use tokio::task::yield_now;

use crate::client_wire::{ClientWire, HeadError, ReplyOptions, WireBody};
use crate::handler::{Connection, Handler, IncomingRequest, ResponseBody};
use crate::request_body::ClientBody;
use crate::turn::Turns;
use crate::upgrade;
use crate::wire::Outgoing;

/// End of a connection's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http1End {
    /// The client or the server wanted to close, or the client is gone.
    Finished,
    /// The client sent something that is not HTTP.
    Malformed,
}

/// Next step after a response.
enum AfterResponse {
    /// Read the next request.
    ReadNext,
    /// Close the connection, so that the client receives all that was sent.
    Close {
        /// The client wanted that.
        is_asked_for: bool,
    },
    /// Drop the connection: the client is gone, or has already been served by another protocol.
    Drop,
}

/// The most requests of one connection that are answered in one turn. A client that sends without
/// waiting for answers would otherwise have the thread for a hundred of them at a time, on each of
/// its connections.
const ANSWERS_IN_A_ROW: usize = 4;

/// Answers requests until there are no more. May be dropped and called again between two requests.
pub(crate) async fn serve<H: Handler>(
    wire: &ClientWire,
    connection: &Arc<Connection<H>>,
) -> Http1End {
    let mut outgoing = Outgoing::default();
    let mut turns = Turns::default();
    let mut request = IncomingRequest::none();
    loop {
        let keeps_bytes = || connection.handler.keeps_head_bytes();
        let (activity, bounds) = (&connection.activity, &connection.bounds);
        let reply = match wire
            .read_head(activity, bounds, keeps_bytes, &mut request.parts)
            .await
        {
            Ok(Some(head)) => {
                request.end = head.end;
                if wire.begin_body(head.framing, head.reply.expects_continue) {
                    request.body = ClientBody::Wire(WireBody::new(wire.clone()));
                }
                head.reply
            }
            Err(HeadError::Closed) => return Http1End::Finished,
            Ok(None) => {
                wire.linger().await;
                return Http1End::Finished;
            }
            Err(HeadError::Malformed(..)) if !H::answers_malformed(connection) => {
                return Http1End::Malformed;
            }
            Err(HeadError::Malformed(status, words)) => {
                let mut outgoing = Outgoing::default();
                response_head::refuse(&mut outgoing, status, words);
                let mut io = wire.clone();
                let _ = poll_fn(|cx| outgoing.poll_send(&mut io, cx)).await;
                wire.linger().await;
                return Http1End::Malformed;
            }
        };
        // Until the connection is ready for the next request: a connection that lingers is not
        // idle, and must not be put to rest as one.
        let _request = connection.activity.request();
        match answer(wire, connection, &mut request, reply, &mut outgoing).await {
            AfterResponse::ReadNext => {
                request.end();
                turns.count();
                if !wire.has_buffered() {
                    turns.rest();
                } else if turns.is_over(ANSWERS_IN_A_ROW) {
                    turns.wait();
                    yield_now().await;
                }
            }
            AfterResponse::Drop => return Http1End::Finished,
            AfterResponse::Close { is_asked_for } => {
                wire.close(is_asked_for).await;
                return Http1End::Finished;
            }
        }
    }
}

/// Answers one request to the last byte of its response.
async fn answer<H: Handler>(
    wire: &ClientWire,
    connection: &Arc<Connection<H>>,
    request: &mut IncomingRequest,
    reply: ReplyOptions,
    outgoing: &mut Outgoing<H::Body>,
) -> AfterResponse {
    let response = wire
        .unless_closed(pin!(H::handle(connection, request)))
        .await;
    let Some(mut response) = response else {
        return AfterResponse::Drop;
    };
    let switched = response.body.take_switched();
    let stays_open = response_head::begin(outgoing, response, reply, wire.takes_another());
    let mut io = wire.clone();
    match wire
        .unless_closed(pin!(poll_fn(|cx| outgoing.poll_send(&mut io, cx))))
        .await
    {
        Some(Ok(())) => {}
        // A response that breaks off must not look like a complete one, so nothing follows it, and
        // where its end is that of the connection, the connection is reset.
        Some(Err(_)) | None => {
            if outgoing.ends_with_connection() {
                connection.activity.give_up();
            }
            return AfterResponse::Drop;
        }
    }
    if let Some(server) = switched {
        wire.put_back();
        upgrade::relay(wire.clone(), *server).await;
        return AfterResponse::Drop;
    }
    // The response may be complete before the request's body is; the rest of that is no request.
    if stays_open && wire.is_body_over() {
        AfterResponse::ReadNext
    } else {
        AfterResponse::Close {
            is_asked_for: !reply.keep_alive,
        }
    }
}
