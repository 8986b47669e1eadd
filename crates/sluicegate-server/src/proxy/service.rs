//! One request: looked at, decided, forwarded or refused.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_LENGTH, HeaderMap, HeaderName, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, Uri};
use http_body::Body;
use sluicegate::Verdict;
use sluicegate::http::{Extracted, Fields, HeaderLines, RateLimitLine, Rejection, host_of};
use sluicegate_config::BodyStyle;
use sluicegate_core::{Principal, normalise_path};
use sluicegate_net::{
    BodyEnd, ClientBody, Connection, Handler, HttpResponse as Answer, IncomingRequest,
    InvalidRequest, ResponseLines, upgrade_of, validate,
};

use super::body::{AnswerBody, BodySource};
use super::ending::{Ending, Story};
use super::forward::{self, Forwarding};
use super::grpc;
use super::rewrite;
use crate::live::{Gate, Live};
use crate::request_id::{self, RequestId};
use crate::ruling::{self, Stop, ruling};
use crate::telemetry::TRACEPARENT;
use crate::telemetry::metrics::RequestOutcome;

/// Answers the requests of the proxy's clients.
pub(super) struct ProxyHandler {
    pub(super) gate: Arc<Gate>,
}

/// One client's connection, as its requests see it.
pub(super) type Caller = Connection<ProxyHandler>;

impl Handler for ProxyHandler {
    type Body = AnswerBody;

    // No `async fn`: the request would be held twice by the future that every connection has.
    fn handle(
        connection: &Arc<Caller>,
        request: IncomingRequest,
    ) -> impl Future<Output = Answer<AnswerBody>> + Send {
        let IncomingRequest { parts, end, body } = request;
        answer(connection, parts, end, body)
    }
}

/// Answers a request, whatever it is; `end` is where its body ends.
async fn answer(
    caller: &Arc<Caller>,
    mut parts: Parts,
    end: Result<BodyEnd, InvalidRequest>,
    body: ClientBody,
) -> Answer<AnswerBody> {
    let live = Arc::clone(&caller.handler.gate.live());
    let mut ending = Ending::new(caller, RequestId::next());
    ending.is_logged = live.log_access;
    if let Some(traces) = &caller.handler.gate.traces {
        ending.span = traces.begin(
            &ending.request_id,
            &parts.headers,
            live.trusts(caller.peer.ip()),
        );
    }
    if ending.is_logged || ending.span.is_some() {
        ending.story = Some(Box::new(Story::of(&parts)));
    }
    let mut answer = match decide(caller, &live, &mut parts, end, &mut ending).await {
        Ok(passed) => forward_it(caller, &live, &mut parts, body, passed, &mut ending).await,
        Err(refused) => refuse(&parts.headers, body, refused, &mut ending).await,
    };
    answer.lines.replace(&request_id::HEADER, |text| {
        text.extend_from_slice(ending.request_id.as_bytes())
    });
    ending.status = answer.status.as_u16();
    answer.map(|source| AnswerBody::new(source, ending))
}

/// A request that may go on.
struct Passed {
    client_ip: Option<IpAddr>,
    host: Option<String>,
    ruled: ruling::Passed,
}

/// A request that may not.
struct Refused {
    outcome: RequestOutcome,
    /// It closes the connection where the request's end is in doubt, so that nothing after it is read.
    answer: Answer<Bytes>,
}

/// Everything before a server is touched.
async fn decide(
    caller: &Caller,
    live: &Live,
    parts: &mut Parts,
    end: Result<BodyEnd, InvalidRequest>,
    ending: &mut Ending,
) -> Result<Passed, Refused> {
    // First, so that no other refusal keeps a connection whose framing is in doubt.
    let valid = end.and_then(|end| validate(parts, end, &live.bounds, caller.is_http2));
    valid.map_err(|refusal| malformed(&refusal))?;
    let path = match parts.uri.path() {
        // `OPTIONS *` is about the server as a whole: it counts as its root, and goes on as it is.
        "*" => Ok(Cow::Borrowed("/")),
        path => normalise_path(path),
    };
    let path = match path {
        Ok(path) => path,
        Err(ambiguous) => {
            return Err(reject(
                live,
                parts,
                &Rejection::AmbiguousPath(ambiguous),
                RequestOutcome::Refused,
            ));
        }
    };
    let extracted = Extracted {
        client_ip: live
            .client_ip
            .resolve(Some(caller.peer.ip()), &parts.headers),
        method: parts.method.as_str(),
        host: host_of(&parts.uri, &parts.headers),
        path,
        headers: HeaderLines(&parts.headers),
        principal: None,
    };
    if let Some(story) = &mut ending.story {
        story.know(&extracted);
    }
    if let Some(twin) = live.key_headers.twin_in(&live.policy, &parts.headers) {
        return Err(reject(
            live,
            parts,
            &Rejection::TwinHeader(&twin),
            RequestOutcome::Refused,
        ));
    }
    let meet = |known: &Principal| {
        if let Some(story) = &mut ending.story {
            story.principal = Some(known.id.clone());
        }
    };
    let ruled = match ruling(&caller.handler.gate, live, &extracted, &parts.headers, meet).await {
        Ok(passed) => passed,
        Err(stop) => {
            let refused = stopped(live, parts, &stop, ending);
            if live.log_rejections && matches!(stop, Stop::Verdict(_)) {
                let line = RateLimitLine::new(&extracted.subject(), refused.answer.status);
                caller.handler.gate.access_log.rate_limit_line(&line);
            }
            return Err(refused);
        }
    };
    let (client_ip, host) = (extracted.client_ip, extracted.host.map(Cow::into_owned));
    if let Cow::Owned(path) = extracted.path {
        let too_long = |()| {
            reject(
                live,
                parts,
                &Rejection::PathTooLong,
                RequestOutcome::Refused,
            )
        };
        parts.uri = with_path(&parts.uri, &path).map_err(too_long)?;
    }
    Ok(Passed {
        client_ip,
        host,
        ruled,
    })
}

/// Of a well-formed request that may not go on.
fn stopped(live: &Live, parts: &Parts, stop: &Stop, ending: &mut Ending) -> Refused {
    match stop {
        Stop::Denied => {
            let answer = Answer::plain_text(StatusCode::FORBIDDEN, "Forbidden");
            Refused {
                outcome: RequestOutcome::Denied,
                answer,
            }
        }
        Stop::Unauthorized(unauthorized) => {
            let mut answer = Answer::plain_text(StatusCode::UNAUTHORIZED, unauthorized.to_string());
            let challenge = unauthorized.challenge();
            answer.lines.append(&WWW_AUTHENTICATE, |text| {
                text.extend_from_slice(challenge.as_bytes())
            });
            Refused {
                outcome: RequestOutcome::Unauthorized,
                answer,
            }
        }
        Stop::Verdict(verdict) => verdict_response(live, parts, verdict, ending),
    }
}

fn malformed(refusal: &InvalidRequest) -> Refused {
    let mut answer = Answer::plain_text(refusal.status(), refusal.to_string());
    if refusal.status() == StatusCode::METHOD_NOT_ALLOWED {
        let usual = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";
        answer
            .lines
            .append(&ALLOW, |text| text.extend_from_slice(usual));
    }
    answer.closes = refusal.closes();
    Refused {
        outcome: RequestOutcome::Refused,
        answer,
    }
}

fn verdict_response(live: &Live, parts: &Parts, verdict: &Verdict, ending: &mut Ending) -> Refused {
    match verdict {
        Verdict::Reject(decision) => {
            if let Some(story) = &mut ending.story {
                story.limit = decision
                    .denials()
                    .next()
                    .map(|(limit, _)| limit.name.clone());
            }
            reject(
                live,
                parts,
                &Rejection::Limited(decision),
                RequestOutcome::Limited,
            )
        }
        Verdict::Unavailable { status, .. } => reject(
            live,
            parts,
            &Rejection::Unavailable(*status),
            RequestOutcome::Unavailable,
        ),
        Verdict::Unidentified(missing) => reject(
            live,
            parts,
            &Rejection::Unidentified(missing),
            RequestOutcome::Refused,
        ),
        Verdict::Forward(_) | Verdict::ForwardUnchecked(_) => {
            let answer = Answer::plain_text(StatusCode::INTERNAL_SERVER_ERROR, "");
            Refused {
                outcome: RequestOutcome::Refused,
                answer,
            }
        }
    }
}

/// In the form that the caller prefers, or the operator.
fn reject(
    live: &Live,
    parts: &Parts,
    rejection: &Rejection<'_>,
    outcome: RequestOutcome,
) -> Refused {
    let mut lines = ResponseLines::default();
    let mut in_form_for = |headers: &HeaderMap| {
        rejection.write(headers, &live.headers, &mut ResponseFields(&mut lines))
    };
    let preferring = |content_type: &'static str| {
        let mut headers = parts.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static(content_type));
        headers
    };
    let (status, body) = match live.body {
        BodyStyle::Auto => in_form_for(&parts.headers),
        BodyStyle::Text => in_form_for(&preferring("text/plain")),
        BodyStyle::Json => in_form_for(&preferring("application/problem+json")),
    };
    Refused {
        outcome,
        answer: Answer::new(status, lines, body),
    }
}

/// Answers without a server. What is left of a small body is read, so that the connection can go on; a large one ends it.
async fn refuse(
    headers: &HeaderMap,
    body: ClientBody,
    refused: Refused,
    ending: &mut Ending,
) -> Answer<BodySource> {
    ending.outcome = refused.outcome;
    let mut answer = refused.answer;
    answer.closes = answer.closes || !body.is_end_stream() && !Box::pin(body.drain(headers)).await;
    if grpc::is_call(headers) {
        grpc::in_words(answer)
    } else {
        answer
    }
    .map(BodySource::own)
}

async fn forward_it(
    caller: &Arc<Caller>,
    live: &Arc<Live>,
    parts: &mut Parts,
    body: ClientBody,
    passed: Passed,
    ending: &mut Ending,
) -> Answer<BodySource> {
    if let Some(span) = &ending.span {
        parts.headers.insert(TRACEPARENT, span.traceparent());
    }
    let is_call = grpc::is_call(&parts.headers);
    let (upgrade, request_id) = (upgrade_of(parts), ending.request_id);
    let hop = rewrite::Hop {
        client_ip: passed.client_ip,
        peer: caller.peer.ip(),
        peer_is_trusted: live.trusts(caller.peer.ip()),
        scheme: if caller.is_tls { "https" } else { "http" },
        request_id: request_id.as_str(),
        upgrade: upgrade.as_ref(),
        has_body: !body.is_end_stream(),
        key_headers: &live.header_names,
    };
    let forwarding = Forwarding {
        caller,
        live,
        host: passed.host.as_deref(),
        hop: &hop,
        told: passed.ruled.told.as_deref(),
    };
    let forwarded = forward::forward(&forwarding, parts, body).await;
    let mut answer = match forwarded {
        Ok(forwarded) => {
            ending.outcome = RequestOutcome::Forwarded;
            if let Some(story) = &mut ending.story {
                story.upstream = Some(forwarded.server.authority.clone());
            }
            forwarded.answer
        }
        Err(failure) => {
            ending.outcome = RequestOutcome::UpstreamError;
            tracing::debug!(request_id = ?ending.request_id, "{failure}");
            let answer = failure.answer();
            if is_call {
                grpc::in_words(answer)
            } else {
                answer
            }
            .map(BodySource::own)
        }
    };
    if let Some(decision) = &passed.ruled.decision {
        live.headers
            .write(decision, &mut ResponseFields(&mut answer.lines));
    }
    answer
}

/// Header lines of a response as the limiter writes them.
struct ResponseFields<'a>(&'a mut ResponseLines);

impl Fields for ResponseFields<'_> {
    fn value(&self, name: &HeaderName) -> Option<&[u8]> {
        self.0.value(name)
    }

    fn remove(&mut self, name: &HeaderName) {
        self.0.remove(name);
    }

    fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.append(name, value);
    }
}

/// The same target with another path.
fn with_path(uri: &Uri, path: &str) -> Result<Uri, ()> {
    let target = match uri.query() {
        Some(query) => PathAndQuery::try_from(format!("{path}?{query}")),
        None => PathAndQuery::try_from(path),
    };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.map_err(|_| ())?);
    Uri::from_parts(parts).map_err(|_| ())
}

/// Whether a request has no body at all, so that it can be sent twice.
pub(super) fn is_bodiless(parts: &Parts, body: &ClientBody) -> bool {
    body.is_end_stream()
        && parts
            .headers
            .get(CONTENT_LENGTH)
            .is_none_or(|length| length == "0")
}
