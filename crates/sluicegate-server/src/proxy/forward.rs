//! Sends an admitted request to a server and waits for the head of its response.
//!
//! The servers of the route are tried in turn, healthy ones first. For each of them the cheapest
//! connection is taken: an open one of HTTP/2, else an idle one of HTTP/1, else a new one. The
//! invariant is that a request is sent at most once, with one exception: an idle connection may be
//! closed by the server at the moment it is reused. Then an idempotent request without a body is
//! sent again over a new connection, and any other fails, because nobody knows how much of it was
//! carried out. A connection that cannot be made has carried nothing, so the next server is tried.
//! So it is when a server has as many connections as it may; if that is so for all, the request
//! waits for a moment.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::HOST;
use http::request::Parts;
use http::uri::{Authority, Scheme};
use http::{Method, Request, StatusCode, Uri, Version};
use sluicegate_config::UpstreamHttp;
use sluicegate_gate::external::ExternalLimits;
use sluicegate_gate::telemetry::metrics::UpstreamFailure;
use sluicegate_net::http2_client;
use sluicegate_net::{
    ClientBody, ClientPermit, ConnectionRefusal, ConnectionSlot, Exchange, ExchangeBody,
    ExchangeError, ForwardedBody, HttpResponse, RequestParts, Transport, UploadMonitor, UploadPace,
    UploadProgress, UploadState,
};

use super::body::BodySource;
use super::candidates::CandidateServers;
use super::connect::{NewConnection, ReadyConnection, record_busy, take_connection};
use super::dial::{self, DialError};
use super::forward_failure::ForwardFailure;
use super::forwarded_response::ForwardedResponse;
use super::grpc;
use super::http2_forward;
use super::rewrite::{self, Hop, KeptLines};
use super::server_clock::ServerClock;
use super::service::{self, ClientConnection};
use super::state::ProxySnapshot;
use super::upstream::UpstreamServer;

/// The facts that every step of forwarding one request needs.
pub(super) struct ForwardContext<'a> {
    pub(super) caller: &'a Arc<ClientConnection>,
    /// The configuration that was in force when the request began.
    pub(super) snapshot: &'a Arc<ProxySnapshot>,
    /// The host that routes are chosen by, in its one spelling.
    pub(super) host: Option<&'a str>,
    /// The facts that the forwarded header lines are written from.
    pub(super) hop: &'a Hop<'a>,
    /// The limits service's answer, where it names a server or a timeout for the caller.
    pub(super) routing: Option<&'a ExternalLimits>,
}

impl ForwardContext<'_> {
    /// The longest time from the end of the request's header to the beginning of its response.
    pub(super) fn request_timeout(&self) -> Duration {
        self.routing
            .and_then(|limits| limits.request_timeout)
            .map_or_else(|| self.snapshot.request_timeout(), Into::into)
    }

    /// The right of the client to one more request to this server, held until its response has
    /// ended. While connections to the server are scarce, each client has a share of them, so that
    /// none can hold all; `None` is one that has its share.
    fn share_of(&self, server: &UpstreamServer) -> Option<ClientPermit> {
        let Some(most) = server.slots.scarce_share() else {
            return Some(ClientPermit::uncounted());
        };
        let client = self.hop.client_ip.unwrap_or(self.hop.peer);
        let bound = &self.snapshot.client_bound;
        bound.admit_to_server(most, &server.scarce_requests, client)
    }

    /// The longest time for which a server may be silent in the middle of its response.
    pub(super) fn server_stall_timeout(&self) -> Duration {
        self.snapshot.timeouts.stalled_server.into()
    }
}

/// Sends a request to one of its servers.
///
/// Futures that are seldom needed are boxed, because every connection keeps the memory of the
/// request's future.
pub(super) async fn forward(
    forwarding: &ForwardContext<'_>,
    parts: &mut RequestParts,
    body: ClientBody,
) -> Result<ForwardedResponse, ForwardFailure> {
    let candidates = CandidateServers::find(forwarding, parts.uri.path())?;
    // Decided before the body is wrapped: afterwards nobody can tell whether it was empty.
    let is_repeatable = is_idempotent(&parts.method) && service::is_bodiless(parts, &body);
    let body = forwarded_body(forwarding, parts, body);
    send_in_turn(forwarding, &candidates, parts, body, is_repeatable).await
}

/// Tries the servers until one gets the request.
async fn send_in_turn(
    forwarding: &ForwardContext<'_>,
    candidates: &CandidateServers<'_>,
    parts: &mut RequestParts,
    mut body: ForwardedBody,
    is_repeatable: bool,
) -> Result<ForwardedResponse, ForwardFailure> {
    // The server knows the client by its private connection, so no other will do.
    let (first, mut private) = candidates.private_connection(forwarding.caller).unzip();
    let mut full: Option<(&Arc<UpstreamServer>, ClientPermit)> = None;
    let (mut unreachable, mut has_its_share) = (None, false);
    for server in first.into_iter().chain(candidates.in_turn()) {
        // A short wait for a server that is well is better than one that is avoided.
        let waits_instead = |full: &UpstreamServer| full.is_named_by_service() || !server.is_well();
        if full.as_ref().is_some_and(|(full, _)| waits_instead(full)) {
            break;
        }
        let Some(share) = forwarding.share_of(server) else {
            has_its_share = true;
            continue;
        };
        let Ok(ready) = ReadyConnection::find(server, private.take()) else {
            full.get_or_insert((server, share));
            continue;
        };
        if let Some(ready) = ready {
            match send_ready(forwarding, server, ready, parts, body, is_repeatable).await {
                Ok(answered) => return answered.map(ForwardedResponse::of(server, share)),
                Err(unsent) => body = unsent,
            }
        }
        let Some(slot) = server.slots.try_take() else {
            full.get_or_insert((server, share));
            continue;
        };
        match Box::pin(dial_unless_reset(forwarding, server)).await {
            Ok(stream) => {
                return Box::pin(send_over((stream, slot), forwarding, server, parts, body))
                    .await
                    .map(ForwardedResponse::of(server, share));
            }
            Err(error) => unreachable = record_dial_error(forwarding, server, error),
        }
        if unreachable.is_some() && server.is_named_by_service() {
            break;
        }
    }
    if let Some((server, share)) = full {
        return Box::pin(wait_and_send(forwarding, server, parts, body))
            .await
            .map(ForwardedResponse::of(server, share));
    }
    if has_its_share && unreachable.is_none() {
        return Err(record_busy(forwarding));
    }
    Err(unreachable.map_or(ForwardFailure::NoRoute, ForwardFailure::Unreachable))
}

/// Sends a request over a connection that is open already. Gives the body back if the server has closed
/// the connection at the same moment and the request can be sent again.
async fn send_ready(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    ready: ReadyConnection,
    parts: &mut RequestParts,
    body: ForwardedBody,
    is_repeatable: bool,
) -> Result<Result<HttpResponse<BodySource>, ForwardFailure>, ForwardedBody> {
    match ready {
        ReadyConnection::Http2(stream) => {
            Ok(Box::pin(http2_forward::send(forwarding, server, stream, parts, body)).await)
        }
        ReadyConnection::Idle(exchange) if is_repeatable => {
            let answered = send_repeatable(forwarding, server, exchange, parts).await;
            answered.ok_or(body)
        }
        ReadyConnection::Idle(exchange) => {
            Ok(send(forwarding, server, exchange, parts, body).await)
        }
    }
}

/// Connects to a server. A connection is dear, and a stream that its client resets in the same breath
/// needs none: what has come with its header is followed first.
async fn dial_unless_reset(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
) -> Result<Transport, DialError> {
    if forwarding.caller.is_http2 {
        tokio::task::yield_now().await;
    }
    dial::dial(server, forwarding.snapshot.connect_timeout()).await
}

/// Waits until a server that has as many connections as it may, or as many streams as it allows, can
/// take one request more, and sends it.
async fn wait_and_send(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    parts: &mut RequestParts,
    body: ForwardedBody,
) -> Result<HttpResponse<BodySource>, ForwardFailure> {
    let wait = forwarding.snapshot.upstream_wait();
    if let Some(connection) = http2_client::open_connection(server.id) {
        let stream = connection.wait_for_stream(wait).await;
        let stream = stream.ok_or_else(|| record_busy(forwarding))?;
        return http2_forward::send(forwarding, server, stream, parts, body).await;
    }
    match take_connection(forwarding, server).await? {
        NewConnection::HandedOver(exchange) => {
            send(forwarding, server, exchange, parts, body).await
        }
        NewConnection::Dialled(stream, slot) => {
            send_over((stream, slot), forwarding, server, parts, body).await
        }
    }
}

/// The client's body on its way to a server, with its bounds.
fn forwarded_body(
    forwarding: &ForwardContext<'_>,
    parts: &Parts,
    body: ClientBody,
) -> ForwardedBody {
    let snapshot = forwarding.snapshot;
    ForwardedBody::new(
        body,
        snapshot.bounds.body_bytes,
        pace_of(forwarding.caller, parts),
        snapshot.timeouts.stalled_client.into(),
        &snapshot.trailers,
    )
}

/// The pace at which a body must come. A gRPC call may be silent between messages; over HTTP/1
/// there are no such calls.
fn pace_of(caller: &ClientConnection, parts: &Parts) -> UploadPace {
    if caller.is_http2 && grpc::is_call(&parts.headers) {
        UploadPace::Messages
    } else {
        UploadPace::Steady
    }
}

/// Counts a connection that could not be made. Returns the error, unless the limits service names a
/// server that may not be dialled: as with a URL that is refused, the request goes where all others
/// go.
fn record_dial_error(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    error: DialError,
) -> Option<io::Error> {
    match error {
        DialError::NotAllowed => {
            if let Some(external) = &forwarding.snapshot.gate.external {
                external.ignore_backend(&server.host);
            }
            None
        }
        DialError::Failed(error) => {
            record_unreachable(forwarding, server, &error);
            Some(error)
        }
    }
}

/// Sends a request over a new connection, in the version of HTTP that the server speaks.
async fn send_over(
    (stream, slot): (Transport, ConnectionSlot),
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    parts: &mut RequestParts,
    body: ForwardedBody,
) -> Result<HttpResponse<BodySource>, ForwardFailure> {
    if stream.chose_http2() || server.http == UpstreamHttp::Http2 {
        // Another request may have been quicker, and one connection is enough for both.
        let open = http2_client::open_connection(server.id);
        let stream = match open.and_then(|connection| connection.try_stream()) {
            Some(stream) => Some(stream),
            None => http2_client::start(stream, server.id, slot)
                .await?
                .try_stream(),
        };
        let stream = stream.ok_or_else(|| record_busy(forwarding))?;
        return http2_forward::send(forwarding, server, stream, parts, body).await;
    }
    let exchange = Exchange::start(stream, server.id, slot);
    send(forwarding, server, exchange, parts, body).await
}

/// Sends a request over HTTP/1 and waits for the head of the response. Without a body to upload,
/// the connection's own timeout suffices; with one, the upload is watched as well.
async fn send(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    exchange: Exchange,
    parts: &mut RequestParts,
    body: ForwardedBody,
) -> Result<HttpResponse<BodySource>, ForwardFailure> {
    let (upload, steady) = (body.progress(), body.steady_progress());
    let exchange = request(exchange, forwarding, parts, body);
    let answered = match steady {
        None => {
            let longest = Some(forwarding.request_timeout());
            exchange.response(longest).await.map_err(Into::into)
        }
        steady => Box::pin(in_time(forwarding, steady, exchange.response(None))).await,
    };
    answer(forwarding, server, upload, answered)
}

/// Sends a request without a body over an idle connection. Returns `None` if the server has closed it
/// at the same moment: then the request can be sent again.
async fn send_repeatable(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    exchange: Exchange,
    parts: &mut RequestParts,
) -> Option<Result<HttpResponse<BodySource>, ForwardFailure>> {
    let longest = Some(forwarding.request_timeout());
    let exchange = request(exchange, forwarding, parts, ForwardedBody::empty());
    match exchange.response(longest).await {
        Err(ExchangeError::NoResponse(_)) => None,
        answered => Some(answer(
            forwarding,
            server,
            None,
            answered.map_err(Into::into),
        )),
    }
}

/// Writes the request as the server gets it into the exchange; nothing is sent yet.
fn request(
    exchange: Exchange,
    forwarding: &ForwardContext<'_>,
    parts: &mut RequestParts,
    body: ForwardedBody,
) -> Exchange {
    let hop = forwarding.hop;
    let (parts, kept) = KeptLines::of(parts, hop);
    exchange.request(parts, body, |text| match kept {
        Some(kept) => kept.write(hop.request_id, text),
        None => rewrite::write_lines(parts, hop, text),
    })
}

/// Makes the result of an exchange into the client's response, and records how the server did.
fn answer(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    upload: Option<Arc<UploadProgress>>,
    answered: Result<HttpResponse<ExchangeBody>, ForwardFailure>,
) -> Result<HttpResponse<BodySource>, ForwardFailure> {
    let caller = forwarding.caller;
    let mut answer = answered
        .inspect_err(|failure| record_failure(forwarding, server, upload.as_deref(), failure))?;
    server.succeeded();
    if answer.status != StatusCode::SWITCHING_PROTOCOLS {
        // Requests of an HTTP/2 client run side by side: none of them owns a connection.
        if answer.body.is_private() && !caller.is_http2 {
            answer.body.bind(caller.make_private_connections());
        }
        let clock = ServerClock::new(forwarding.server_stall_timeout(), upload);
        return Ok(answer.map(|body| BodySource::Exchange(body, clock)));
    }
    let idle = forwarding.snapshot.timeouts.idle.into();
    let answer = answer.map(|body| body.into_switched(idle));
    if answer.body.is_none() || forwarding.hop.upgrade.is_none() {
        // The server switched protocols although the client did not ask for it.
        return Err(ForwardFailure::Unreachable(
            io::ErrorKind::InvalidData.into(),
        ));
    }
    Ok(answer.map(|switched| BodySource::Switched(switched.map(Box::new))))
}

/// Waits for the head of a response. The server's time starts when the client has sent its body:
/// until then the client's pace is checked instead.
pub(super) async fn in_time<T>(
    forwarding: &ForwardContext<'_>,
    upload: Option<Arc<UploadProgress>>,
    answer: impl Future<Output = Result<T, impl Into<ForwardFailure>>>,
) -> Result<T, ForwardFailure> {
    let longest = forwarding.request_timeout();
    let mut answer = std::pin::pin!(answer);
    let Some(upload) = upload else {
        let answered = tokio::time::timeout(longest, answer).await;
        return answered
            .map_err(|_| ForwardFailure::TooLate)?
            .map_err(Into::into);
    };
    let mut monitor = UploadMonitor::new(forwarding.snapshot.header_timeout());
    let mut since = Instant::now();
    loop {
        if let Ok(answered) =
            tokio::time::timeout(monitor.pause.min(longest), answer.as_mut()).await
        {
            return answered.map_err(Into::into);
        }
        match monitor.check(&upload) {
            UploadState::Sending => since = Instant::now(),
            UploadState::ServersTurn if since.elapsed() < longest => {}
            UploadState::ServersTurn => return Err(ForwardFailure::TooLate),
            UploadState::TooSlow => {
                forwarding
                    .caller
                    .handler
                    .gate
                    .metrics
                    .connection_refused(ConnectionRefusal::Slow);
                return Err(ForwardFailure::TooSlow);
            }
        }
    }
}

/// Records that a server could not be connected to: in its health and in the metrics.
pub(super) fn record_unreachable(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    error: &io::Error,
) {
    server.failed();
    let metrics = &forwarding.caller.handler.gate.metrics;
    metrics.upstream_failed(reason_of(error));
}

/// The label under which a failed connection attempt is counted.
fn reason_of(error: &io::Error) -> UpstreamFailure {
    match error.kind() {
        io::ErrorKind::TimedOut => UpstreamFailure::ConnectTimeout,
        io::ErrorKind::InvalidData => UpstreamFailure::Tls,
        _ => UpstreamFailure::Connect,
    }
}

/// Records a failure: in the metrics, and in the server's health if it is the server's.
pub(super) fn record_failure(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
    upload: Option<&UploadProgress>,
    failure: &ForwardFailure,
) {
    let metrics = &forwarding.caller.handler.gate.metrics;
    if let Some(reason) = failure.reason() {
        server.failed();
        metrics.upstream_failed(reason);
    } else if upload.is_some_and(UploadProgress::is_stalled) {
        metrics.connection_refused(ConnectionRefusal::Slow);
    }
}

/// Takes the request out of `parts` and makes it one of HTTP/2, with scheme and authority in its
/// target: they are sent as pseudo-headers.
pub(super) fn to_http2(parts: &mut Parts, hop: &Hop<'_>, server: &UpstreamServer) -> Parts {
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

/// Returns true for methods that may be sent twice (RFC 9110, section 9.2.2). TRACE is not among
/// them here, because it is not forwarded.
fn is_idempotent(method: &Method) -> bool {
    matches!(
        *method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    )
}
