//! Connections to servers that speak HTTP/2: one for each thread and server, with many requests at
//! a time.

use std::cell::RefCell;
use std::collections::HashMap;

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

use crate::request_body::ForwardedBody;
use crate::transport::Transport;

/// Sends requests over one connection; clones share it.
pub type RequestSender = SendRequest<ForwardedBody>;

thread_local! {
    /// Open connections by the number of their server. Each thread has its own.
    static OPEN: RefCell<HashMap<usize, RequestSender>> = RefCell::new(HashMap::new());
}

/// The open connection of this thread to a server; `None` also if the server has no number.
pub fn open_connection(server: Option<usize>) -> Option<RequestSender> {
    let server = server?;
    OPEN.with_borrow_mut(|open| match open.get(&server) {
        Some(sender) if sender.is_closed() => {
            open.remove(&server);
            None
        }
        known => known.cloned(),
    })
}

/// Starts HTTP/2 over a new connection. If the server has a number, later requests of this thread
/// share the connection.
pub async fn start(
    stream: Transport,
    server: Option<usize>,
) -> Result<RequestSender, hyper::Error> {
    const WINDOW: u32 = 1 << 20;
    let (sender, connection) = Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(4 * WINDOW)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(connection);
    if let Some(server) = server {
        OPEN.with_borrow_mut(|open| open.insert(server, sender.clone()));
    }
    Ok(sender)
}
