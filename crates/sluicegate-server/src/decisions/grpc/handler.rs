//! The calls of one gateway: each is answered here, or by a service of tonic.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use sluicegate_gate::telemetry::DecisionTransport;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};
use sluicegate_net::{
    BodyError, ClientBody, CompleteBody, Connection, Handler, HttpResponse, IncomingRequest,
    ResponseBody, ResponseLines, SignOfLife, WholeBodyBounds,
};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::ServiceExt;

use super::answer::MESSAGE_HEAD;
use super::connection_use::ConnectionUse;
use super::decide::decide;
use super::question::Question;
use super::side_services::{BoxedService, SideServices};
use super::{MESSAGE_MAX, METHOD, PATIENCE, QUIET, SERVICE, SHOULD_RATE_LIMIT};
use crate::decisions::{DecisionCall, DecisionsState, SharedToken};

const HEALTH: &str = "/grpc.health.v1.Health/";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/";
const REFLECTION_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/";

/// One gateway's connection.
pub(super) struct GrpcConnection {
    pub(super) state: Arc<DecisionsState>,
    pub(super) services: Arc<SideServices>,
    pub(super) used: ConnectionUse,
}

impl Handler for GrpcConnection {
    type Body = GrpcBody;

    const SIGN_OF_LIFE: Option<SignOfLife> = Some(SignOfLife {
        after: QUIET,
        longest: PATIENCE,
    });

    /// A question is read as a whole, of those who may ask; others are refused before it comes.
    fn whole_body(&self, parts: &Parts) -> Option<WholeBodyBounds> {
        let is_question = parts.uri.path() == SHOULD_RATE_LIMIT && self.admits(&parts.headers);
        is_question.then_some(WholeBodyBounds {
            bytes_max: MESSAGE_HEAD + MESSAGE_MAX,
            longest: PATIENCE,
        })
    }

    async fn handle(
        connection: &Arc<Connection<Self>>,
        request: &mut IncomingRequest,
    ) -> HttpResponse<GrpcBody> {
        let this = &connection.handler;
        let body = match std::mem::take(&mut request.body) {
            // The token was seen before the body was waited for.
            ClientBody::Whole(body) => body.into_bytes(),
            body if request.parts.uri.path() != SHOULD_RATE_LIMIT => {
                let parts = request.take().parts.into_inner();
                let answered = this.answer_beside(Request::from_parts(parts, Body::new(body)));
                return Box::pin(answered).await;
            }
            _ if !this.admits(&request.parts.headers) => return this.refuse_stranger(),
            // There is no body at all.
            _ => Ok(Bytes::new()),
        };
        this.used.record_call();
        let headers = &request.parts.headers;
        let gate = &this.state.gate;
        let protocol = DecisionProtocol::Grpc;
        let call = DecisionCall::begin(gate, protocol, headers, connection.peer);
        let answered = this.should_rate_limit(&call, headers, body).await;
        let (service, method) = (SERVICE, METHOD);
        call.end(gate, DecisionTransport::Grpc { service, method });
        match answered {
            Ok(message) => answer_of(message),
            Err(status) => status_response(status),
        }
    }
}

impl GrpcConnection {
    /// True when the caller may ask.
    fn admits(&self, headers: &HeaderMap) -> bool {
        let Some(token) = &self.state.token else {
            return true;
        };
        SharedToken::in_either_header(headers).is_some_and(|shown| token.admits(shown))
    }

    fn refuse_stranger(&self) -> HttpResponse<GrpcBody> {
        let metrics = &self.state.gate.metrics;
        metrics.decision(DecisionProtocol::Grpc, DecisionAnswer::Unauthorized);
        status_response(Status::unauthenticated(
            "show the token: authorization: Bearer token",
        ))
    }

    /// Reads the question and decides about it.
    async fn should_rate_limit(
        &self,
        call: &DecisionCall,
        headers: &HeaderMap,
        body: Result<Bytes, BodyError>,
    ) -> Result<Vec<u8>, Status> {
        let refused = |status| {
            call.refuse(&self.state.gate, DecisionAnswer::Refused);
            status
        };
        let body = body.map_err(status_of_body).map_err(refused)?;
        let message = message_in(&body, headers).map_err(refused)?;
        let question = Question::decode(message)
            .map_err(|_| refused(Status::internal("the message is no RateLimitRequest")))?;
        decide(&self.state, call, &question).await
    }

    /// Answers a call of another method than [`SHOULD_RATE_LIMIT`].
    async fn answer_beside(&self, request: Request<Body>) -> HttpResponse<GrpcBody> {
        let path = request.uri().path();
        let services = &self.services;
        let service: &BoxedService = if path.starts_with(HEALTH) {
            // Health checks of a process manager have no token to show.
            self.used.record_health_check();
            &services.health
        } else if !self.admits(request.headers()) {
            return self.refuse_stranger();
        } else if path.starts_with(REFLECTION) {
            self.used.record_call();
            &services.reflection
        } else if path.starts_with(REFLECTION_ALPHA) {
            self.used.record_call();
            &services.reflection_alpha
        } else {
            return status_response(Status::new(
                Code::Unimplemented,
                "there is no such service here",
            ));
        };
        match tokio::time::timeout(PATIENCE, service.clone().oneshot(request)).await {
            Ok(Ok(response)) => tonic_response(response),
            Ok(Err(never)) => match never {},
            Err(_) => status_response(too_slow()),
        }
    }
}

fn too_slow() -> Status {
    Status::deadline_exceeded("the message took too long")
}

/// The status of a call whose body did not come as it should.
fn status_of_body(error: BodyError) -> Status {
    match error {
        BodyError::Stalled => too_slow(),
        BodyError::TooLarge => too_large(),
        BodyError::Closed | BodyError::Chunks(_) | BodyError::Length => {
            Status::internal(error.to_string())
        }
    }
}

fn too_large() -> Status {
    Status::out_of_range(format!("a message has at most {MESSAGE_MAX} bytes"))
}

/// The one message of a body.
fn message_in<'a>(body: &'a [u8], headers: &HeaderMap) -> Result<&'a [u8], Status> {
    let [flag, length @ ..] = body.first_chunk::<MESSAGE_HEAD>().ok_or_else(|| {
        Status::internal(match body {
            [] => "the message is missing",
            _ => "the message breaks off",
        })
    })?;
    match (flag, headers.get("grpc-encoding")) {
        (0, _) => {}
        (1, Some(_)) => return Err(Status::unimplemented("messages are not compressed here")),
        _ => return Err(Status::internal("the message has an unknown flag")),
    }
    let length = u32::from_be_bytes(*length) as usize;
    if length > MESSAGE_MAX {
        return Err(too_large());
    }
    match body[MESSAGE_HEAD..].split_at_checked(length) {
        Some((message, [])) => Ok(message),
        Some(_) => Err(Status::internal("a call has one message")),
        None => Err(Status::internal("the message breaks off")),
    }
}

const GRPC: &[u8] = b"application/grpc";

/// The response with this message.
fn answer_of(message: Vec<u8>) -> HttpResponse<GrpcBody> {
    let mut lines = ResponseLines::default();
    lines.append(&CONTENT_TYPE, |text| text.extend_from_slice(GRPC));
    HttpResponse::new(StatusCode::OK, lines, GrpcBody::Answer(message))
}

/// The response without a message, whose header has the status.
fn status_response(status: Status) -> HttpResponse<GrpcBody> {
    tonic_response(status.into_http())
}

fn tonic_response(response: Response<Body>) -> HttpResponse<GrpcBody> {
    HttpResponse::from(response).map(GrpcBody::Tonic)
}

/// The body of a response.
pub(super) enum GrpcBody {
    /// The message of an answer, with its head.
    Answer(Vec<u8>),
    /// An answer that was taken: its trailers follow.
    Taken,
    /// Everything was taken.
    Over,
    /// What a service of tonic answers.
    Tonic(Body),
}

impl GrpcBody {
    /// The trailers of every answer.
    const TRAILERS: [(&'static str, &'static str); 1] = [("grpc-status", "0")];
}

impl ResponseBody for GrpcBody {
    fn complete(&self) -> Option<CompleteBody<'_>> {
        let Self::Answer(data) = self else {
            return None;
        };
        Some(CompleteBody {
            data,
            trailers: &Self::TRAILERS,
        })
    }
}

impl http_body::Body for GrpcBody {
    type Data = Bytes;
    type Error = Status;

    /// An answer is polled only where the client's window is too small for it.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let (frame, next) = match &mut *self {
            Self::Tonic(body) => return Pin::new(body).poll_frame(cx),
            Self::Over => return Poll::Ready(None),
            Self::Answer(message) => {
                let message = std::mem::take(message);
                (Frame::data(Bytes::from(message)), Self::Taken)
            }
            Self::Taken => {
                let lines = Self::TRAILERS.map(|(name, value)| {
                    (
                        HeaderName::from_static(name),
                        HeaderValue::from_static(value),
                    )
                });
                (Frame::trailers(HeaderMap::from_iter(lines)), Self::Over)
            }
        };
        *self = next;
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Answer(_) | Self::Taken => false,
            Self::Over => true,
            Self::Tonic(body) => body.is_end_stream(),
        }
    }

    /// The length of an answer is not announced: trailers follow it.
    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Answer(_) | Self::Taken | Self::Over => SizeHint::default(),
            Self::Tonic(body) => body.size_hint(),
        }
    }
}
