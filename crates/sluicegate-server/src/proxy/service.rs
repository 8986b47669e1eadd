//! The handler of the proxy: one request is admitted and forwarded, or refused.
//!
//! `validate` comes first, because a request with ambiguous framing must close its connection; then
//! admission; only then is a server touched.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, HeaderMap, HeaderName};
use http::request::Parts;
use http::{Method, StatusCode};
use http_body::Body;
use sluicegate::http::{RequestHead, ResponseFields, host_of};
use sluicegate_core::Answer;
use sluicegate_gate::admission::{
    AdmissionRequest, AdmittedRequest, Purpose, Refusal, SentRequest, admit,
};
use sluicegate_gate::external::HeaderSpelling;
use sluicegate_gate::refusal_response::{GrpcClients, write_refusal};
use sluicegate_gate::request_id::{self, RequestId};
use sluicegate_gate::telemetry::TRACEPARENT;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, RequestOutcome};
use sluicegate_net::{
    BodyEnd, ClientBody, Connection, Handler, HttpResponse, IncomingRequest, InvalidRequest,
    RequestParts, ResponseLines, upgrade_of,
};

use super::body::{BodySource, ProxyBody};
use super::forward::{self, ForwardContext};
use super::forward_failure::ForwardFailure;
use super::grpc;
use super::request_guard::{AccessRecord, RequestGuard};
use super::rewrite;
use super::state::{ProxySnapshot, ProxyState};
use super::websocket::WebSocketStream;

/// The connection of a client, shared by its requests.
pub(super) type ClientConnection = Connection<ProxyState>;

impl Handler for ProxyState {
    type Body = ProxyBody;

    const TAKES_EXTENDED_CONNECT: bool = true;

    async fn handle(
        caller: &Arc<ClientConnection>,
        request: &mut IncomingRequest,
    ) -> HttpResponse<ProxyBody> {
        let IncomingRequest { parts, end, body } = request;
        let body = std::mem::take(body);
        answer(caller, parts, *end, body).await
    }

    fn answers_malformed(connection: &ClientConnection) -> bool {
        let snapshot = connection.handler.snapshot();
        let peer = connection.peer.ip();
        // Behind a trusted proxy nobody knows who sent it.
        snapshot.gate.trusts(peer) || too_many_refused(&snapshot, Some(peer)).is_none()
    }

    fn keeps_head_bytes(&self) -> bool {
        self.gate.asks_limits_service()
    }
}

/// Answers any request, valid or not; `end` tells where its body ends.
async fn answer(
    caller: &Arc<ClientConnection>,
    parts: &mut RequestParts,
    end: Result<BodyEnd, InvalidRequest>,
    body: ClientBody,
) -> HttpResponse<ProxyBody> {
    let snapshot = &*caller.handler.snapshot_for_request();
    let gate = &caller.handler.gate;
    let peer_is_trusted = snapshot.gate.trusts(caller.peer.ip());
    let request_id = RequestId::of_request(&parts.headers, peer_is_trusted);
    let mut guard = RequestGuard::new(caller, request_id, peer_is_trusted);
    guard.is_logged = snapshot.gate.log_access;
    if let Some(traces) = &gate.traces {
        guard.span = traces.begin(&guard.request_id, &parts.headers, peer_is_trusted);
    }
    if guard.is_logged || guard.span.is_some() {
        guard.access_record = Some(Box::new(AccessRecord::of(parts)));
    }
    let mut answer = match admit_request(caller, snapshot, parts, end, &guard).await {
        Ok(mut admitted) => {
            guard.pending = admitted.admitted.pending.take();
            forward_admitted(caller, snapshot, parts, body, admitted, &mut guard).await
        }
        Err(refused) => {
            // Nobody waits for the end of what is to be a WebSocket.
            let is_endless = caller.is_http2 && upgrade_of(parts).is_some();
            let body = if is_endless {
                ClientBody::default()
            } else {
                body
            };
            refuse(&parts.headers, body, refused, &mut guard).await
        }
    };
    answer.lines.replace(&request_id::HEADER, |text| {
        text.extend_from_slice(guard.request_id.as_bytes())
    });
    guard.status = answer.status.as_u16();
    answer.map(|source| ProxyBody::new(source, guard))
}

/// A request that is not forwarded.
struct RefusedRequest {
    outcome: RequestOutcome,
    /// The response. It closes the connection where the end of the request is in doubt, so that no
    /// part of it is read as the next request.
    answer: HttpResponse<Bytes>,
}

/// Checks the framing, then asks admission; no server is touched yet.
async fn admit_request(
    caller: &ClientConnection,
    snapshot: &ProxySnapshot,
    parts: &mut RequestParts,
    end: Result<BodyEnd, InvalidRequest>,
    guard: &RequestGuard,
) -> Result<AdmittedRequest, RefusedRequest> {
    // First, so that no other refusal keeps a connection whose framing is in doubt.
    let valid = end.and_then(|end| parts.validate(end, &snapshot.bounds, caller.is_http2));
    let client_ip = &snapshot.gate.client_ip;
    if let Err(refusal) = valid {
        let client_ip = client_ip.resolve(Some(caller.peer.ip()), &parts.headers);
        return Err(too_many_refused(snapshot, client_ip).unwrap_or_else(|| malformed(&refusal)));
    }
    let head = RequestHead {
        method: parts.method.as_str(),
        path: parts.uri.path(),
        query: parts.uri.query(),
        target: Some(&parts.uri),
        host: host_of(&parts.uri, &parts.headers),
        client_ip: client_ip.resolve(Some(caller.peer.ip()), &parts.headers),
        headers: &parts.headers,
        sni: caller.server_name.as_deref(),
        principal: None,
    };
    let question = AdmissionRequest {
        candidate: SentRequest {
            head,
            spelling: HeaderSpelling::of_parts(parts),
        },
        purpose: Purpose::Spend,
        protocol: None,
        record: guard.access_record.as_ref().map(|record| &record.admission),
    };
    match admit(&caller.handler.gate, &snapshot.gate, question).await {
        Ok(mut request) => match prepare(snapshot, parts, &mut request) {
            None => Ok(request),
            Some(too_many) => Err(too_many),
        },
        Err(refusal) => {
            let address = match refusal.label() {
                DecisionAnswer::Refused => {
                    client_ip.resolve(Some(caller.peer.ip()), &parts.headers)
                }
                _ => None,
            };
            let too_many = too_many_refused(snapshot, address);
            let refused = || refused(snapshot, parts, &refusal, &guard.request_id);
            Err(too_many.unwrap_or_else(refused))
        }
    }
}

/// Makes the request what was admitted: its target in one spelling, its credentials verified.
/// Returns the response to one that no limit has counted, if there were too many of them.
fn prepare(
    snapshot: &ProxySnapshot,
    parts: &mut RequestParts,
    request: &mut AdmittedRequest,
) -> Option<RefusedRequest> {
    // Browsers ask before they send, and rules for methods seldom name this one.
    let is_uncounted = parts.method == Method::OPTIONS && !request.admitted.is_counted();
    if is_uncounted && let Some(too_many) = too_many_refused(snapshot, request.client_ip) {
        return Some(too_many);
    }
    if let Some(target) = request.rewritten_target.take() {
        parts.set_target(target);
    }
    let unverified = request.admitted.unverified;
    if !unverified.is_empty() {
        let headers = &mut parts.edit().headers;
        snapshot.gate.auth.strip(unverified, headers);
    }
    None
}

/// Counts a request that no limit has counted. Returns the response to a client that has sent too
/// many of them; clients on the allow list may send any number.
fn too_many_refused(snapshot: &ProxySnapshot, client: Option<IpAddr>) -> Option<RefusedRequest> {
    let counter = snapshot.refused_requests.as_deref()?;
    let client = client.filter(|client| !snapshot.gate.is_exempt(*client))?;
    let too_many = counter.count(client).err()?;
    Some(RefusedRequest {
        outcome: RequestOutcome::of_refusal(DecisionAnswer::Limited),
        answer: too_many.answer(),
    })
}

/// The response to a request that admission refused.
fn refused(
    snapshot: &ProxySnapshot,
    parts: &Parts,
    refusal: &Refusal,
    request_id: &RequestId,
) -> RefusedRequest {
    let mut lines = ResponseLines::default();
    let (status, body) = write_refusal(
        refusal,
        &snapshot.gate,
        &parts.headers,
        request_id,
        GrpcClients::Possible,
        &mut LimitFields(&mut lines),
    );
    RefusedRequest {
        outcome: RequestOutcome::of_refusal(refusal.label()),
        answer: HttpResponse::new(status, lines, body),
    }
}

/// The response to a request that breaks the rules of HTTP or exceeds a bound.
fn malformed(refusal: &InvalidRequest) -> RefusedRequest {
    let mut answer = HttpResponse::plain_text(refusal.status(), refusal.to_string());
    if refusal.status() == StatusCode::METHOD_NOT_ALLOWED {
        let usual = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
        answer
            .lines
            .append(&ALLOW, |text| text.extend_from_slice(usual));
    }
    answer.closes = refusal.closes();
    RefusedRequest {
        outcome: RequestOutcome::Refused,
        answer,
    }
}

/// Answers without a server. The rest of a small body is drained so that the connection can be
/// reused; a large one closes it.
async fn refuse(
    headers: &HeaderMap,
    body: ClientBody,
    refused: RefusedRequest,
    guard: &mut RequestGuard,
) -> HttpResponse<BodySource> {
    guard.outcome = refused.outcome;
    let mut answer = refused.answer;
    answer.closes = answer.closes || !body.is_end_stream() && !Box::pin(body.drain(headers)).await;
    if grpc::is_call(headers) {
        grpc::to_grpc(answer)
    } else {
        answer
    }
    .map(BodySource::own)
}

/// Forwards an admitted request, and adds the headers of the limits to the response. A failure
/// becomes a response as well, and the charge stays: the request was allowed.
async fn forward_admitted(
    caller: &Arc<ClientConnection>,
    snapshot: &Arc<ProxySnapshot>,
    parts: &mut RequestParts,
    mut body: ClientBody,
    request: AdmittedRequest,
    guard: &mut RequestGuard,
) -> HttpResponse<BodySource> {
    if let Some(span) = &guard.span {
        let headers = &mut parts.edit().headers;
        headers.insert(TRACEPARENT, span.traceparent());
    }
    let is_call = grpc::is_call(&parts.headers);
    let websocket = caller
        .is_http2
        .then(|| WebSocketStream::begin(parts, &mut body))
        .flatten();
    let (upgrade, request_id) = (upgrade_of(parts), guard.request_id.clone());
    let hop = rewrite::Hop {
        client_ip: request.client_ip,
        peer: caller.peer.ip(),
        peer_is_trusted: guard.peer_is_trusted,
        scheme: if caller.is_tls { "https" } else { "http" },
        request_id: request_id.as_str(),
        upgrade: upgrade.as_ref(),
        has_body: !body.is_end_stream(),
        key_headers: &snapshot.key_headers,
    };
    let forwarding = ForwardContext {
        caller,
        snapshot,
        host: request.host.as_deref(),
        hop: &hop,
        routing: request.admitted.routing.as_deref(),
    };
    let mut forwarded = forward::forward(&forwarding, parts, body).await;
    if let Some(websocket) = websocket {
        forwarded = forwarded.and_then(|forwarded| websocket.open(forwarded));
    }
    let mut answer = match forwarded {
        Ok(forwarded) => {
            guard.outcome = RequestOutcome::Forwarded;
            guard.share = forwarded.share;
            if let Some(record) = &mut guard.access_record {
                record.upstream = Some(forwarded.server.authority.clone());
            }
            if guard.pending.is_some() {
                settle(&forwarded.answer, is_call, guard);
            }
            forwarded.answer
        }
        Err(failure) => fail(&failure, is_call, guard),
    };
    if let Some(decision) = &request.admitted.decision {
        let mut fields = LimitFields(&mut answer.lines);
        snapshot.gate.headers.write(decision, &mut fields);
    }
    answer
}

/// Answers in place of a server. Our status counts like a server's, unless the client has left.
fn fail(
    failure: &ForwardFailure,
    is_call: bool,
    guard: &mut RequestGuard,
) -> HttpResponse<BodySource> {
    guard.outcome = RequestOutcome::UpstreamError;
    tracing::debug!(request_id = ?guard.request_id, "{failure}");
    let answer = failure.answer();
    if !matches!(failure, ForwardFailure::Client) {
        guard.settle(Answer::http(answer.status.as_u16()), false);
    }
    if is_call {
        grpc::to_grpc(answer)
    } else {
        answer
    }
    .map(BodySource::own)
}

/// Settles the charges that wait for the answer of a server. The status of a gRPC call may be in the
/// trailers, behind the body.
fn settle(answer: &HttpResponse<BodySource>, is_call: bool, guard: &mut RequestGuard) {
    let grpc_status = answer.lines.value(&grpc::STATUS);
    let grpc_status = grpc_status.and_then(|text| str::from_utf8(text).ok()?.parse().ok());
    let may_have_trailers = is_call && grpc_status.is_none() && answer.body.may_have_trailers();
    let answer = Answer {
        status: answer.status.as_u16(),
        grpc_status,
    };
    guard.settle(answer, may_have_trailers);
}

/// The header lines of a response, as the limiter writes them.
struct LimitFields<'a>(&'a mut ResponseLines);

impl ResponseFields for LimitFields<'_> {
    fn value(&self, name: &HeaderName) -> Option<&[u8]> {
        self.0.value(name)
    }

    fn remove(&mut self, name: &HeaderName) {
        self.0.remove(name);
    }

    fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.append(name, value);
    }

    fn append_lines(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.0.append_lines(write);
    }
}

/// Returns true when a request has no body at all, so that it can be sent twice.
pub(super) fn is_bodiless(parts: &Parts, body: &ClientBody) -> bool {
    body.is_end_stream()
        && parts
            .headers
            .get(CONTENT_LENGTH)
            .is_none_or(|length| length == "0")
}
