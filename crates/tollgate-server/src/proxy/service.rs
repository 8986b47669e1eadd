//! One request: looked at, decided, forwarded or refused.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Response, StatusCode, Uri};
use http_body::Body;
use http_body_util::BodyExt;
use tollgate::Verdict;
use tollgate::http::{Extracted, HeaderLines, RateLimitLine, Rejection, host_of};
use tollgate_config::BodyStyle;
use tollgate_core::{Decision, Principal, normalise_path};

use super::body::{AnswerBody, ClientBody, From};
use super::ending::{Ending, Story};
use super::forward::{self, Forwarding};
use super::grpc;
use super::rewrite;
use super::validate::{self, Refusal};
use super::watch::Watch;
use crate::live::{Gate, Live};
use crate::request_id;
use crate::ruling::{Stop, ruling};
use crate::telemetry::metrics::RequestOutcome;

/// One client's connection, as its requests see it.
pub(super) struct Caller {
    pub(super) gate: Arc<Gate>,
    pub(super) watch: Arc<Watch>,
    pub(super) peer: SocketAddr,
    pub(super) is_tls: bool,
    pub(super) is_http2: bool,
}

/// Answers a request, whatever it is.
pub(super) async fn answer(caller: &Arc<Caller>, mut parts: Parts, body: ClientBody) -> Response<AnswerBody> {
    let live = Arc::clone(&caller.gate.live());
    let mut ending = Ending::new(caller, request_id::next());
    if live.log_access {
        ending.story = Some(Box::new(Story::of(&parts)));
    }
    let mut response = match decide(caller, &live, &mut parts, &mut ending).await {
        Ok(passed) => forward_it(caller, &live, &mut parts, body, passed, &mut ending).await,
        Err(refused) => refuse(caller, &parts.headers, body, refused, &mut ending).await,
    };
    response.headers_mut().insert(request_id::HEADER, ending.request_id.clone());
    ending.status = response.status().as_u16();
    response.map(|from| AnswerBody::new(from, ending))
}

/// A request that may go on.
struct Passed {
    client_ip: Option<IpAddr>,
    host: Option<String>,
    decision: Option<Decision>,
}

/// A request that may not.
struct Refused {
    response: Response<Bytes>,
    outcome: RequestOutcome,
    /// Where the request ends is in doubt, so nothing after it is read.
    closes: bool,
}

impl Refused {
    fn new(outcome: RequestOutcome, response: Response<Bytes>) -> Self {
        Self { response, outcome, closes: false }
    }
}

/// Everything before a server is touched.
async fn decide(caller: &Caller, live: &Live, parts: &mut Parts, ending: &mut Ending) -> Result<Passed, Refused> {
    validate::validate(parts, &live.bounds, caller.is_http2).map_err(|refusal| malformed(&refusal))?;
    let path = match parts.uri.path() {
        // `OPTIONS *` is about the server as a whole: it counts as its root, and goes on as it is.
        "*" => Ok(Cow::Borrowed("/")),
        path => normalise_path(path),
    };
    let path = match path {
        Ok(path) => path,
        Err(ambiguous) => {
            return Err(reject(live, parts, &Rejection::AmbiguousPath(ambiguous), RequestOutcome::Refused));
        }
    };
    let extracted = Extracted {
        client_ip: live.client_ip.resolve(Some(caller.peer.ip()), &parts.headers),
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
        return Err(reject(live, parts, &Rejection::TwinHeader(&twin), RequestOutcome::Refused));
    }
    let meet = |known: &Principal| {
        if let Some(story) = &mut ending.story {
            story.principal = Some(known.id.clone());
        }
    };
    let decision = match ruling(&caller.gate, live, &extracted, &parts.headers, meet).await {
        Ok(decision) => decision,
        Err(Stop::Denied) => {
            return Err(Refused::new(RequestOutcome::Denied, sentence(StatusCode::FORBIDDEN, "Forbidden")));
        }
        Err(Stop::Unauthorized(unauthorized)) => {
            let mut response = sentence(StatusCode::UNAUTHORIZED, unauthorized.to_string());
            response.headers_mut().insert(WWW_AUTHENTICATE, unauthorized.challenge());
            return Err(Refused::new(RequestOutcome::Unauthorized, response));
        }
        Err(Stop::Verdict(verdict)) => {
            let refused = verdict_response(live, parts, &verdict, ending);
            if live.log_rejections {
                let line = RateLimitLine::new(&extracted.subject(), refused.response.status());
                caller.gate.access_log.rate_limit_line(&line);
            }
            return Err(refused);
        }
    };
    let (client_ip, host) = (extracted.client_ip, extracted.host.map(Cow::into_owned));
    if let Cow::Owned(path) = extracted.path {
        let too_long = |()| reject(live, parts, &Rejection::PathTooLong, RequestOutcome::Refused);
        parts.uri = with_path(&parts.uri, &path).map_err(too_long)?;
    }
    Ok(Passed { client_ip, host, decision })
}

fn malformed(refusal: &Refusal) -> Refused {
    let mut response = sentence(refusal.status(), refusal.to_string());
    if refusal.status() == StatusCode::METHOD_NOT_ALLOWED {
        let usual = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        response.headers_mut().insert(ALLOW, usual);
    }
    Refused { response, outcome: RequestOutcome::Refused, closes: refusal.closes() }
}

fn verdict_response(live: &Live, parts: &Parts, verdict: &Verdict, ending: &mut Ending) -> Refused {
    match verdict {
        Verdict::Reject(decision) => {
            if let Some(story) = &mut ending.story {
                story.limit = decision.denials().next().map(|(limit, _)| limit.name.clone());
            }
            reject(live, parts, &Rejection::Limited(decision), RequestOutcome::Limited)
        }
        Verdict::Unavailable { status, .. } => {
            reject(live, parts, &Rejection::Unavailable(*status), RequestOutcome::Unavailable)
        }
        Verdict::Unidentified(missing) => {
            reject(live, parts, &Rejection::Unidentified(missing), RequestOutcome::Refused)
        }
        Verdict::Forward(_) | Verdict::ForwardUnchecked(_) => {
            Refused::new(RequestOutcome::Refused, sentence(StatusCode::INTERNAL_SERVER_ERROR, ""))
        }
    }
}

/// In the form that the caller prefers, or the operator.
fn reject(live: &Live, parts: &Parts, rejection: &Rejection<'_>, outcome: RequestOutcome) -> Refused {
    let preferred = match live.body {
        BodyStyle::Auto => return Refused::new(outcome, rejection.respond(&parts.headers, &live.headers)),
        BodyStyle::Text => "text/plain",
        BodyStyle::Json => "application/problem+json",
    };
    let mut headers = parts.headers.clone();
    headers.insert(ACCEPT, HeaderValue::from_static(preferred));
    Refused::new(outcome, rejection.respond(&headers, &live.headers))
}

/// A plain answer of ours.
pub(super) fn sentence(status: StatusCode, words: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(words.into());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
    response
}

/// Answers without a server. What is left of a small body is read, so that the connection can go on; a large one ends it.
async fn refuse(
    caller: &Caller,
    headers: &HeaderMap,
    body: ClientBody,
    refused: Refused,
    ending: &mut Ending,
) -> Response<From> {
    ending.outcome = refused.outcome;
    let goes_on = !refused.closes && (body.is_end_stream() || Box::pin(drained(headers, body)).await);
    let is_call = grpc::is_call(headers);
    let response = if is_call { grpc::in_words(refused.response) } else { refused.response };
    let mut response = response.map(From::us);
    if !goes_on && !caller.is_http2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether a body came to its end soon.
async fn drained(headers: &HeaderMap, mut body: ClientBody) -> bool {
    const MOST: u64 = 64 * 1024;
    const LONGEST: Duration = Duration::from_millis(100);
    // Who waits for a word before sending the body need not send it.
    if headers.contains_key(EXPECT) || body.size_hint().lower() > MOST {
        return false;
    }
    let read = async {
        let mut left = MOST;
        while let Some(frame) = body.frame().await {
            let length = frame.ok()?.data_ref().map_or(0, |data| data.len() as u64);
            left = left.checked_sub(length)?;
        }
        Some(())
    };
    matches!(tokio::time::timeout(LONGEST, read).await, Ok(Some(())))
}

async fn forward_it(
    caller: &Arc<Caller>,
    live: &Arc<Live>,
    parts: &mut Parts,
    body: ClientBody,
    passed: Passed,
    ending: &mut Ending,
) -> Response<From> {
    let is_call = grpc::is_call(&parts.headers);
    let (upgrade, request_id) = (rewrite::upgrade_of(parts), ending.request_id.clone());
    let hop = rewrite::Hop {
        client_ip: passed.client_ip,
        peer: caller.peer.ip(),
        peer_is_trusted: live.trusts(caller.peer.ip()),
        scheme: if caller.is_tls { "https" } else { "http" },
        request_id: &request_id,
        upgrade: upgrade.as_ref(),
        has_body: !body.is_end_stream(),
        key_headers: &live.header_names,
    };
    let forwarding = Forwarding { caller, live, host: passed.host.as_deref(), hop: &hop };
    let forwarded = forward::forward(&forwarding, parts, body).await;
    let mut response = match forwarded {
        Ok(forwarded) => {
            ending.outcome = RequestOutcome::Forwarded;
            if let Some(story) = &mut ending.story {
                story.upstream = Some(forwarded.server.authority.clone());
            }
            forwarded.response
        }
        Err(failure) => {
            ending.outcome = RequestOutcome::UpstreamError;
            tracing::debug!(request_id = ?ending.request_id, "{failure}");
            let response = failure.response();
            if is_call { grpc::in_words(response) } else { response }.map(From::us)
        }
    };
    if let Some(decision) = &passed.decision {
        live.headers.write(decision, response.headers_mut());
    }
    response
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
    body.is_end_stream() && parts.headers.get(CONTENT_LENGTH).is_none_or(|length| length == "0")
}
