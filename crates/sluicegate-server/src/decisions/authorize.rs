//! Gateways that ask whether a request of theirs may go on: nginx, Traefik, Caddy, Envoy.
//!
//! Each flavour reads one set of headers about that request and no other: what a client may have sent itself is never
//! believed. The answer is in the status.

use std::borrow::Cow;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{Response, StatusCode, Uri};
use http_body_util::Full;
use sluicegate::Verdict;
use sluicegate::http::{Extracted, HeaderLines, RateLimitLine, Rejection, host_of};
use sluicegate_config::BodyStyle;
use sluicegate_core::{Decision, normalise_path};

use super::http::{Problem, Reply};
use super::{Asking, Desk};
use crate::live::Live;
use crate::ruling::{Stop, ruling};
use crate::telemetry::metrics::DecisionAnswer;

/// What kind of gateway asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    /// `auth_request`: of refusals, only 401 and 403 reach the client.
    Nginx,
    /// Traefik's `forwardAuth` and Caddy's `forward_auth`: the whole answer reaches the client.
    ForwardAuth,
    /// `ext_authz` over HTTP: 5xx means that we are out of order, which may let requests pass.
    Envoy,
}

impl Flavour {
    /// The headers that name method, target and host of the request that is asked about; Envoy's question has them itself.
    fn origin_headers(self) -> Option<[HeaderName; 3]> {
        let names = match self {
            Self::Nginx => ["x-original-method", "x-original-uri", "x-original-host"],
            Self::ForwardAuth => ["x-forwarded-method", "x-forwarded-uri", "x-forwarded-host"],
            Self::Envoy => return None,
        };
        Some(names.map(HeaderName::from_static))
    }

    /// The status that makes the gateway refuse.
    fn refusal(self, status: StatusCode) -> StatusCode {
        match self {
            Self::Nginx if status != StatusCode::UNAUTHORIZED => StatusCode::FORBIDDEN,
            Self::Envoy if status.is_server_error() => StatusCode::FORBIDDEN,
            Self::Nginx | Self::ForwardAuth | Self::Envoy => status,
        }
    }
}

/// Whether a gateway may let its request go on. `rest` is what came after the flavour's path.
pub(super) async fn answer(
    desk: &Desk,
    asking: &Asking,
    (flavour, rest): (Flavour, &str),
    peer: SocketAddr,
    parts: &Parts,
) -> Reply {
    let live = desk.gate.live();
    let decided = match Origin::of(flavour, rest, parts) {
        Ok(origin) => decide(desk, &live, &origin, peer, &parts.headers).await,
        Err(Misread::Client) => {
            let response = sentence(StatusCode::BAD_REQUEST, "the target is no text");
            Err(Refused {
                counted: DecisionAnswer::Refused,
                decision: None,
                response,
            })
        }
        Err(Misread::Gateway(problem)) => {
            asking.answered(&desk.gate, DecisionAnswer::Refused, None);
            return problem.into();
        }
    };
    match decided {
        Ok(decision) => {
            asking.answered(&desk.gate, DecisionAnswer::Allowed, decision.as_ref());
            passed(&live, decision.as_ref())
        }
        Err(refused) => {
            asking.answered(&desk.gate, refused.counted, refused.decision.as_ref());
            refused.reply(flavour)
        }
    }
}

/// The request that is asked about, as the gateway names it.
struct Origin<'a> {
    method: &'a str,
    path: &'a str,
    host: Option<Cow<'a, str>>,
}

/// Why nobody can tell which request is asked about.
enum Misread {
    /// The gateway did not say, or let its client say.
    Gateway(Problem),
    /// The client sent what is no text.
    Client,
}

impl<'a> Origin<'a> {
    fn of(flavour: Flavour, rest: &'a str, parts: &'a Parts) -> Result<Self, Misread> {
        let Some([method, target, host]) = flavour.origin_headers() else {
            let path = if rest.is_empty() { "/" } else { rest };
            return Ok(Self {
                method: parts.method.as_str(),
                path,
                host: host_of(&parts.uri, &parts.headers),
            });
        };
        let text = |name| {
            only(&parts.headers, name)?
                .to_str()
                .map_err(|_| Misread::Client)
        };
        let path = text(&target)?.split(['?', '#']).next().unwrap_or_default();
        let host = HeaderMap::from_iter([(HOST, only(&parts.headers, &host)?.clone())]);
        let host = host_of(&Uri::default(), &host).map(|host| Cow::Owned(host.into_owned()));
        Ok(Self {
            method: text(&method)?,
            path,
            host,
        })
    }
}

/// A header that the gateway must set, once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a HeaderValue, Misread> {
    let problem = |what: &'static str| Misread::Gateway(Problem::of_field(name.as_str(), what));
    let mut lines = headers.get_all(name).iter();
    let line = lines
        .next()
        .ok_or_else(|| problem("is missing: the gateway must set it"))?;
    match lines.next() {
        None => Ok(line),
        Some(_) => Err(problem(
            "stands there twice: the gateway must replace what its client sent",
        )),
    }
}

/// A request that may not go on.
struct Refused {
    counted: DecisionAnswer,
    /// What the limits said, if one of them refused.
    decision: Option<Decision>,
    response: Response<Bytes>,
}

impl Refused {
    fn reply(self, flavour: Flavour) -> Reply {
        let mut response = self.response;
        *response.status_mut() = flavour.refusal(response.status());
        response.map(Full::new)
    }
}

/// The same questions that the proxy asks, in the same order.
async fn decide(
    desk: &Desk,
    live: &Live,
    origin: &Origin<'_>,
    peer: SocketAddr,
    headers: &HeaderMap,
) -> Result<Option<Decision>, Refused> {
    let reject = |rejection: &Rejection<'_>, counted| Refused {
        counted,
        decision: None,
        response: worded(live, headers, rejection),
    };
    let path = match origin.path {
        "*" => Ok(Cow::Borrowed("/")),
        path => normalise_path(path),
    };
    let path = path.map_err(|ambiguous| {
        reject(
            &Rejection::AmbiguousPath(ambiguous),
            DecisionAnswer::Refused,
        )
    })?;
    let extracted = Extracted {
        client_ip: live.client_ip.resolve(Some(peer.ip()), headers),
        method: origin.method,
        host: origin.host.clone(),
        path,
        headers: HeaderLines(headers),
        principal: None,
    };
    if let Some(twin) = live.key_headers.find_ambiguous(&live.policy, headers) {
        return Err(reject(
            &Rejection::AmbiguousHeader(&twin),
            DecisionAnswer::Refused,
        ));
    }
    let verdict = match ruling(&desk.gate, live, &extracted, headers, |_| {}).await {
        Ok(passed) => return Ok(passed.decision),
        Err(Stop::Denied) => {
            return Err(Refused {
                counted: DecisionAnswer::Denied,
                decision: None,
                response: sentence(StatusCode::FORBIDDEN, "Forbidden"),
            });
        }
        Err(Stop::Unauthorized(unauthorized)) => {
            let mut response = sentence(StatusCode::UNAUTHORIZED, unauthorized.to_string());
            response
                .headers_mut()
                .insert(WWW_AUTHENTICATE, unauthorized.challenge());
            return Err(Refused {
                counted: DecisionAnswer::Unauthorized,
                decision: None,
                response,
            });
        }
        Err(Stop::Verdict(verdict)) => verdict,
    };
    let mut refused = match &verdict {
        Verdict::Reject(decision) => reject(&Rejection::Limited(decision), DecisionAnswer::Limited),
        Verdict::Unavailable { status, .. } => reject(
            &Rejection::Unavailable(*status),
            DecisionAnswer::Unavailable,
        ),
        Verdict::Unidentified(missing) => {
            reject(&Rejection::Unidentified(missing), DecisionAnswer::Refused)
        }
        // The two that pass do not stop a request.
        Verdict::Forward(_) | Verdict::ForwardUnchecked(_) => return Ok(None),
    };
    if live.log_rejections {
        let line = RateLimitLine::new(&extracted.subject(), refused.response.status());
        desk.gate.access_log.rate_limit_line(&line);
    }
    if let Verdict::Reject(decision) = verdict {
        refused.decision = Some(decision);
    }
    Err(refused)
}

/// 200 and nothing else would be a yes to every gateway; what is left goes with it.
fn passed(live: &Live, decision: Option<&Decision>) -> Reply {
    let mut reply = Response::new(Full::default());
    if let Some(decision) = decision {
        live.headers.write(decision, reply.headers_mut());
    }
    reply
}

/// In the form that the client prefers, or the operator. Never as gRPC, whose refusals are 200: that would be a yes.
fn worded(live: &Live, headers: &HeaderMap, rejection: &Rejection<'_>) -> Response<Bytes> {
    let preferred: Vec<HeaderValue> = match live.body {
        BodyStyle::Auto => headers.get_all(ACCEPT).iter().cloned().collect(),
        BodyStyle::Text => vec![HeaderValue::from_static("text/plain")],
        BodyStyle::Json => vec![HeaderValue::from_static("application/problem+json")],
    };
    let mut asked = HeaderMap::new();
    for line in preferred {
        asked.append(ACCEPT, line);
    }
    rejection.respond(&asked, &live.headers)
}

fn sentence(status: StatusCode, words: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(words.into());
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
