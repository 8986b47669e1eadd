//! The reverse proxy: each core has its own connections to servers.

mod answer;
mod bell;
mod body;
mod connection;
mod ending;
mod exchange;
mod forward;
mod frame_guard;
mod grpc;
mod http1;
mod io;
mod link;
pub(crate) mod listen;
mod proxy_protocol;
pub(crate) mod rewrite;
mod service;
mod state;
mod streams;
pub(crate) mod tls;
mod upgrade;
mod upload;
pub(crate) mod upstream;
mod validate;
mod watch;
mod wire;

use std::sync::Arc;

use sluicegate_config as config;
use tokio::sync::watch as signal;

use self::connection::Door;
use crate::cores;

pub(crate) use self::state::ProxyState;

/// The key of the proxy's addresses.
pub(crate) const NAME: &str = "proxy.listen";

/// The proxy as one of the doors. `ending` becomes true when no request may begin any more.
pub(crate) fn door(
    config: &config::Proxy,
    proxy: &Arc<ProxyState>,
    ending: &signal::Receiver<bool>,
) -> cores::Door {
    let door = Arc::new(Door {
        proxy: Arc::clone(proxy),
        proxy_protocol_from: config.proxy_protocol_from.clone(),
        draining: ending.clone(),
    });
    cores::Door::new(
        NAME,
        config.listen.clone(),
        config.max_connections,
        move |stream, peer| connection::serve(Arc::clone(&door), stream, peer),
    )
}
