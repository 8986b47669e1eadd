//! Decisions over HTTP/1.1: the JSON API, and external authorization for gateways.
//!
//! The network engine reads requests; `routes.rs` answers them, `reply.rs` and `problem.rs` write
//! JSON.

mod problem;
mod reply;
pub(super) mod routes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::Full;
use rustls::ServerConfig;
use sluicegate_config::Bounds;
use sluicegate_net::{
    Connection, ConnectionSettings, Handler, HttpResponse, HttpServer, HttpTimeouts,
    IncomingRequest, StallTimeout, TimeoutPolicy, Transport,
};
use tokio::sync::watch;

use super::DecisionsState;
use super::endpoint::{EndpointProtocol, EndpointTls};

pub(super) use problem::Problem;

/// A response of the decision service.
pub(super) type HttpReply = Response<Full<Bytes>>;

/// The request line and headers, in bytes. A gateway passes on all that its client sent.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// The most header lines of a request.
const HEADERS_MAX: usize = 200;
/// For a request's head, and for the pause before it: gateways keep their connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);

/// Decisions over HTTP as a protocol of the decision service.
pub(super) struct HttpProtocol {
    server: Arc<HttpServer>,
    settings: ConnectionSettings,
}

impl HttpProtocol {
    /// `ending` becomes true when no request may begin any more.
    pub(super) fn new(ending: &watch::Receiver<bool>) -> Self {
        let timeouts = HttpTimeouts {
            header: HEADER_TIMEOUT,
            idle: HEADER_TIMEOUT,
            // Responses are short: a gateway that takes nothing of one for a while is gone.
            unread: StallTimeout::<()>::LONGEST,
            unread_bytes_min: 1,
        };
        Self {
            server: Arc::new(HttpServer {
                // Not those of the metrics, which count the clients of the proxy.
                counters: Arc::default(),
                proxy_protocol_from: Vec::new(),
                named_clients: None,
                ending: ending.clone(),
            }),
            settings: ConnectionSettings {
                timeouts: TimeoutPolicy::new(&timeouts),
                bounds: Bounds {
                    header_bytes: HEADER_BYTES_MAX,
                    headers: HEADERS_MAX,
                    target_bytes: HEADER_BYTES_MAX,
                    body_bytes: None,
                },
                buffered_bytes_max: ConnectionSettings::BUFFERED_BYTES_MAX,
                tls: None,
            },
        }
    }
}

impl EndpointProtocol for HttpProtocol {
    const NAME: &'static str = super::HTTP;

    fn tls(tls: &EndpointTls) -> &Arc<ServerConfig> {
        &tls.http
    }

    fn serve(
        &self,
        state: Arc<DecisionsState>,
        transport: Transport,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send {
        let (server, settings) = (Arc::clone(&self.server), self.settings.clone());
        server.serve_http1(state, settings, transport, peer)
    }
}

impl Handler for DecisionsState {
    type Body = Full<Bytes>;

    async fn handle(
        connection: &Arc<Connection<Self>>,
        request: IncomingRequest,
    ) -> HttpResponse<Full<Bytes>> {
        let IncomingRequest {
            parts,
            end,
            mut body,
        } = request;
        if let Err(invalid) = end.and_then(|_| connection.check_size(&parts)) {
            let problem = Problem::new(invalid.status(), invalid.to_string());
            let mut response = HttpResponse::from(problem.reply());
            response.closes = true;
            return response;
        }
        let reply = routes::answer(&connection.handler, connection.peer, &parts, &mut body).await;
        let is_unadmitted = reply.extensions().get::<routes::Unadmitted>().is_some();
        let mut response = HttpResponse::from(reply);
        // A body that was not needed is drained so that the connection can be reused.
        response.closes =
            is_unadmitted || !body.is_end_stream() && !Box::pin(body.drain(&parts.headers)).await;
        response
    }

    fn keeps_head_bytes(&self) -> bool {
        self.gate.asks_limits_service()
    }
}
