//! The endpoints of the decision service: a connection is accepted, encrypted if so configured, and
//! served in the protocol of its endpoint.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use sluicegate_config::DecisionsTls;
use sluicegate_core::address::Prefixes;
use sluicegate_net::{ClientConnections, ConnectionRefusal, Endpoint, Transport, tls};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::DecisionsState;

/// A protocol that an endpoint speaks.
pub(super) trait EndpointProtocol: Send + Sync + 'static {
    /// The configuration key of its address.
    const NAME: &'static str;

    /// Serves a connection until it ends, a timeout expires, or the process ends.
    fn serve(
        &self,
        state: Arc<DecisionsState>,
        transport: Transport,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send;

    /// The TLS settings of this protocol, which differ in ALPN.
    fn tls(tls: &EndpointTls) -> &Arc<ServerConfig>;
}

/// The TLS settings of all endpoints: one certificate, with the ALPN names of each protocol.
pub(crate) struct EndpointTls {
    pub(super) http: Arc<ServerConfig>,
    pub(super) grpc: Arc<ServerConfig>,
    pub(super) resp: Arc<ServerConfig>,
}

impl EndpointTls {
    /// Reads certificate, key and client authorities from their files.
    pub(crate) fn new(settings: &DecisionsTls) -> Result<Self, String> {
        let speaking = |protocols: &[&str]| {
            tls::server_config(
                &settings.server,
                settings.client_ca_file.as_deref(),
                "decisions.tls",
                protocols,
            )
        };
        Ok(Self {
            http: speaking(&["h2", "http/1.1"])?,
            grpc: speaking(&["h2"])?,
            resp: speaking(&[])?,
        })
    }
}

/// The most open connections of each protocol.
const CONNECTIONS_MAX: usize = 10_000;
/// The most of them from one address. A gateway holds many, and there may be only one; but however
/// many it opens, another gets in.
const CONNECTIONS_OF_CLIENT_MAX: usize = CONNECTIONS_MAX / 2;

/// Makes an endpoint for a protocol at an address.
pub(super) fn endpoint<P: EndpointProtocol>(
    protocol: P,
    address: SocketAddr,
    state: &Arc<DecisionsState>,
) -> Endpoint {
    let clients = Arc::<ClientConnections>::default();
    let prefixes = Prefixes::default();
    let (protocol, state) = (Arc::new(protocol), Arc::clone(state));
    Endpoint::new(
        P::NAME,
        vec![address],
        CONNECTIONS_MAX,
        move |stream, peer| admit(Arc::clone(&protocol), Arc::clone(&state), stream, peer),
    )
    .admitting(Arc::new(move |peer| {
        clients.take(prefixes.mask(peer), CONNECTIONS_OF_CLIENT_MAX)
    }))
}

async fn admit<P: EndpointProtocol>(
    protocol: Arc<P>,
    state: Arc<DecisionsState>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    /// The silence after which TCP keepalive probes begin. Gateways keep connections for days, and
    /// one that vanished must not hold its permit as long.
    const QUIET: Duration = Duration::from_secs(60);
    /// The longest time for a TLS handshake.
    const PATIENCE: Duration = Duration::from_secs(10);
    let keepalive = TcpKeepalive::new()
        .with_time(QUIET)
        .with_interval(QUIET / 4);
    // An answer is one write, so Nagle's algorithm would only delay it.
    if stream.set_nodelay(true).is_err()
        || SockRef::from(&stream)
            .set_tcp_keepalive(&keepalive)
            .is_err()
    {
        return;
    }
    let config = state.tls.load();
    let config = config.as_ref().map(|tls| Arc::clone(P::tls(tls)));
    let Some(config) = config else {
        return protocol.serve(state, Transport::Plain(stream), peer).await;
    };
    match tokio::time::timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => {
            let transport = Transport::Tls(Box::new(stream.into()));
            Box::pin(protocol.serve(state, transport, peer)).await;
        }
        Ok(Err(_)) => state
            .gate
            .metrics
            .connection_refused(ConnectionRefusal::Tls),
        Err(_) => state
            .gate
            .metrics
            .connection_refused(ConnectionRefusal::Slow),
    }
}
