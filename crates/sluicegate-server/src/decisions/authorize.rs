//! External authorization for gateways: nginx, Traefik, Caddy, Envoy.
//!
//! A gateway describes a client's request in headers, and the status of our response tells whether
//! to forward it. Each flavour reads its own set of headers and no other, so that a header which
//! the gateway does not overwrite, and the client may have sent, is never believed.

use std::borrow::Cow;
use std::net::SocketAddr;

use bytes::Bytes;
use http::header::{HOST, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{StatusCode, Uri};
use sluicegate::http::{RequestHead, host_of, split_target};
use sluicegate_gate::admission::{Purpose, SentRequest};
use sluicegate_gate::external::HeaderSpelling;
use sluicegate_gate::refusal_response::{GrpcClients, write_refusal};
use sluicegate_gate::request_id::RequestId;
use sluicegate_gate::telemetry::metrics::DecisionAnswer;

use super::http::{HttpReply, Problem};
use super::{DecisionCall, DecisionsState};

/// The kind of gateway that asks.
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
    /// The headers with method, target and host of the client's request; `None` for Envoy, whose
    /// own request line has them.
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

/// Answers whether a gateway may forward its client's request. `rest` is the part of the path after
/// the flavour's own.
pub(super) async fn answer(
    state: &DecisionsState,
    call: &DecisionCall,
    (flavour, rest): (Flavour, &str),
    peer: SocketAddr,
    parts: &Parts,
) -> HttpReply {
    let snapshot = state.gate.snapshot();
    let origin = match OriginalRequest::of(flavour, rest, parts) {
        Ok(origin) => origin,
        Err(error) => {
            call.refuse(&state.gate, DecisionAnswer::Refused);
            return error.reply(flavour);
        }
    };
    let head = RequestHead {
        method: origin.method,
        path: origin.path,
        query: origin.query,
        // Nothing is forwarded from here.
        target: None,
        host: origin.host,
        client_ip: snapshot.client_ip.resolve(Some(peer.ip()), &parts.headers),
        headers: &parts.headers,
        // The gateway ended the client's TLS and does not say.
        sni: None,
        principal: None,
    };
    let request = SentRequest {
        head,
        spelling: HeaderSpelling::of_parts(parts),
    };
    let admission = call
        .admit(&state.gate, &snapshot, request, Purpose::Spend)
        .await;
    let mut reply = HttpReply::empty();
    match admission {
        // Status 200 is a yes to every gateway; the rate limit headers go with it.
        Ok(request) => {
            if let Some(decision) = &request.admitted.decision {
                snapshot.headers.write(decision, &mut reply);
            }
        }
        Err(refusal) => {
            let is_trusted = snapshot.trusts(peer.ip());
            let (status, body) = write_refusal(
                &refusal,
                &snapshot,
                &parts.headers,
                &RequestId::of_request(&parts.headers, is_trusted),
                GrpcClients::Excluded,
                &mut reply,
            );
            (reply.status, reply.body) = (flavour.refusal(status), body);
        }
    }
    reply
}

/// The client's request, as the gateway describes it.
struct OriginalRequest<'a> {
    method: &'a str,
    path: &'a str,
    query: Option<&'a str>,
    host: Option<Cow<'a, str>>,
}

/// The reason why the client's request is unknown.
enum OriginError {
    /// The gateway did not say, or let its client say.
    Gateway(Problem),
    /// The client sent a target that is not text.
    NotText,
}

impl OriginError {
    fn reply(self, flavour: Flavour) -> HttpReply {
        match self {
            Self::Gateway(problem) => problem.into(),
            Self::NotText => {
                let text = Bytes::from_static(b"the target is not text");
                HttpReply {
                    status: flavour.refusal(StatusCode::BAD_REQUEST),
                    ..HttpReply::with_type("text/plain; charset=utf-8", text)
                }
            }
        }
    }
}

impl<'a> OriginalRequest<'a> {
    fn of(flavour: Flavour, rest: &'a str, parts: &'a Parts) -> Result<Self, OriginError> {
        let Some([method, target, host]) = flavour.origin_headers() else {
            let path = if rest.is_empty() { "/" } else { rest };
            return Ok(Self {
                method: parts.method.as_str(),
                path,
                query: parts.uri.query(),
                host: host_of(&parts.uri, &parts.headers),
            });
        };
        let text = |name| {
            only(&parts.headers, name)?
                .to_str()
                .map_err(|_| OriginError::NotText)
        };
        let (path, query) = split_target(text(&target)?);
        let host = HeaderMap::from_iter([(HOST, only(&parts.headers, &host)?.clone())]);
        let host = host_of(&Uri::default(), &host).map(|host| Cow::Owned(host.into_owned()));
        Ok(Self {
            method: text(&method)?,
            path,
            query,
            host,
        })
    }
}

/// A header that the gateway must set, once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<&'a HeaderValue, OriginError> {
    let problem = |what: &'static str| OriginError::Gateway(Problem::of_field(name.as_str(), what));
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
