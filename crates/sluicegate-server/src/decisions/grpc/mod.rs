//! Envoy's rate limit service, with the services for health and reflection.
//!
//! A connection is served by the core that accepted it. A decision has three steps:
//! `descriptors.rs` finds the limits of each descriptor, admission takes all charges or none,
//! `answer.rs` writes the response.

mod answer;
mod connection_use;
mod descriptors;
#[cfg(feature = "fuzz-internals")]
pub(crate) mod fuzz_internals;
pub mod messages;
#[cfg(test)]
mod tests;
mod units;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use sluicegate::{Decision, Nanos, Verdict};
use sluicegate_gate::access::Ruling;
use sluicegate_gate::admission::{Admitted, NamedCharges, Purpose, Refusal, ruling_of_caller};
use sluicegate_gate::charging;
use sluicegate_gate::gate::Gate;
use sluicegate_gate::snapshot::Snapshot;
use sluicegate_gate::telemetry::DecisionTransport;
use sluicegate_gate::telemetry::metrics::{DecisionAnswer, DecisionProtocol};
use sluicegate_net::{Lingering, StallTimeout, Transport};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tonic_prost::ProstCodec;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use self::answer::ChargeOutcomes;
use self::connection_use::{ConnectionUse, Stay};
use self::descriptors::{DescriptorCharges, DescriptorParts};
use self::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use super::endpoint::{EndpointProtocol, EndpointTls};
use super::{DecisionCall, DecisionsState, SharedToken};

/// The path of the method that gateways call.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
const METHOD: &str = "ShouldRateLimit";
const HEALTH: &str = "/grpc.health.v1.Health/";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/";
const REFLECTION_ALPHA: &str = "/grpc.reflection.v1alpha.ServerReflection/";

/// The most bytes of a request message.
const MESSAGE_MAX: usize = 64 * 1024;
/// The time that a message has to come and be answered, and a connection that was told so to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// A service that is seldom called, so that the cost of its box does not matter.
type BoxedService = BoxCloneSyncService<Request<Incoming>, Response<Body>, Infallible>;

/// The services besides the rate limit service.
struct SideServices {
    health: BoxedService,
    reflection: BoxedService,
    reflection_alpha: BoxedService,
}

impl SideServices {
    /// Health reports `SERVING` for as long as the process accepts requests.
    fn new() -> Result<Arc<Self>, String> {
        const MESSAGES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/messages.bin"));
        let words = |error: tonic_reflection::server::Error| format!("reflection: {error}");
        let builder = || {
            tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(MESSAGES)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        };
        let reporter = HealthReporter::new();
        // Nobody else holds the state, so the future is ready at its first poll.
        let set = reporter
            .set_service_status(SERVICE, ServingStatus::Serving)
            .now_or_never();
        set.ok_or_else(|| "health: its state is held by somebody else".to_owned())?;
        let health = HealthServer::new(HealthService::from_health_reporter(reporter));
        Ok(Arc::new(Self {
            health: BoxCloneSyncService::new(health),
            reflection: BoxCloneSyncService::new(builder().build_v1().map_err(words)?),
            reflection_alpha: BoxCloneSyncService::new(builder().build_v1alpha().map_err(words)?),
        }))
    }
}

/// Envoy's rate limit service as a protocol of the decision service.
pub(super) struct EnvoyProtocol(Arc<SideServices>);

impl EnvoyProtocol {
    pub(super) fn new() -> Result<Self, String> {
        SideServices::new().map(Self)
    }
}

impl EndpointProtocol for EnvoyProtocol {
    const NAME: &'static str = super::GRPC;

    fn tls(tls: &EndpointTls) -> &Arc<ServerConfig> {
        &tls.grpc
    }

    async fn serve(&self, state: Arc<DecisionsState>, transport: Transport, peer: SocketAddr) {
        let stream = Lingering::new(StallTimeout::new(transport));
        serve(Arc::clone(&self.0), state, stream, peer).await;
    }
}

/// Serves one gateway until it goes, has no use for its connection, or the process ends.
async fn serve(
    services: Arc<SideServices>,
    state: Arc<DecisionsState>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
) {
    let mut ending = state.ending.clone();
    let used = Arc::new(ConnectionUse::default());
    let answering = {
        let used = Arc::clone(&used);
        service_fn(move |request| {
            let (services, state) = (Arc::clone(&services), Arc::clone(&state));
            let used = Arc::clone(&used);
            async move { Ok::<_, Infallible>(respond(&services, state, &used, peer, request).await) }
        })
    };
    let mut connection = pin!(builder().serve_connection(TokioIo::new(stream), answering));
    let mut time = pin!(tokio::time::sleep(ConnectionUse::FIRST));
    let (mut stays, mut was_checked) = (false, false);
    // The time for calls under way; when the process ends, it is the one that waits.
    let longest = loop {
        tokio::select! {
            // An error ends this connection only; its gateway sees it close.
            _ = connection.as_mut() => return,
            _ = ending.wait_for(|ending| *ending) => break Duration::MAX,
            () = time.as_mut(), if !stays => match used.next() {
                Stay::Forever => stays = true,
                Stay::For(longer) => {
                    was_checked = true;
                    time.as_mut().reset(Instant::now() + longer);
                }
                Stay::No if was_checked => break PATIENCE,
                Stay::No => return,
            },
        }
    };
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(longest, connection).await;
}

/// The settings of HTTP/2, with bounds against floods of streams and resets.
fn builder() -> http2::Builder<TokioExecutor> {
    const QUIET: Duration = Duration::from_secs(60);
    const WINDOW: u32 = 1 << 20;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(QUIET)
        .keep_alive_timeout(PATIENCE)
        .max_concurrent_streams(1_000)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(100)
        .max_header_list_size(16 * 1024)
        .initial_stream_window_size(MESSAGE_MAX as u32 * 2)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(64 * 1024);
    builder
}

/// Checks the token, then calls the service that the path names.
async fn respond(
    services: &SideServices,
    state: Arc<DecisionsState>,
    used: &ConnectionUse,
    peer: SocketAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    let path = request.uri().path();
    let beside = if path.starts_with(HEALTH) {
        // Health checks of a process manager have no token to show.
        used.record_health_check();
        &services.health
    } else if let Some(token) = &state.token
        && !SharedToken::in_either_header(request.headers())
            .is_some_and(|shown| token.admits(shown))
    {
        state
            .gate
            .metrics
            .decision(DecisionProtocol::Grpc, DecisionAnswer::Unauthorized);
        return Status::unauthenticated("show the token: authorization: Bearer token").into_http();
    } else if path == SHOULD_RATE_LIMIT {
        used.record_call();
        let call =
            DecisionCall::begin(&state.gate, DecisionProtocol::Grpc, request.headers(), peer);
        let response = should_rate_limit(&state, &call, request).await;
        call.end(
            &state.gate,
            DecisionTransport::Grpc {
                service: SERVICE,
                method: METHOD,
            },
        );
        return response;
    } else if path.starts_with(REFLECTION) {
        used.record_call();
        &services.reflection
    } else if path.starts_with(REFLECTION_ALPHA) {
        used.record_call();
        &services.reflection_alpha
    } else {
        return Status::new(Code::Unimplemented, "there is no such service here").into_http();
    };
    match tokio::time::timeout(PATIENCE, beside.clone().oneshot(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => too_slow(),
    }
}

/// The response to a call whose message did not come in time.
fn too_slow() -> Response<Body> {
    Status::deadline_exceeded("the message took too long").into_http()
}

/// Decodes the request message, decides, and encodes the response.
async fn should_rate_limit(
    state: &Arc<DecisionsState>,
    call: &DecisionCall,
    request: Request<Incoming>,
) -> Response<Body> {
    let codec = ProstCodec::<RateLimitResponse, RateLimitRequest>::default();
    let ask = tower::service_fn(|request: tonic::Request<RateLimitRequest>| {
        let (state, call) = (Arc::clone(state), call.clone());
        async move {
            decide(&state, &call, request.get_ref())
                .await
                .map(tonic::Response::new)
        }
    });
    let mut service = Grpc::new(codec).max_decoding_message_size(MESSAGE_MAX);
    let answered = tokio::time::timeout(PATIENCE, service.unary(ask, request)).await;
    answered.unwrap_or_else(|_| {
        call.refuse(&state.gate, DecisionAnswer::Refused);
        too_slow()
    })
}

/// Takes the charges of all descriptors or none. If they pass, the refunds of descriptors with
/// negative hits follow: nothing is given back for a request that is denied.
async fn decide(
    state: &DecisionsState,
    call: &DecisionCall,
    request: &RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    let (gate, snapshot) = (&state.gate, Arc::clone(&state.gate.snapshot()));
    // An invalid message never comes to admission, which counts all others.
    let refused = |status: Status| {
        call.refuse(gate, DecisionAnswer::Refused);
        status
    };
    let parts = DescriptorParts::of(request).map_err(refused)?;
    let subjects = parts.subjects();
    let charges = match DescriptorCharges::of(&snapshot.policy, &parts, &subjects) {
        Err(descriptors::DescriptorError::Invalid(status)) => return Err(refused(status)),
        Err(descriptors::DescriptorError::Unidentified(missing)) => Err(missing),
        Ok(charges) => Ok(charges),
    };
    let candidate = NamedCharges {
        subjects: &subjects,
        charges: charges.as_ref().map(|charges| &*charges.take),
    };
    let admission = call.admit(gate, &snapshot, candidate, Purpose::Spend).await;
    let taken = match admission {
        Ok(Admitted {
            decision,
            is_unchecked,
            ..
        }) if decision.is_some() || is_unchecked => decision,
        Err(Refusal::Limited(decision)) => Some(decision),
        // Lists and bans have decided, and no limit was asked.
        Ok(_) | Err(Refusal::Banned) => {
            let are_denied = subjects
                .iter()
                .map(|subject| ruling_of_caller(gate, &snapshot, subject) == Some(Ruling::Deny));
            return Ok(answer::without_limits(are_denied));
        }
        Err(refusal) => return Err(status_of(&refusal)),
    };
    let charges = charges.map_err(|missing| Status::invalid_argument(missing.to_string()))?;
    let is_allowed = taken.as_ref().is_none_or(Decision::is_allowed);
    let given = match charges.give.is_empty() || !is_allowed {
        true => None,
        false => refunded(gate, &snapshot, &charges).await?,
    };
    let outcomes = ChargeOutcomes::of(&charges, taken.as_ref(), given.as_ref());
    Ok(answer::answer(
        request.descriptors.len(),
        &charges,
        &outcomes,
        taken.as_ref(),
        &snapshot.headers,
    ))
}

/// The gRPC status of a refusal that has no code in Envoy's protocol.
fn status_of(refusal: &Refusal) -> Status {
    match refusal {
        Refusal::Unavailable { error, .. } => Status::unavailable(error.to_string()),
        Refusal::Unidentified(missing) => Status::invalid_argument(missing.to_string()),
        // Limits and bans are answers, and descriptors have neither a path nor credentials.
        Refusal::Limited(_)
        | Refusal::Banned
        | Refusal::Misread(_)
        | Refusal::Unauthorized(_)
        | Refusal::KeysUnavailable(_) => Status::permission_denied("the caller may not pass"),
    }
}

/// Refunds the charges of descriptors with negative hits.
async fn refunded(
    gate: &Gate,
    snapshot: &Snapshot,
    charges: &DescriptorCharges<'_>,
) -> Result<Option<Decision>, Status> {
    match charging::refund(gate, snapshot, &charges.give, Nanos::ZERO).await {
        Verdict::Forward(decision) | Verdict::Reject(decision) => Ok(Some(decision)),
        Verdict::ForwardUnchecked(_) => Ok(None),
        Verdict::Unavailable { error, .. } => Err(Status::unavailable(error.to_string())),
        Verdict::Unidentified(missing) => Err(Status::invalid_argument(missing.to_string())),
    }
}
