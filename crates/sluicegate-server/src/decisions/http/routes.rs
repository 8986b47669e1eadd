//! The paths of the HTTP endpoint and their handlers.

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
use sluicegate_gate::admission::Purpose;
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_gate::telemetry::DecisionTransport;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};
use sluicegate_net::ClientBody;
use tokio::time::timeout;

use super::reply::{self, AnswerJson, BatchAnswerJson, BatchEntryJson, ResetAnswerJson};
use super::{HttpReply, Problem};
use crate::decisions::authorize::{self, Flavour};
use crate::decisions::check::{self, CheckAnswer, CheckInput, CounterError};
use crate::decisions::{DecisionCall, DecisionsState, SharedToken, openapi};
use crate::json_request::{self, CheckRequest, CheckTarget, QuestionError, is_json_body};

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
        return unadmitted(nothing.into());
    };
    let call = DecisionCall::begin(&state.gate, route.protocol(), &parts.headers, peer);
    let reply = answer_at(state, &call, (route, rest), peer, parts, body).await;
    let way = DecisionTransport::Http {
        method: parts.method.as_str(),
        route: path,
        status: reply.status().as_u16(),
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
    if let Err(problem) = admitted(state, route, &parts.headers) {
        call.refuse(&state.gate, DecisionAnswer::Unauthorized);
        let mut reply = problem.reply();
        if reply.status() == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Bearer realm=\"sluicegate\"");
            reply
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, challenge);
        }
        return unadmitted(reply);
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
    let body = match json_body(&parts.headers, body).await {
        Ok(body) => body,
        Err(problem) => {
            call.refuse(&state.gate, DecisionAnswer::Refused);
            return problem.into();
        }
    };
    let answered = Box::pin(answer_json(state, call, route, &body)).await;
    answered.unwrap_or_else(HttpReply::from)
}

/// Marks the answer to somebody who was not admitted: the connection ends with it. Gateways keep
/// theirs, and whoever cannot ask must not hold a place that belongs to them.
fn unadmitted(mut reply: HttpReply) -> HttpReply {
    reply.extensions_mut().insert(Unadmitted);
    reply
}

/// The mark of [`unadmitted`].
#[derive(Clone, Copy)]
pub(super) struct Unadmitted;

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

/// Reads a whole body within bounds of size and time.
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

/// Answers a request to the JSON API with the configuration in force.
async fn answer_json(
    state: &DecisionsState,
    call: &DecisionCall,
    route: Route,
    body: &[u8],
) -> Result<HttpReply, Problem> {
    let snapshot = state.gate.snapshot();
    let json_call = JsonCall {
        state,
        snapshot: &snapshot,
        call,
    };
    match route {
        Route::Check => {
            let answer = json_call.check(body, Purpose::Spend).await?;
            Ok(reply::json(&AnswerJson::new(&answer)))
        }
        Route::Peek => {
            let answer = json_call.check(body, Purpose::Peek(0)).await?;
            Ok(reply::json(&AnswerJson::new(&answer)))
        }
        Route::Batch => {
            let checks = json_request::batch(body).map_err(|mistake| json_call.refuse(mistake))?;
            let checks = checks
                .into_iter()
                .map(|entry| json_call.check(entry.get().as_bytes(), Purpose::Spend));
            let answers = join_all(checks).await;
            let answers = answers.iter().map(|answer| match answer {
                Ok(answer) => BatchEntryJson::Answer(AnswerJson::new(answer)),
                Err(problem) => BatchEntryJson::Problem { problem },
            });
            Ok(reply::json(&BatchAnswerJson {
                answers: answers.collect(),
            }))
        }
        Route::Refund => json_call.refund(body).await,
        Route::Reset => json_call.reset(body).await,
        Route::Authorize(_) | Route::OpenApi => {
            Err(Problem::new(StatusCode::NOT_FOUND, "there is nothing here"))
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
    /// Counts a request whose JSON is invalid.
    fn refuse(self, mistake: QuestionError) -> Problem {
        self.call.refuse(&self.state.gate, DecisionAnswer::Refused);
        mistake.into()
    }

    /// Answers a check, or a peek at the cost that the body names.
    async fn check(self, body: &[u8], purpose: Purpose) -> Result<CheckAnswer, Problem> {
        let CheckRequest { about, cost } =
            json_request::check(body).map_err(|mistake| self.refuse(mistake))?;
        let purpose = match purpose {
            Purpose::Spend => Purpose::Spend,
            Purpose::Peek(_) => Purpose::Peek(cost),
        };
        let Self {
            state,
            snapshot,
            call,
        } = self;
        match &about {
            CheckTarget::Counter(counter) => {
                let key: Vec<&str> = counter.key.iter().map(String::as_str).collect();
                let thing = CheckInput::Counter {
                    limit: &counter.limit,
                    key: &key,
                };
                let answer = check::check(state, snapshot, call, &thing, purpose, cost).await;
                answer.map_err(|refusal| Problem::of_refusal(&refusal, true))
            }
            CheckTarget::Request(described) => {
                let (descriptors, lines) =
                    (described.descriptors(), HeaderLines(&described.headers));
                let thing = CheckInput::Request {
                    subject: described.subject(&descriptors, &lines),
                    headers: described.spelled_headers(),
                };
                let answer = check::check(state, snapshot, call, &thing, purpose, cost).await;
                answer.map_err(|refusal| Problem::of_refusal(&refusal, false))
            }
        }
    }

    async fn refund(self, body: &[u8]) -> Result<HttpReply, Problem> {
        let refund = json_request::refund(body).map_err(|mistake| self.refuse(mistake))?;
        let key: Vec<&str> = refund.counter.key.iter().map(String::as_str).collect();
        let counter = (refund.counter.limit.as_str(), &key[..]);
        let given = check::refund(self.state, self.snapshot, counter, refund.cost, refund.age);
        let answer = given.await.map_err(|error| self.not_done(&error))?;
        Ok(reply::json(&AnswerJson::new(&answer)))
    }

    async fn reset(self, body: &[u8]) -> Result<HttpReply, Problem> {
        let counter = json_request::reset(body).map_err(|mistake| self.refuse(mistake))?;
        let key: Vec<&str> = counter.key.iter().map(String::as_str).collect();
        let done = check::reset(self.state, self.snapshot, (&counter.limit, &key)).await;
        done.map_err(|error| self.not_done(&error))?;
        Ok(reply::json(&ResetAnswerJson { reset: true }))
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
