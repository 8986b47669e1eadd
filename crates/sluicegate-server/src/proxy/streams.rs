//! Servers that speak HTTP/2: one connection for each thread, many requests at a time.

use std::cell::RefCell;
use std::collections::HashMap;

use http::request::Parts;
use http::{Method, Request};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use super::answer::{Answer, AnswerLines};
use super::body::{From, RequestBody};
use super::forward::{Failure, Forwarding, blame, in_time, to_http2};
use super::link::Link;
use super::rewrite;
use super::upstream::Server;

thread_local! {
    static OPEN: RefCell<HashMap<usize, SendRequest<RequestBody>>> = RefCell::new(HashMap::new());
}

/// An open connection to a server.
pub(super) fn open(server: &Server) -> Option<SendRequest<RequestBody>> {
    let id = server.id?;
    OPEN.with_borrow_mut(|open| match open.get(&id) {
        Some(sender) if sender.is_closed() => {
            open.remove(&id);
            None
        }
        known => known.cloned(),
    })
}

/// Speaks HTTP/2 over a new connection, which this thread's later requests share.
pub(super) async fn start(
    link: Link,
    server: &Server,
) -> Result<SendRequest<RequestBody>, hyper::Error> {
    const WINDOW: u32 = 1 << 20;
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .handshake(TokioIo::new(link))
        .await?;
    tokio::spawn(connection);
    if let Some(id) = server.id {
        OPEN.with_borrow_mut(|open| open.insert(id, sender.clone()));
    }
    Ok(sender)
}

pub(super) async fn send(
    forwarding: &Forwarding<'_>,
    server: &Server,
    mut sender: SendRequest<RequestBody>,
    parts: &mut Parts,
    body: RequestBody,
) -> Result<Answer<From>, Failure> {
    let metrics = &forwarding.caller.proxy.gate.metrics;
    let upload = body.upload();
    let is_head = parts.method == Method::HEAD;
    let request = Request::from_parts(to_http2(parts, forwarding.hop, server), body);
    let exchange = async {
        sender.ready().await?;
        sender.send_request(request).await
    };
    let mut response = in_time(forwarding, upload, exchange)
        .await
        .inspect_err(|failure| blame(server, failure, metrics))?;
    server.succeeded();
    rewrite::to_client(&mut response, is_head);
    let (head, body) = response.into_parts();
    Ok(Answer::new(
        head.status,
        AnswerLines::of_map(&head.headers),
        From::Stream(body),
    ))
}
