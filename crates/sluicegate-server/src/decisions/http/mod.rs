//! Decisions over HTTP/1.1: JSON in and out, and what gateways ask of an external authority.

mod problem;
mod reply;
pub(super) mod routes;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};

use super::DecisionsState;
use super::door::{DoorTls, Protocol};

pub(super) use problem::Problem;

/// An answer of this door.
pub(super) type Reply = Response<Full<Bytes>>;

/// The request line and headers; a gateway passes on all that its client sent.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 200;
/// From the end of one request to the end of the next one's header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// The door.
pub(super) struct Http;

impl Protocol for Http {
    const NAME: &'static str = super::HTTP;

    fn tls(tls: &DoorTls) -> &Arc<ServerConfig> {
        &tls.http
    }

    async fn serve<S>(&self, state: Arc<DecisionsState>, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        serve(state, stream, peer).await;
    }
}

async fn serve(
    state: Arc<DecisionsState>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
) {
    let mut ending = state.ending.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(routes::answer(&state, peer, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let told_to_end = async move { ending.wait_for(|ending| *ending).await.is_ok() };
    // Clients that hang up or dawdle are their own concern.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = told_to_end => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
