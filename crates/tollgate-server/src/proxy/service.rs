//! One request: looked at, decided, forwarded or refused.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tollgate::Verdict;
use tollgate::http::{Extracted, HeaderLines, Rejection, host_of};
use tollgate_config::BodyStyle;
use tollgate_core::{Decision, Principal, Stage, normalise_path};

use super::body::AnswerBody;
use super::forward::{self, Forwarding};
use super::rewrite;
use super::validate::{self, Refusal};
use super::watch::Watch;
use crate::access::Ruling;
use crate::auth::Identity;
use crate::live::{Gate, Live};
use crate::request_id;

/// One client's connection, as its requests see it.
pub(super) struct Caller {
    pub(super) gate: Arc<Gate>,
    pub(super) watch: Arc<Watch>,
    pub(super) peer: SocketAddr,
    pub(super) is_tls: bool,
    pub(super) is_http2: bool,
}

/// Answers a request, whatever it is.
pub(super) async fn answer(
    caller: Arc<Caller>,
    request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    caller.watch.begin();
    let live = Arc::clone(&caller.gate.live());
    let (mut parts, body) = request.into_parts();
    let response = match decide(&caller, &live, &mut parts).await {
        Ok(passed) => forward_it(&caller, &live, parts, body, passed).await,
        Err(refused) => refuse(&caller, &parts.headers, body, refused).await,
    };
    Ok(response)
}

/// A request that may go on.
struct Passed {
    client_ip: Option<std::net::IpAddr>,
    host: Option<String>,
    decision: Option<Decision>,
}

/// A request that may not.
struct Refused {
    response: Response<Bytes>,
    /// Where the request ends is in doubt, so nothing after it is read.
    closes: bool,
}

impl From<Response<Bytes>> for Refused {
    fn from(response: Response<Bytes>) -> Self {
        Self { response, closes: false }
    }
}

/// Everything before a server is touched.
async fn decide(caller: &Caller, live: &Live, parts: &mut Parts) -> Result<Passed, Refused> {
    validate::validate(parts, &live.bounds, caller.is_http2).map_err(malformed)?;
    let normal = match normalise_path(parts.uri.path()) {
        Ok(path) => path,
        Err(ambiguous) => return Err(reject(live, parts, &Rejection::AmbiguousPath(ambiguous))),
    };
    let extracted = Extracted {
        client_ip: live.client_ip.resolve(Some(caller.peer.ip()), &parts.headers),
        method: parts.method.as_str(),
        host: host_of(&parts.uri, &parts.headers),
        path: normal,
        headers: HeaderLines(&parts.headers),
        principal: None,
    };
    if let Some(twin) = live.key_headers.twin_in(&live.policy, &parts.headers) {
        return Err(reject(live, parts, &Rejection::TwinHeader(&twin)));
    }
    let decision = match ruling(caller, live, &extracted, &parts.headers).await {
        Ok(decision) => decision,
        Err(Stop::Denied) => return Err(sentence(StatusCode::FORBIDDEN, "Forbidden").into()),
        Err(Stop::Unauthorized(response)) => return Err(response.into()),
        Err(Stop::Verdict(verdict)) => {
            log_rejection(caller, live, &extracted, &verdict);
            return Err(verdict_response(live, parts, &verdict));
        }
    };
    let (client_ip, host) = (extracted.client_ip, extracted.host.map(Cow::into_owned));
    if let Cow::Owned(path) = extracted.path {
        parts.uri = with_path(&parts.uri, &path).map_err(|()| reject(live, parts, &Rejection::PathTooLong))?;
    }
    Ok(Passed { client_ip, host, decision })
}

/// Why a well-formed request may not go on.
enum Stop {
    Denied,
    Unauthorized(Response<Bytes>),
    Verdict(Verdict),
}

/// Lists, limits, credentials, and the limits that need those.
async fn ruling(
    caller: &Caller,
    live: &Live,
    extracted: &Extracted<'_>,
    headers: &HeaderMap,
) -> Result<Option<Decision>, Stop> {
    let by_address = extracted.client_ip.and_then(|address| live.access.of_address(address));
    if by_address == Some(Ruling::Deny) {
        return Err(Stop::Denied);
    }
    let is_exempt = by_address == Some(Ruling::Allow);
    if !live.auth.is_configured() {
        return if is_exempt { Ok(None) } else { charge(caller, live, extracted, Stage::Whole, None).await };
    }
    let first = if is_exempt { None } else { charge(caller, live, extracted, Stage::BeforePrincipal, None).await? };
    let principal = match live.auth.authenticate(headers, SystemTime::now()) {
        Identity::Anonymous => None,
        Identity::Known(principal) => Some(principal),
        Identity::Refused(unauthorized) => {
            let mut response = sentence(StatusCode::UNAUTHORIZED, unauthorized.to_string());
            response.headers_mut().insert(WWW_AUTHENTICATE, unauthorized.challenge());
            return Err(Stop::Unauthorized(response));
        }
    };
    match principal.as_deref().and_then(|known| live.access.of_principal(&known.id)) {
        Some(Ruling::Deny) => return Err(Stop::Denied),
        Some(Ruling::Allow) => return Ok(first),
        None if is_exempt => return Ok(None),
        None => {}
    }
    let second = charge(caller, live, extracted, Stage::AfterPrincipal, principal.as_deref()).await?;
    Ok(match (first, second) {
        (Some(first), Some(second)) => Some(first.and(&second)),
        (first, second) => first.or(second),
    })
}

async fn charge(
    caller: &Caller,
    live: &Live,
    extracted: &Extracted<'_>,
    stage: Stage,
    principal: Option<&Principal>,
) -> Result<Option<Decision>, Stop> {
    let mut subject = extracted.subject();
    subject.principal = principal;
    match caller.gate.limiter.check_at(&live.policy, stage, &subject, 1).await {
        Verdict::Forward(decision) => Ok(Some(decision)),
        Verdict::ForwardUnchecked(_) => Ok(None),
        verdict => Err(Stop::Verdict(verdict)),
    }
}

fn malformed(refusal: Refusal) -> Refused {
    Refused { response: sentence(refusal.status(), refusal.to_string()), closes: refusal.closes() }
}

fn verdict_response(live: &Live, parts: &Parts, verdict: &Verdict) -> Refused {
    match verdict {
        Verdict::Reject(decision) => reject(live, parts, &Rejection::Limited(decision)),
        Verdict::Unavailable { status, .. } => reject(live, parts, &Rejection::Unavailable(*status)),
        Verdict::Unidentified(missing) => reject(live, parts, &Rejection::Unidentified(missing)),
        Verdict::Forward(_) | Verdict::ForwardUnchecked(_) => sentence(StatusCode::OK, "").into(),
    }
}

/// In the form that the caller prefers, or the operator.
fn reject(live: &Live, parts: &Parts, rejection: &Rejection<'_>) -> Refused {
    let preferred = match live.body {
        BodyStyle::Auto => return rejection.respond(&parts.headers, &live.headers).into(),
        BodyStyle::Text => "text/plain",
        BodyStyle::Json => "application/problem+json",
    };
    let mut headers = parts.headers.clone();
    headers.insert(ACCEPT, HeaderValue::from_static(preferred));
    rejection.respond(&headers, &live.headers).into()
}

/// A plain answer of ours.
pub(super) fn sentence(status: StatusCode, words: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(words.into());
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, content_type);
    response
}

fn log_rejection(caller: &Caller, live: &Live, extracted: &Extracted<'_>, verdict: &Verdict) {
    let _ = (caller, live, extracted, verdict);
}

/// Answers without a server. What is left of a small body is read, so that the connection can go on; a large one ends it.
async fn refuse(caller: &Caller, headers: &HeaderMap, body: Incoming, refused: Refused) -> Response<AnswerBody> {
    let goes_on = !refused.closes && (body.is_end_stream() || drained(headers, body).await);
    let mut response = refused.response.map(|bytes| AnswerBody::ours(bytes, Arc::clone(&caller.watch)));
    if !goes_on && !caller.is_http2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether a body came to its end soon.
async fn drained(headers: &HeaderMap, mut body: Incoming) -> bool {
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
    mut parts: Parts,
    body: Incoming,
    passed: Passed,
) -> Response<AnswerBody> {
    let request_id = request_id::next();
    let upgrade = rewrite::upgrade_of(&parts);
    let hop = rewrite::Hop {
        client_ip: passed.client_ip,
        peer: caller.peer.ip(),
        peer_is_trusted: live.trusts(caller.peer.ip()),
        scheme: if caller.is_tls { "https" } else { "http" },
        request_id: &request_id,
        is_upgrade: upgrade.is_some(),
    };
    rewrite::to_upstream(&mut parts, &hop);
    let forwarding = Forwarding { caller, live, host: passed.host.as_deref(), is_upgrade: upgrade.is_some() };
    let mut response = match forward::forward(&forwarding, parts, body).await {
        Ok(mut response) => {
            rewrite::to_client(&mut response, &request_id);
            response
        }
        Err(failure) => {
            let mut response = failure.response().map(|bytes| AnswerBody::ours(bytes, Arc::clone(&caller.watch)));
            response.headers_mut().insert(request_id::HEADER, request_id);
            response
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
pub(super) fn is_bodiless(parts: &Parts, body: &Incoming) -> bool {
    body.is_end_stream() && parts.headers.get(CONTENT_LENGTH).is_none_or(|length| length == "0")
}
