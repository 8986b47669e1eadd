//! Envoy's rate limit service, with the services for health and reflection.
//!
//! A connection is served by the core that accepted it, in our own HTTP/2 (`handler.rs`). A decision
//! has four steps: `question.rs` reads the message where it lies, `descriptors.rs` finds the limits of
//! each descriptor, admission takes all charges or none (`decide.rs`), `answer.rs` writes the response
//! as it is sent. tonic serves health and reflection (`side_services.rs`).

mod answer;
#[cfg(any(test, feature = "fuzz-internals"))]
mod comparison;
mod connection_use;
mod decide;
mod descriptors;
#[cfg(feature = "fuzz-internals")]
pub(crate) mod fuzz_internals;
mod handler;
mod message_writer;
pub mod messages;
mod question;
#[cfg(test)]
mod reading_tests;
mod side_services;
#[cfg(test)]
mod tests;
mod units;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use sluicegate_config::Bounds;
use sluicegate_net::{
    ConnectionCounters, ConnectionSettings, First, HttpServer, HttpTimeouts, RareEvent,
    StallTimeout, TimeoutPolicy, Transport,
};
use tokio::sync::watch;

use self::connection_use::{ConnectionUse, Stay};
use self::handler::GrpcConnection;
use self::side_services::SideServices;
use super::DecisionsState;
use super::endpoint::{EndpointProtocol, EndpointTls};

/// The path of the method that gateways call.
const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
const METHOD: &str = "ShouldRateLimit";

/// The most bytes of a request message.
const MESSAGE_MAX: usize = 64 * 1024;
/// The time that a message has to come, a sign of life, and a connection that was told so to end.
const PATIENCE: Duration = Duration::from_secs(10);
/// The silence after which a gateway is asked for a sign of life.
const QUIET: Duration = Duration::from_secs(60);

/// Envoy's rate limit service as a protocol of the decision service.
pub(super) struct EnvoyProtocol {
    services: Arc<SideServices>,
    settings: ConnectionSettings,
    /// Not those of the metrics, which count the clients of the proxy.
    counters: Arc<ConnectionCounters>,
}

impl EnvoyProtocol {
    pub(super) fn new() -> Result<Self, String> {
        /// The most bytes of a request's header.
        const HEADER_BYTES_MAX: usize = 16 * 1024;
        /// How long connections may stay is decided by their use ([`ConnectionUse`]).
        const IDLE: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
        let timeouts = HttpTimeouts {
            header: ConnectionUse::FIRST,
            idle: IDLE,
            // Responses are short: a gateway that takes nothing of one for a while is gone.
            unread: StallTimeout::<()>::LONGEST,
            unread_bytes_min: 1,
        };
        Ok(Self {
            services: SideServices::new()?,
            settings: ConnectionSettings {
                timeouts: TimeoutPolicy::new(&timeouts),
                bounds: Bounds {
                    header_bytes: HEADER_BYTES_MAX,
                    headers: HEADER_BYTES_MAX,
                    target_bytes: HEADER_BYTES_MAX,
                    body_bytes: None,
                },
                buffered_bytes_max: ConnectionSettings::BUFFERED_BYTES_MAX,
                tls: None,
            },
            counters: Arc::default(),
        })
    }
}

impl EndpointProtocol for EnvoyProtocol {
    const NAME: &'static str = super::GRPC;

    fn tls(tls: &EndpointTls) -> &Arc<ServerConfig> {
        &tls.grpc
    }

    /// Serves one gateway until it goes, has no use for its connection, or the process ends.
    async fn serve(&self, state: Arc<DecisionsState>, transport: Transport, peer: SocketAddr) {
        let handler = Arc::new(GrpcConnection {
            state: Arc::clone(&state),
            services: Arc::clone(&self.services),
            used: ConnectionUse::default(),
        });
        let (end, ending) = watch::channel(false);
        let server = Arc::new(HttpServer {
            counters: Arc::clone(&self.counters),
            proxy_protocol_from: Vec::new(),
            named_clients: None,
            ending,
        });
        let settings = self.settings.clone();
        let served = server.serve_http2(Arc::clone(&handler), settings, transport, peer);
        let mut served = pin!(served);
        let mut its_end = RareEvent::new(until_end(&handler.used, state.ending.clone()));
        match its_end.or(served.as_mut()).await {
            First::Main(()) | First::Event(None) => {}
            First::Event(Some(longest)) => {
                end.send_replace(true);
                let _ = tokio::time::timeout(longest, served).await;
            }
        }
    }
}

/// Waits until a connection has to end. Returns the time for calls under way: when the process ends,
/// it is the one that waits. Without one the connection is closed at once.
async fn until_end(used: &ConnectionUse, mut ending: watch::Receiver<bool>) -> Option<Duration> {
    let mut time = pin!(tokio::time::sleep(ConnectionUse::FIRST));
    let (mut stays, mut was_checked) = (false, false);
    loop {
        tokio::select! {
            _ = ending.wait_for(|ending| *ending) => return Some(Duration::MAX),
            () = time.as_mut(), if !stays => match used.next() {
                Stay::Forever => stays = true,
                Stay::For(longer) => {
                    was_checked = true;
                    time.as_mut().reset(tokio::time::Instant::now() + longer);
                }
                Stay::No if was_checked => return Some(PATIENCE),
                Stay::No => return None,
            },
        }
    }
}
