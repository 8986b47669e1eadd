//! The paths of the HTTP endpoint and their handlers.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::join_all;
use http::StatusCode;
use http::header::{self, HeaderMap};
use http::request::Parts;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use sluicegate::http::HeaderLines;
use sluicegate_gate::admission::{Purpose, Refusal};
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_gate::telemetry::DecisionTransport;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};
use sluicegate_net::{BodyError, ClientBody};
use tokio::time::timeout;

use super::{HttpReply, Problem, reply};
use crate::decisions::authorize::{self, Flavour};
use crate::decisions::check::{self, CheckAnswer, CheckInput, CounterError};
use crate::decisions::{DecisionCall, DecisionsState, SharedToken, openapi};
use crate::json_request::{
    self, CheckRequest, CheckTarget, QuestionError, RequestDescription, is_json_body,
};

/// The operation at a path.
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

/// Every path. Those for gateways take every method, and Envoy's is followed by the path of the
/// client's request.
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
    /// The path in [`ROUTES`] that a path begins with, its route, and the rest of the path.
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

/// Answers any request, valid or not. The body is read as far as it is needed.
pub(super) async fn answer(
    state: &DecisionsState,
    peer: SocketAddr,
    parts: &Parts,
    body: &mut ClientBody,
) -> HttpReply {
    let Some((path, route, rest)) = Route::find(parts.uri.path()) else {
        let nothing = Problem::new(StatusCode::NOT_FOUND, "there is nothing here");
        return unadmitted(nothing.reply());
    };
    let call = DecisionCall::begin(&state.gate, route.protocol(), &parts.headers, peer);
    let reply = answer_at(state, &call, (route, rest), peer, parts, body).await;
    let way = DecisionTransport::Http {
        method: parts.method.as_str(),
        route: path,
        status: reply.status.as_u16(),
    };
    call.end(&state.gate, way);
    reply
}

/// Checks token and method, then hands over to the handler of the route.
async fn answer_at(
    state: &DecisionsState,
    call: &DecisionCall,
    (route, rest): (Route, &str),
    peer: SocketAddr,
    parts: &Parts,
    body: &mut ClientBody,
) -> HttpReply {
    // A body that was waited for is of somebody who was admitted.
    let is_admitted = matches!(body, ClientBody::Whole(_));
    if !is_admitted && let Err(problem) = admitted(state, route, &parts.headers) {
        call.refuse(&state.gate, DecisionAnswer::Unauthorized);
        return refused_stranger(&problem);
    }
    if let Route::Authorize(flavour) = route {
        // Drains the body so that the connection can be reused.
        let _ = read_body(body).await;
        return authorize::answer(state, call, (flavour, rest), peer, parts).await;
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
        reply.add_line(&header::ALLOW, allowed);
        return reply;
    }
    if route == Route::OpenApi {
        let document = Bytes::from_static(openapi::DOCUMENT.as_bytes());
        return HttpReply::with_type("application/json", document);
    }
    let body = match json_body(&parts.headers, body).await {
        Ok(body) => body,
        Err(problem) => {
            call.refuse(&state.gate, DecisionAnswer::Refused);
            return problem.reply();
        }
    };
    let snapshot = state.gate.snapshot();
    let json_call = JsonCall {
        state,
        snapshot: &snapshot,
        call,
    };
    let answered = match route {
        Route::Check => json_call.answer_check(&body, Purpose::Spend).await,
        Route::Peek => json_call.answer_check(&body, Purpose::Peek(0)).await,
        // The others are seldom asked, and need more room.
        _ => Box::pin(json_call.answer(route, &body)).await,
    };
    answered.unwrap_or_else(|problem| problem.reply())
}

/// The answer to somebody without the token.
fn refused_stranger(problem: &Problem) -> HttpReply {
    let mut reply = problem.reply();
    if reply.status == StatusCode::UNAUTHORIZED {
        reply.add_line(&header::WWW_AUTHENTICATE, "Bearer realm=\"sluicegate\"");
    }
    unadmitted(reply)
}

/// Marks the answer to somebody who was not admitted.
fn unadmitted(reply: HttpReply) -> HttpReply {
    HttpReply {
        is_unadmitted: true,
        ..reply
    }
}

/// True when a request has a path that is one of ours and a token that opens it.
pub(super) fn is_admitted(state: &DecisionsState, parts: &Parts) -> bool {
    Route::find(parts.uri.path())
        .is_some_and(|(_, route, _)| admitted(state, route, &parts.headers).is_ok())
}

/// Checks the token of a request. Gateways pass on the `Authorization` of their clients, so they
/// show the token in another header.
fn admitted(state: &DecisionsState, route: Route, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(token) = &state.token else {
        return Ok(());
    };
    if matches!(route, Route::Authorize(_)) {
        // Not 401: the gateway would pass it on, and its client would answer the challenge.
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

/// Reads the body of a request to the JSON API.
async fn json_body(headers: &HeaderMap, body: &mut ClientBody) -> Result<Bytes, Problem> {
    // Only browsers send it, and a page in a browser has no business here.
    if headers.contains_key(header::ORIGIN) {
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "pages in a browser do not ask here",
        ));
    }
    if !is_json_body(headers) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type: application/json is required",
        ));
    }
    read_body(body).await
}

/// The most bytes of a body.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;
/// The longest time for a body.
pub(super) const BODY_LONGEST: Duration = Duration::from_secs(10);

/// Reads a whole body within bounds of size and time.
async fn read_body(body: &mut ClientBody) -> Result<Bytes, Problem> {
    if matches!(body, ClientBody::Whole(_)) {
        let ClientBody::Whole(whole) = std::mem::replace(body, ClientBody::Empty) else {
            return Ok(Bytes::new());
        };
        return whole.into_bytes().map_err(|error| problem_of_body(&error));
    }
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return Err(problem_of_body(&BodyError::TooLarge));
    }
    // A body that came with its head needs no clock and is not copied.
    let first = match body.frame().now_or_never() {
        Some(None) => return Ok(Bytes::new()),
        Some(Some(frame)) => bytes_of(frame)?,
        None => Bytes::new(),
    };
    if body.is_end_stream() && first.len() <= BODY_BYTES_MAX {
        return Ok(first);
    }
    match timeout(BODY_LONGEST, read_rest(first, body)).await {
        Ok(read) => read,
        Err(_) => Err(problem_of_body(&BodyError::Stalled)),
    }
}

/// Reads what follows the first bytes.
async fn read_rest(first: Bytes, body: &mut ClientBody) -> Result<Bytes, Problem> {
    let mut read = BytesMut::from(first);
    loop {
        if read.len() > BODY_BYTES_MAX {
            return Err(problem_of_body(&BodyError::TooLarge));
        }
        let Some(frame) = body.frame().await else {
            return Ok(read.freeze());
        };
        read.extend_from_slice(&bytes_of(frame)?);
    }
}

/// The bytes of a frame; trailers have none.
fn bytes_of(frame: Result<Frame<Bytes>, BodyError>) -> Result<Bytes, Problem> {
    let frame = frame.map_err(|error| problem_of_body(&error))?;
    Ok(frame.into_data().unwrap_or_default())
}

fn problem_of_body(error: &BodyError) -> Problem {
    match error {
        BodyError::TooLarge => Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("at most {BODY_BYTES_MAX} bytes"),
        ),
        BodyError::Stalled => Problem::new(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
        BodyError::Closed | BodyError::Chunks(_) | BodyError::Length => {
            Problem::new(StatusCode::BAD_REQUEST, "the body broke off")
        }
    }
}

/// One call of the JSON API, with the configuration it is answered by.
#[derive(Clone, Copy)]
struct JsonCall<'a> {
    state: &'a DecisionsState,
    snapshot: &'a Snapshot,
    call: &'a DecisionCall,
}

impl JsonCall<'_> {
    /// Answers a check or a peek.
    async fn answer_check(self, body: &[u8], purpose: Purpose) -> Result<HttpReply, Problem> {
        let answer = self.check(body, purpose).await?;
        Ok(reply::of_answer(&answer))
    }

    /// Answers any other request with the configuration in force.
    async fn answer(self, route: Route, body: &[u8]) -> Result<HttpReply, Problem> {
        match route {
            Route::Batch => {
                let checks = json_request::batch(body).map_err(|mistake| self.refuse(mistake))?;
                let checks = checks
                    .into_iter()
                    .map(|entry| self.check(entry.get().as_bytes(), Purpose::Spend));
                Ok(reply::of_batch(&join_all(checks).await))
            }
            Route::Refund => self.refund(body).await,
            Route::Reset => self.reset(body).await,
            Route::Check | Route::Peek | Route::Authorize(_) | Route::OpenApi => {
                Err(Problem::new(StatusCode::NOT_FOUND, "there is nothing here"))
            }
        }
    }

    /// Counts a request whose JSON is invalid.
    fn refuse(self, mistake: QuestionError) -> Problem {
        self.call.refuse(&self.state.gate, DecisionAnswer::Refused);
        mistake.into()
    }

    /// Answers a check, or a peek at the cost that the body names.
    async fn check(self, body: &[u8], purpose: Purpose) -> Result<CheckAnswer, Problem> {
        if let Some(plain) = json_request::plain_counter_check(body) {
            return self
                .check_counter((plain.limit, &plain.key), purpose, plain.cost)
                .await;
        }
        let CheckRequest { about, cost } =
            json_request::check(body).map_err(|mistake| self.refuse(mistake))?;
        match &about {
            CheckTarget::Counter(counter) => {
                let key: Vec<&str> = counter.key.iter().map(String::as_str).collect();
                let checked = self.check_counter((&counter.limit, &key), purpose, cost);
                Box::pin(checked).await
            }
            CheckTarget::Request(described) => {
                Box::pin(self.check_request(described, purpose, cost)).await
            }
        }
    }

    async fn check_counter(
        self,
        (limit, key): (&str, &[&str]),
        purpose: Purpose,
        cost: u64,
    ) -> Result<CheckAnswer, Problem> {
        let thing = CheckInput::Counter { limit, key };
        self.check_thing(&thing, purpose, cost)
            .await
            .map_err(|refusal| Problem::of_refusal(&refusal, true))
    }

    async fn check_request(
        self,
        described: &RequestDescription,
        purpose: Purpose,
        cost: u64,
    ) -> Result<CheckAnswer, Problem> {
        let (descriptors, lines) = (described.descriptors(), HeaderLines(&described.headers));
        let thing = CheckInput::Request {
            subject: described.subject(&descriptors, &lines),
            headers: described.spelled_headers(),
        };
        self.check_thing(&thing, purpose, cost)
            .await
            .map_err(|refusal| Problem::of_refusal(&refusal, false))
    }

    async fn check_thing(
        self,
        thing: &CheckInput<'_>,
        purpose: Purpose,
        cost: u64,
    ) -> Result<CheckAnswer, Refusal> {
        let purpose = match purpose {
            Purpose::Spend => Purpose::Spend,
            Purpose::Peek(_) => Purpose::Peek(cost),
        };
        check::check(self.state, self.snapshot, self.call, thing, purpose, cost).await
    }

    async fn refund(self, body: &[u8]) -> Result<HttpReply, Problem> {
        let refund = json_request::refund(body).map_err(|mistake| self.refuse(mistake))?;
        let key: Vec<&str> = refund.counter.key.iter().map(String::as_str).collect();
        let counter = (refund.counter.limit.as_str(), &key[..]);
        let given = check::refund(self.state, self.snapshot, counter, refund.cost, refund.age);
        let answer = given.await.map_err(|error| self.not_done(&error))?;
        Ok(reply::of_answer(&answer))
    }

    async fn reset(self, body: &[u8]) -> Result<HttpReply, Problem> {
        let counter = json_request::reset(body).map_err(|mistake| self.refuse(mistake))?;
        let key: Vec<&str> = counter.key.iter().map(String::as_str).collect();
        let done = check::reset(self.state, self.snapshot, (&counter.limit, &key)).await;
        done.map_err(|error| self.not_done(&error))?;
        Ok(reply::of_reset())
    }

    /// Counts a refund or reset that failed, and makes its reason the response.
    fn not_done(self, error: &CounterError) -> Problem {
        let (answer, problem) = match error {
            CounterError::Unidentified(missing) => (
                DecisionAnswer::Refused,
                Problem::unidentified(missing, true),
            ),
            CounterError::Store(error) => (
                DecisionAnswer::Unavailable,
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            ),
        };
        self.call.refuse(&self.state.gate, answer);
        problem
    }
}
