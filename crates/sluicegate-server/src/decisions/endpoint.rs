//! A connection to one of the doors: encrypted or not, then served in the protocol of the door.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use sluicegate_config::DecisionsTls;
use sluicegate_net::{ConnectionRefusal, Endpoint, Transport, tls};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::DecisionsState;

/// What a door speaks.
pub(super) trait EndpointProtocol: Send + Sync + 'static {
    /// The key of its address.
    const NAME: &'static str;

    /// Serves a connection until it ends, is late, or the process is told to end.
    fn serve(
        &self,
        state: Arc<DecisionsState>,
        transport: Transport,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send;

    /// Its part of the certificates.
    fn tls(tls: &EndpointTls) -> &Arc<ServerConfig>;
}

/// The certificate of all doors, with what each of them speaks.
pub(crate) struct EndpointTls {
    pub(super) http: Arc<ServerConfig>,
    pub(super) grpc: Arc<ServerConfig>,
    pub(super) resp: Arc<ServerConfig>,
}

impl EndpointTls {
    /// Reads the files.
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
            http: speaking(&["http/1.1"])?,
            grpc: speaking(&["h2"])?,
            resp: speaking(&[])?,
        })
    }
}

/// Connections of each protocol at a time.
const CONNECTIONS_MAX: usize = 10_000;

/// An endpoint at this address.
pub(super) fn endpoint<P: EndpointProtocol>(
    protocol: P,
    address: SocketAddr,
    state: &Arc<DecisionsState>,
) -> Endpoint {
    let (protocol, state) = (Arc::new(protocol), Arc::clone(state));
    Endpoint::new(
        P::NAME,
        vec![address],
        CONNECTIONS_MAX,
        move |stream, peer| admit(Arc::clone(&protocol), Arc::clone(&state), stream, peer),
    )
}

async fn admit<P: EndpointProtocol>(
    protocol: Arc<P>,
    state: Arc<DecisionsState>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    /// Gateways keep connections for days; one that is gone without a word is noticed after this time without any.
    const QUIET: Duration = Duration::from_secs(60);
    /// For all of a handshake.
    const PATIENCE: Duration = Duration::from_secs(10);
    let keepalive = TcpKeepalive::new()
        .with_time(QUIET)
        .with_interval(QUIET / 4);
    // An answer is one write: nothing is gained by waiting for more.
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
            let transport = Transport::Tls(Box::new(stream));
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
