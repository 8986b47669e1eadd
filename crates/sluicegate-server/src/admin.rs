//! The operator's door: health, metrics, the version of the configuration, reload.
//!
//! It is on loopback unless there is a token, answers one request per connection, and gives a browser nothing to work with but
//! its own page: no foreign host, no foreign origin, no foreign script.

mod answer;
mod desk;
mod guard;
mod page;
mod query;
mod routes;
mod token;

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use http::Request;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::operator::Operator;
use crate::telemetry::Metrics;
use guard::Guard;
use routes::Routes;

pub use token::{AdminToken, TokenError};

/// What the operator's door shows and does.
pub struct AdminState {
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// Whether requests should come here.
    pub ready: Box<dyn Fn() -> Readiness + Send + Sync>,
    /// Loads the configuration again: a word about what was done, or the mistakes, one per line. May take its time.
    pub reload: Box<dyn Fn() -> Result<String, String> + Send + Sync>,
    /// The running configuration.
    pub version: Box<dyn Fn() -> ConfigVersion + Send + Sync>,
    /// Everything else; without it there is less to see.
    pub operator: Option<Arc<Operator>>,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState").finish_non_exhaustive()
    }
}

/// Whether requests should come here, and what there is to say about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether requests should come here.
    pub is_ready: bool,
    /// What is not as it should be; there may be something although requests are welcome.
    pub reasons: Vec<String>,
}

/// Which configuration runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigVersion {
    /// One more for each configuration that was put in force.
    pub number: u64,
    /// Of the files it was read from.
    pub hash: String,
    /// Since when it runs.
    pub loaded_at: SystemTime,
}

/// Connections at a time; the next ones wait.
const CONNECTIONS_MAX: usize = 64;
/// The request line and headers.
const HEADER_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// From the first byte of a connection to its last.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(60);
/// Who still watches then may ask again.
const STREAM_TIMEOUT: Duration = Duration::from_secs(3_600);
/// For what is under way at the end.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Before the next attempt when the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` is ready and what is under way is answered. It is an error to serve others than this machine
/// without a token.
pub async fn serve(
    listener: TcpListener,
    token: Option<AdminToken>,
    state: Arc<AdminState>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if token.is_none() && !address.ip().to_canonical().is_loopback() {
        let what =
            format!("admin.listen: {address} is not loopback, so admin.token_file is required");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    let door = Arc::new(Door {
        guard: Guard::new(address.ip(), token),
        routes: Routes::new(state),
    });
    let mut connections = JoinSet::new();
    tokio::select! {
        () = accept(&listener, &door, &mut connections) => {}
        () = shutdown => {}
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(DRAIN_MAX, drained).await.is_err() {
        connections.shutdown().await;
    }
    Ok(())
}

/// Accepts for ever.
async fn accept(listener: &TcpListener, door: &Arc<Door>, connections: &mut JoinSet<()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        while connections.try_join_next().is_some() {}
        let place = Arc::clone(&places)
            .acquire_owned()
            .await
            .expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, peer)) => {
                let door = Arc::clone(door);
                connections.spawn(async move {
                    door.serve(stream, peer).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the operator's door cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Door {
    guard: Guard,
    routes: Routes,
}

impl Door {
    async fn serve(self: Arc<Self>, stream: TcpStream, peer: SocketAddr) {
        let streams = Arc::new(AtomicBool::new(false));
        let service = service_fn(|request: Request<Incoming>| {
            let (door, streams) = (Arc::clone(&self), Arc::clone(&streams));
            async move {
                let answer =
                    match door
                        .guard
                        .check(request.method(), request.uri(), request.headers())
                    {
                        Ok(()) => door.routes.answer(request, peer).await,
                        Err(refusal) => refusal.answer(),
                    };
                streams.store(matches!(answer.body(), Either::Right(_)), Ordering::Relaxed);
                Ok::<_, Infallible>(answer::protected(answer))
            }
        });
        let connection = http1::Builder::new()
            .keep_alive(false)
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(HEADER_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .serve_connection(TokioIo::new(stream), service);
        // Clients that hang up or dawdle are their own concern.
        let mut connection = pin!(connection);
        if timeout(CONNECTION_TIMEOUT, &mut connection).await.is_err()
            && streams.load(Ordering::Relaxed)
        {
            let _ = timeout(STREAM_TIMEOUT, connection).await;
        }
    }
}
