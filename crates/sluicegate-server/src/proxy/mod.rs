//! The reverse proxy: requests of clients are decided, forwarded to servers, and answered.
//!
//! The network engine reads requests and writes responses; `service.rs` is its handler.

mod body;
mod candidates;
mod client_bound;
mod connect;
mod dial;
mod forward;
mod forward_failure;
mod forwarded_response;
mod grpc;
mod http2_forward;
mod refused_requests;
mod request_guard;
pub(crate) mod rewrite;
mod server_clock;
mod service;
mod state;
pub(crate) mod upstream;
mod websocket;

use std::net::IpAddr;
use std::sync::Arc;

use sluicegate_config as config;
use sluicegate_net::{ClientPermit, ConnectionSettings, Endpoint, HttpServer, TimeoutPolicy};
use tokio::sync::watch;

use self::state::ProxySnapshot;

pub(crate) use self::state::ProxyState;

/// The key of the proxy's addresses.
pub(crate) const NAME: &str = "proxy.listen";

/// The proxy as an endpoint. `ending` becomes true when no request may begin any more.
pub(crate) fn endpoint(
    config: &config::Proxy,
    state: &Arc<ProxyState>,
    ending: &watch::Receiver<bool>,
) -> Endpoint {
    let named_clients = {
        let state = Arc::clone(state);
        move |client: IpAddr| state.admit_client(client)
    };
    let server = Arc::new(HttpServer {
        counters: Arc::clone(state.gate.metrics.connection_counters()),
        proxy_protocol_from: config.proxy_protocol_from.clone(),
        named_clients: Some(Arc::new(named_clients)),
        ending: ending.clone(),
    });
    let peers = {
        let (state, balancers) = (Arc::clone(state), config.proxy_protocol_from.clone());
        move |peer: IpAddr| {
            let address = peer.to_canonical();
            match balancers.iter().any(|net| net.contains(&address)) {
                // The client is counted that it names.
                true => Some(ClientPermit::uncounted()),
                false => state.admit_client(peer),
            }
        }
    };
    let handler = Arc::clone(state);
    Endpoint::new(
        NAME,
        config.listen.clone(),
        config.max_connections,
        move |stream, peer| {
            let settings = settings(&handler.snapshot());
            Arc::clone(&server).serve(Arc::clone(&handler), settings, stream, peer)
        },
    )
    .admitting(Arc::new(peers))
}

/// Settings of a connection that is accepted now; a reload applies to later ones.
fn settings(snapshot: &ProxySnapshot) -> ConnectionSettings {
    ConnectionSettings {
        timeouts: TimeoutPolicy::new(&(&snapshot.timeouts).into()),
        bounds: snapshot.bounds,
        buffered_bytes_max: snapshot.max_buffered_per_connection,
        tls: snapshot.tls.clone(),
    }
}
