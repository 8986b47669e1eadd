//! From a request that may go on to a server's answer.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{Method, Request, StatusCode, Uri, Version};
use sluicegate_config::UpstreamHttp;

use super::answer::Answer;
use super::body::{BodyError, ClientBody, From, RequestBody};
use super::exchange::{Broken, Exchange, ExchangeBody};
use super::grpc;
use super::link::Link;
use super::rewrite::{self, Hop};
use super::service::{self, Caller};
use super::state::ProxySnapshot;
use super::streams;
use super::upgrade::Switched;
use super::upload::{Inspector, Pace, Turn, Upload};
use super::upstream::Server;
use crate::external::Told;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::{ConnectionRefusal, UpstreamFailure};

/// What a request takes along on its way.
pub(super) struct Forwarding<'a> {
    pub(super) caller: &'a Arc<Caller>,
    pub(super) snapshot: &'a Arc<ProxySnapshot>,
    pub(super) host: Option<&'a str>,
    pub(super) hop: &'a Hop<'a>,
    /// The limits service's answer, where it names a server or a timeout for the caller.
    pub(super) routing: Option<&'a Told>,
}

impl Forwarding<'_> {
    /// From the end of the request's header to the beginning of its answer.
    pub(super) fn request_timeout(&self) -> Duration {
        self.routing
            .and_then(|told| told.request_timeout)
            .map_or_else(|| self.snapshot.request_timeout(), Into::into)
    }
}

/// A server's answer, and which server.
pub(super) struct Forwarded {
    pub(super) answer: Answer<From>,
    pub(super) server: Arc<Server>,
}

/// Why there is no answer of a server.
#[derive(Debug)]
pub(super) enum Failure {
    /// No route covers the request.
    NoRoute,
    /// The server that the limits service names cannot be used.
    NoBackend(String),
    /// No server could be reached.
    Unreachable(io::Error),
    /// An idle connection ended before the answer came: the request may never have arrived.
    Unanswered(io::Error),
    /// The connection broke before the answer came.
    Broken {
        reason: UpstreamFailure,
        words: String,
    },
    /// The client's body did not come to its end.
    Client,
    /// The answer did not come in time.
    TooLate,
    /// The client's body did not come in time.
    TooSlow,
    /// The request's body is larger than is allowed.
    TooLarge,
}

impl std::convert::From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        let words = broken.to_string();
        match broken {
            Broken::Unanswered(error) => Self::Unanswered(error),
            Broken::Closed(_) => Self::Broken {
                reason: UpstreamFailure::Closed,
                words,
            },
            Broken::Protocol(_) => Self::Broken {
                reason: UpstreamFailure::Protocol,
                words,
            },
            Broken::Body(BodyError::TooLarge) => Self::TooLarge,
            Broken::Body(_) => Self::Client,
            Broken::TooLate => Self::TooLate,
        }
    }
}

impl std::convert::From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        let mut source = std::error::Error::source(&error);
        while let Some(inner) = source {
            match inner.downcast_ref() {
                Some(BodyError::TooLarge) => return Self::TooLarge,
                Some(_) => return Self::Client,
                None => source = inner.source(),
            }
        }
        let reason = if error.is_parse() {
            UpstreamFailure::Protocol
        } else {
            UpstreamFailure::Closed
        };
        Self::Broken {
            reason,
            words: error.to_string(),
        }
    }
}

impl Failure {
    /// As it is counted.
    fn reason(&self) -> Option<UpstreamFailure> {
        match self {
            Self::Broken { reason, .. } => Some(*reason),
            Self::Unanswered(_) => Some(UpstreamFailure::Closed),
            Self::TooLate => Some(UpstreamFailure::Timeout),
            // Counted for each server that was tried, or nothing that a server has done.
            Self::Unreachable(_)
            | Self::NoRoute
            | Self::NoBackend(_)
            | Self::TooLarge
            | Self::TooSlow
            | Self::Client => None,
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::NoBackend(_)
            | Self::Unreachable(_)
            | Self::Unanswered(_)
            | Self::Broken { .. } => StatusCode::BAD_GATEWAY,
            Self::Client => StatusCode::BAD_REQUEST,
            Self::TooLate => StatusCode::GATEWAY_TIMEOUT,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        }
    }

    /// Says no more than the caller needs to know.
    pub(super) fn answer(&self) -> Answer<Bytes> {
        let status = self.status();
        Answer::sentence(status, status.canonical_reason().unwrap_or_default())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute => f.write_str("no route covers the request"),
            Self::NoBackend(why) => write!(
                f,
                "the server that the limits service names cannot be used: {why}"
            ),
            Self::Unreachable(error) => write!(f, "no server could be reached: {error}"),
            Self::Unanswered(error) => write!(
                f,
                "the server ended the connection without an answer: {error}"
            ),
            Self::Broken { words, .. } => write!(f, "the server broke off: {words}"),
            Self::Client => f.write_str("the client's body did not come to its end"),
            Self::TooLate => f.write_str("the server did not answer in time"),
            Self::TooSlow => f.write_str("the client's body did not come in time"),
            Self::TooLarge => f.write_str("the body is larger than proxy.max_body"),
        }
    }
}

/// Sends a request to one of its servers.
///
/// What is seldom needed lies in boxes: the whole way of a request is memory that each connection touches.
pub(super) async fn forward(
    forwarding: &Forwarding<'_>,
    parts: &mut Parts,
    body: ClientBody,
) -> Result<Forwarded, Failure> {
    let Forwarding {
        caller,
        snapshot,
        host,
        ..
    } = *forwarding;
    let told = match forwarding
        .routing
        .and_then(|routing| routing.backend.as_ref())
    {
        None => None,
        Some(backend) => Some(
            caller
                .proxy
                .backend_server(&snapshot.gate, backend)
                .map_err(Failure::NoBackend)?,
        ),
    };
    let group = match told {
        Some(_) => None,
        None => Some(
            snapshot
                .routes
                .group(host, parts.uri.path())
                .ok_or(Failure::NoRoute)?,
        ),
    };
    let is_repeatable = is_idempotent(&parts.method) && service::is_bodiless(parts, &body);
    // A call may be quiet for as long as it is used; over HTTP/1 there are none.
    let pace = if caller.is_http2 && grpc::is_call(&parts.headers) {
        Pace::Messages
    } else {
        Pace::Steady
    };
    let body = RequestBody::new(body, snapshot.bounds.body_bytes, pace);
    let mut unreachable = None;
    for server in told
        .iter()
        .chain(group.into_iter().flat_map(|group| group.in_turn()))
    {
        let of_server = |answer| Forwarded {
            answer,
            server: Arc::clone(server),
        };
        if let Some(sender) = streams::open(server) {
            return Box::pin(streams::send(forwarding, server, sender, parts, body))
                .await
                .map(of_server);
        }
        if let Some(exchange) = Exchange::reused(server.id) {
            if !is_repeatable {
                return send(forwarding, server, exchange, parts, body)
                    .await
                    .map(of_server);
            }
            let longest = Some(forwarding.request_timeout());
            match exchange
                .send(parts, forwarding.hop, RequestBody::empty(), longest)
                .await
            {
                // The connection had been idle, and the server may have closed it at the same moment.
                Err(Broken::Unanswered(_)) => {}
                answered => {
                    return answer(forwarding, server, answered.map_err(Into::into)).map(of_server);
                }
            }
        }
        match Box::pin(Link::dial(server, snapshot.connect_timeout())).await {
            Ok(link) if link.chose_http2() || server.http == UpstreamHttp::Http2 => {
                let sender = Box::pin(streams::start(link, server)).await?;
                return Box::pin(streams::send(forwarding, server, sender, parts, body))
                    .await
                    .map(of_server);
            }
            Ok(link) => {
                let exchange = Exchange::start(link, server.id);
                return send(forwarding, server, exchange, parts, body)
                    .await
                    .map(of_server);
            }
            Err(error) => {
                server.failed();
                caller.proxy.gate.metrics.upstream_failed(reason_of(&error));
                unreachable = Some(error);
            }
        }
    }
    Err(unreachable.map_or(Failure::NoRoute, Failure::Unreachable))
}

async fn send(
    forwarding: &Forwarding<'_>,
    server: &Server,
    exchange: Exchange,
    parts: &mut Parts,
    body: RequestBody,
) -> Result<Answer<From>, Failure> {
    let answered = match body.upload() {
        None => {
            let longest = Some(forwarding.request_timeout());
            exchange
                .send(parts, forwarding.hop, body, longest)
                .await
                .map_err(Into::into)
        }
        upload => {
            Box::pin(in_time(
                forwarding,
                upload,
                exchange.send(parts, forwarding.hop, body, None),
            ))
            .await
        }
    };
    answer(forwarding, server, answered)
}

/// Makes what came of an exchange into the client's answer.
fn answer(
    forwarding: &Forwarding<'_>,
    server: &Server,
    answered: Result<Answer<ExchangeBody>, Failure>,
) -> Result<Answer<From>, Failure> {
    let Forwarding {
        caller, snapshot, ..
    } = *forwarding;
    let answer =
        answered.inspect_err(|failure| blame(server, failure, &caller.proxy.gate.metrics))?;
    server.succeeded();
    if answer.status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(answer.map(From::Exchange));
    }
    let idle = snapshot.timeouts.idle.into();
    let answer = answer.map(|body| {
        body.into_link().map(|(server, first)| Switched {
            server,
            first,
            idle,
        })
    });
    if answer.body.is_none() || forwarding.hop.upgrade.is_none() {
        // Nobody asked for it.
        return Err(Failure::Unreachable(io::ErrorKind::InvalidData.into()));
    }
    Ok(answer.map(|switched| From::Switched(switched.map(Box::new))))
}

/// Waits for the head of an answer. While the client still sends, the server has nothing to answer yet.
pub(super) async fn in_time<T>(
    forwarding: &Forwarding<'_>,
    upload: Option<Arc<Upload>>,
    answer: impl Future<Output = Result<T, impl Into<Failure>>>,
) -> Result<T, Failure> {
    let longest = forwarding.request_timeout();
    let mut answer = std::pin::pin!(answer);
    let Some(upload) = upload else {
        let answered = tokio::time::timeout(longest, answer).await;
        return answered.map_err(|_| Failure::TooLate)?.map_err(Into::into);
    };
    let mut inspector = Inspector::new(forwarding.snapshot.header_timeout());
    let mut since = Instant::now();
    loop {
        if let Ok(answered) =
            tokio::time::timeout(inspector.pause.min(longest), answer.as_mut()).await
        {
            return answered.map_err(Into::into);
        }
        match inspector.look(&upload) {
            Turn::Client => since = Instant::now(),
            Turn::Server if since.elapsed() < longest => {}
            Turn::Server => return Err(Failure::TooLate),
            Turn::Missed => {
                forwarding
                    .caller
                    .proxy
                    .gate
                    .metrics
                    .connection_refused(ConnectionRefusal::Slow);
                return Err(Failure::TooSlow);
            }
        }
    }
}

/// Why a connection could not be made, as it is counted.
fn reason_of(error: &io::Error) -> UpstreamFailure {
    match error.kind() {
        io::ErrorKind::TimedOut => UpstreamFailure::ConnectTimeout,
        io::ErrorKind::InvalidData => UpstreamFailure::Tls,
        _ => UpstreamFailure::Connect,
    }
}

/// What the server has to answer for.
pub(super) fn blame(server: &Server, failure: &Failure, metrics: &Metrics) {
    if let Some(reason) = failure.reason() {
        server.failed();
        metrics.upstream_failed(reason);
    }
}

/// The target with scheme and authority, which HTTP/2 sends as pseudo-headers.
pub(super) fn to_http2(parts: &mut Parts, hop: &Hop<'_>, server: &Server) -> Parts {
    let mut parts = std::mem::replace(parts, Request::new(()).into_parts().0);
    rewrite::to_upstream(&mut parts, hop);
    parts.version = Version::HTTP_2;
    let host = parts.headers.remove(HOST);
    let mut uri = std::mem::take(&mut parts.uri).into_parts();
    uri.scheme = Some(if server.tls.is_some() {
        Scheme::HTTPS
    } else {
        Scheme::HTTP
    });
    let named = host
        .and_then(|host| Authority::try_from(host.as_bytes()).ok())
        .or(uri.authority);
    uri.authority = named.or_else(|| Authority::try_from(server.authority.as_bytes()).ok());
    parts.uri = Uri::from_parts(uri).unwrap_or_default();
    parts
}

fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    )
}
