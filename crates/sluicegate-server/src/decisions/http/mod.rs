//! Decisions over HTTP/1.1 and HTTP/2: the JSON API, and external authorization for gateways.
//!
//! The network engine reads requests; `routes.rs` answers them, `reply.rs` and `problem.rs` write
//! JSON.

mod problem;
mod reply;
pub(super) mod routes;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use http::request::Parts;
use http_body::{Body, Frame, SizeHint};
use rustls::ServerConfig;
use sluicegate_config::Bounds;
use sluicegate_net::{
    CompleteBody, Connection, ConnectionSettings, Handler, HttpResponse, HttpServer, HttpTimeouts,
    IncomingRequest, ResponseBody, StallTimeout, TimeoutPolicy, Transport, WholeBodyBounds,
};
use tokio::sync::watch;

use super::DecisionsState;
use super::endpoint::{EndpointProtocol, EndpointTls};

pub(super) use problem::Problem;
pub(super) use reply::HttpReply;

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
        match transport {
            // Which version it is shows in the first bytes.
            Transport::Plain(stream) => Either::Left(server.serve(state, settings, stream, peer)),
            transport if transport.chose_http2() => Either::Right(Either::Left(
                server.serve_http2(state, settings, transport, peer),
            )),
            transport => Either::Right(Either::Right(
                server.serve_http1(state, settings, transport, peer),
            )),
        }
    }
}

impl Handler for DecisionsState {
    type Body = ReplyBody;

    /// Over HTTP/2 the bodies of those who may ask are waited for; others are refused before.
    fn whole_body(&self, parts: &Parts) -> Option<WholeBodyBounds> {
        routes::is_admitted(self, parts).then_some(WholeBodyBounds {
            bytes_max: routes::BODY_BYTES_MAX,
            longest: routes::BODY_LONGEST,
        })
    }

    async fn handle(
        connection: &Arc<Connection<Self>>,
        request: &mut IncomingRequest,
    ) -> HttpResponse<ReplyBody> {
        let IncomingRequest { parts, end, body } = request;
        if let Err(invalid) = end.and_then(|_| connection.check_size(parts)) {
            let problem = Problem::new(invalid.status(), invalid.to_string());
            let mut response = response_of(problem.reply());
            response.closes = true;
            return response;
        }
        let reply = routes::answer(&connection.handler, connection.peer, parts, body).await;
        let mut response = response_of(reply);
        // A body that was not needed is drained so that the connection can be reused.
        response.closes = response.body.ends_connection
            || !connection.is_http2
                && !body.is_end_stream()
                && !Box::pin(std::mem::take(body).drain(&parts.headers)).await;
        response
    }

    fn keeps_head_bytes(&self) -> bool {
        self.gate.asks_limits_service()
    }
}

fn response_of(reply: HttpReply) -> HttpResponse<ReplyBody> {
    let body = ReplyBody {
        data: Some(reply.body).filter(|data| !data.is_empty()),
        ends_connection: reply.is_unadmitted,
    };
    HttpResponse::new(reply.status, reply.lines, body)
}

/// The body of a reply.
pub(crate) struct ReplyBody {
    /// `None` when it was taken, or is empty.
    data: Option<Bytes>,
    ends_connection: bool,
}

impl ResponseBody for ReplyBody {
    fn complete(&self) -> Option<CompleteBody<'_>> {
        Some(CompleteBody {
            data: self.data.as_deref().unwrap_or_default(),
            trailers: &[],
        })
    }

    fn ends_connection(&self) -> bool {
        self.ends_connection
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.data.take().map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}
