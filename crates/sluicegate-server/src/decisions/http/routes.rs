//! The paths and what they do.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http_body::Body;
use http_body_util::{BodyExt, Limited};
use sluicegate::http::HeaderLines;
use sluicegate_net::ClientBody;
use tokio::time::timeout;

use super::question::{self, Asked, Check};
use super::reply::{self, AnswerJson, BatchJson, EntryJson, ResetJson};
use super::{Problem, Reply};
use crate::decisions::authorize::{self, Flavour};
use crate::decisions::{About, Answer, Asking, Desk, GiveBackError, SharedToken, openapi};
use crate::live::Live;
use crate::telemetry::Way;
use crate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};

/// What is done at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::decisions) enum Route {
    Check,
    Batch,
    Peek,
    Refund,
    Reset,
    Authorize(Flavour),
    OpenApi,
}

/// Every path there is. Those of gateways take every method, and Envoy's goes on with the path it asks about.
pub(in crate::decisions) const ROUTES: [(&str, Route); 9] = [
    ("/v1/check", Route::Check),
    ("/v1/check/batch", Route::Batch),
    ("/v1/peek", Route::Peek),
    ("/v1/refund", Route::Refund),
    ("/v1/reset", Route::Reset),
    ("/v1/authorize/nginx", Route::Authorize(Flavour::Nginx)),
    (
        "/v1/authorize/forward-auth",
        Route::Authorize(Flavour::ForwardAuth),
    ),
    ("/v1/authorize/envoy", Route::Authorize(Flavour::Envoy)),
    ("/openapi.json", Route::OpenApi),
];

impl Route {
    /// The path of ours that a path begins with, its route, and what comes after it.
    fn find(path: &str) -> Option<(&'static str, Self, &str)> {
        ROUTES.into_iter().find_map(|(own, route)| {
            let rest = path.strip_prefix(own)?;
            let is_whole = rest.is_empty()
                || (route == Self::Authorize(Flavour::Envoy) && rest.starts_with('/'));
            is_whole.then_some((own, route, rest))
        })
    }

    fn protocol(self) -> DecisionProtocol {
        if matches!(self, Self::Authorize(_)) {
            DecisionProtocol::Authorize
        } else {
            DecisionProtocol::Http
        }
    }
}

/// Answers a request, whatever it is. The body is read as far as it is needed.
pub(super) async fn answer(
    desk: &Desk,
    peer: SocketAddr,
    parts: &Parts,
    body: &mut ClientBody,
) -> Reply {
    let Some((path, route, rest)) = Route::find(parts.uri.path()) else {
        return Problem::new(StatusCode::NOT_FOUND, "there is nothing here").into();
    };
    let asking = Asking::begin(&desk.gate, route.protocol(), &parts.headers, peer);
    let reply = answer_at(desk, &asking, (route, rest), peer, parts, body).await;
    let way = Way::Http {
        method: parts.method.as_str(),
        route: path,
        status: reply.status().as_u16(),
    };
    asking.end(&desk.gate, way);
    reply
}

async fn answer_at(
    desk: &Desk,
    asking: &Asking,
    (route, rest): (Route, &str),
    peer: SocketAddr,
    parts: &Parts,
    body: &mut ClientBody,
) -> Reply {
    if let Err(problem) = admitted(desk, route, &parts.headers) {
        asking.answered(&desk.gate, DecisionAnswer::Unauthorized, None);
        let mut reply = problem.reply();
        if reply.status() == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"sluicegate\"");
            reply
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        return reply;
    }
    if let Route::Authorize(flavour) = route {
        // Drains the body so that the connection can be reused.
        let _ = read_body(body).await;
        return authorize::answer(desk, asking, (flavour, rest), peer, parts).await;
    }
    let allowed = if route == Route::OpenApi {
        "GET, HEAD"
    } else {
        "POST"
    };
    if !allowed
        .split(", ")
        .any(|method| method == parts.method.as_str())
    {
        let mut reply =
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("only {allowed}")).reply();
        reply
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static(allowed));
        return reply;
    }
    if route == Route::OpenApi {
        return reply::with_type(
            "application/json",
            Bytes::from_static(openapi::DOCUMENT.as_bytes()),
        );
    }
    let answered = match question_in(&parts.headers, body).await {
        Ok(body) => Box::pin(answer_json(desk, asking, route, &body)).await,
        Err(problem) => Err(problem),
    };
    answered.unwrap_or_else(|problem| {
        asking.answered(&desk.gate, DecisionAnswer::Refused, None);
        problem.into()
    })
}

/// Whether whoever asks may. Gateways pass `Authorization` on from their clients, so theirs is another header.
fn admitted(desk: &Desk, route: Route, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(token) = &desk.token else {
        return Ok(());
    };
    if matches!(route, Route::Authorize(_)) {
        // Not 401: the client would take it for a question about its own credentials.
        let is_shown = SharedToken::in_own_header(headers).is_some_and(|shown| token.admits(shown));
        let why = "the gateway must show the token in X-Sluicegate-Token";
        return if is_shown {
            Ok(())
        } else {
            Err(Problem::new(StatusCode::FORBIDDEN, why))
        };
    }
    let is_shown = SharedToken::in_either_header(headers).is_some_and(|shown| token.admits(shown));
    let why = "Authorization: Bearer with the token is required";
    if is_shown {
        Ok(())
    } else {
        Err(Problem::new(StatusCode::UNAUTHORIZED, why))
    }
}

/// The body of a request that asks in JSON.
async fn question_in(headers: &HeaderMap, body: &mut ClientBody) -> Result<Bytes, Problem> {
    // Only browsers say it, for a page that has no business here.
    if headers.contains_key(header::ORIGIN) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "pages in a browser do not ask here",
        ));
    }
    if !is_json(headers) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type: application/json is required",
        ));
    }
    read_body(body).await
}

/// Whether a body says that it is JSON. A page of another site cannot send that without asking first, and is not told yes.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let kind = content_type
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

async fn read_body(body: &mut ClientBody) -> Result<Bytes, Problem> {
    const BYTES_MAX: usize = 64 * 1024;
    const LONGEST: Duration = Duration::from_secs(10);
    let too_large = || {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("at most {BYTES_MAX} bytes"),
        )
    };
    if body.size_hint().lower() > BYTES_MAX as u64 {
        return Err(too_large());
    }
    match timeout(LONGEST, Limited::new(body, BYTES_MAX).collect()).await {
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(Problem::new(StatusCode::BAD_REQUEST, "the body broke off")),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body took too long",
        )),
    }
}

async fn answer_json(
    desk: &Desk,
    asking: &Asking,
    route: Route,
    body: &[u8],
) -> Result<Reply, Problem> {
    let live = desk.gate.live();
    match route {
        Route::Check | Route::Peek => {
            let answer = ask(
                desk,
                asking,
                &live,
                &question::check(body)?,
                route == Route::Peek,
            )
            .await?;
            Ok(reply::json(&AnswerJson::new(&answer)))
        }
        Route::Batch => batch(desk, asking, &live, body).await,
        Route::Refund => {
            let refund = question::refund(body)?;
            let key: Vec<&str> = refund.counter.key.iter().map(String::as_str).collect();
            let given = desk
                .refund(
                    &live,
                    (&refund.counter.limit, &key),
                    refund.cost,
                    refund.age,
                )
                .await;
            Ok(reply::json(&AnswerJson::new(&given.map_err(not_given)?)))
        }
        Route::Reset => {
            let counter = question::reset(body)?;
            let key: Vec<&str> = counter.key.iter().map(String::as_str).collect();
            desk.reset(&live, (&counter.limit, &key))
                .await
                .map_err(not_given)?;
            Ok(reply::json(&ResetJson { reset: true }))
        }
        Route::Authorize(_) | Route::OpenApi => {
            Err(Problem::new(StatusCode::NOT_FOUND, "there is nothing here"))
        }
    }
}

/// Answers several checks side by side; a mistake in one of them is the answer to that one.
async fn batch(desk: &Desk, asking: &Asking, live: &Live, body: &[u8]) -> Result<Reply, Problem> {
    let answers = join_all(question::batch(body)?.into_iter().map(async |entry| {
        let check = question::check(entry.get().as_bytes())?;
        ask(desk, asking, live, &check, false).await
    }));
    let answers = answers.await;
    let answers = answers.iter().map(|answer| match answer {
        Ok(answer) => EntryJson::Answer(AnswerJson::new(answer)),
        Err(problem) => EntryJson::Problem { problem },
    });
    Ok(reply::json(&BatchJson {
        answers: answers.collect(),
    }))
}

async fn ask(
    desk: &Desk,
    asking: &Asking,
    live: &Live,
    check: &Check,
    is_peek: bool,
) -> Result<Answer, Problem> {
    let put = async |about: &About<'_>| match is_peek {
        true => desk.peek(live, asking, about, check.cost).await,
        false => desk.check(live, asking, about, check.cost).await,
    };
    match &check.about {
        Asked::Counter(counter) => {
            let key: Vec<&str> = counter.key.iter().map(String::as_str).collect();
            let answer = put(&About::Counter {
                limit: &counter.limit,
                key: &key,
            })
            .await;
            answer.map_err(|missing| Problem::unidentified(&missing, true))
        }
        Asked::Request(described) => {
            if let Some(twin) = live.key_headers.twin_in(&live.policy, &described.headers) {
                return Err(Problem::of_field("subject.headers", twin.to_string()));
            }
            let (descriptors, lines) = (described.descriptors(), HeaderLines(&described.headers));
            let subject = described.subject(&descriptors, &lines);
            let answer = put(&About::Request {
                subject,
                headers: &described.headers,
            })
            .await;
            answer.map_err(|missing| Problem::unidentified(&missing, false))
        }
    }
}

fn not_given(error: GiveBackError) -> Problem {
    match error {
        GiveBackError::Unidentified(missing) => Problem::unidentified(&missing, true),
        GiveBackError::Store(error) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
    }
}
