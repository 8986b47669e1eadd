//! One request: looked at, decided, forwarded or refused.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_LENGTH, EXPECT, HeaderMap, WWW_AUTHENTICATE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, Uri};
use http_body::Body;
use http_body_util::BodyExt;
use sluicegate::Verdict;
use sluicegate::http::{Extracted, HeaderLines, RateLimitLine, Rejection, ResponseFields, host_of};
use sluicegate_config::BodyStyle;
use sluicegate_core::{Principal, normalise_path};

use super::answer::{Answer, AnswerLines};
use super::body::{AnswerBody, ClientBody, From};
use super::ending::{Ending, Story};
use super::forward::{self, Forwarding};
use super::grpc;
use super::rewrite;
use super::validate::{self, BodyEnd, Refusal};
use super::watch::Watch;
use crate::live::{Gate, Live};
use crate::request_id::{self, RequestId};
use crate::ruling::{self, Stop, ruling};
use crate::telemetry::TRACEPARENT;
use crate::telemetry::metrics::RequestOutcome;

/// One client's connection, as its requests see it.
pub(super) struct Caller {
    pub(super) gate: Arc<Gate>,
    pub(super) watch: Arc<Watch>,
    pub(super) peer: SocketAddr,
    pub(super) is_tls: bool,
    pub(super) is_http2: bool,
}

/// Answers a request, whatever it is; `end` is where its body ends.
pub(super) async fn answer(
    caller: &Arc<Caller>,
    mut parts: Parts,
    end: Result<BodyEnd, Refusal>,
    body: ClientBody,
) -> Answer<AnswerBody> {
    let live = Arc::clone(&caller.gate.live());
    let mut ending = Ending::new(caller, RequestId::next());
    ending.is_logged = live.log_access;
    if let Some(traces) = &caller.gate.traces {
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
    answer.map(|from| AnswerBody::new(from, ending))
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
    end: Result<BodyEnd, Refusal>,
    ending: &mut Ending,
) -> Result<Passed, Refused> {
    // First, so that no other refusal keeps a connection whose framing is in doubt.
    let valid = end.and_then(|end| validate::validate(parts, end, &live.bounds, caller.is_http2));
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
    if let Some(twin) = live
        .key_headers
        .find_ambiguous(&live.policy, &parts.headers)
    {
        return Err(reject(
            live,
            parts,
            &Rejection::AmbiguousHeader(&twin),
            RequestOutcome::Refused,
        ));
    }
    let meet = |known: &Principal| {
        if let Some(story) = &mut ending.story {
            story.principal = Some(known.id.clone());
        }
    };
    let ruled = match ruling(&caller.gate, live, &extracted, &parts.headers, meet).await {
        Ok(passed) => passed,
        Err(stop) => {
            let refused = stopped(live, parts, &stop, ending);
            if live.log_rejections && matches!(stop, Stop::Verdict(_)) {
                let line = RateLimitLine::new(&extracted.subject(), refused.answer.status);
                caller.gate.access_log.rate_limit_line(&line);
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
            let answer = Answer::sentence(StatusCode::FORBIDDEN, "Forbidden");
            Refused {
                outcome: RequestOutcome::Denied,
                answer,
            }
        }
        Stop::Unauthorized(unauthorized) => {
            let mut answer = Answer::sentence(StatusCode::UNAUTHORIZED, unauthorized.to_string());
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

fn malformed(refusal: &Refusal) -> Refused {
    let mut answer = Answer::sentence(refusal.status(), refusal.to_string());
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
            let answer = Answer::sentence(StatusCode::INTERNAL_SERVER_ERROR, "");
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
    let mut lines = AnswerLines::default();
    let mut in_form_for = |headers: &HeaderMap| rejection.write(headers, &live.headers, &mut lines);
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
) -> Answer<From> {
    ending.outcome = refused.outcome;
    let mut answer = refused.answer;
    answer.closes =
        answer.closes || !body.is_end_stream() && !Box::pin(drained(headers, body)).await;
    if grpc::is_call(headers) {
        grpc::in_words(answer)
    } else {
        answer
    }
    .map(From::us)
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
) -> Answer<From> {
    if let Some(span) = &ending.span {
        parts.headers.insert(TRACEPARENT, span.traceparent());
    }
    let is_call = grpc::is_call(&parts.headers);
    let (upgrade, request_id) = (rewrite::upgrade_of(parts), ending.request_id);
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
            .map(From::us)
        }
    };
    if let Some(decision) = &passed.ruled.decision {
        live.headers.write(decision, &mut answer.lines);
    }
    answer
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
