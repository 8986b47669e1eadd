//! The protocol of Redis: `CL.THROTTLE` as clients of redis-cell send it, and the configured limits by name.
//!
//! Everything that has come is answered at once: decisions of this process on the spot, those of a shared store side by side,
//! and all answers in one write.

mod command;
mod connection;
mod counter_command;
mod parse;
mod reply;
mod session;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use sluicegate_net::{StallTimeout, Transport};

use super::DecisionsState;
use super::endpoint::{EndpointProtocol, EndpointTls};
use connection::RespConnection;

/// The door.
pub(super) struct RespProtocol;

impl EndpointProtocol for RespProtocol {
    const NAME: &'static str = super::RESP;

    fn tls(tls: &EndpointTls) -> &Arc<ServerConfig> {
        &tls.resp
    }

    /// Until the client goes, says something that is no command, or the process ends.
    async fn serve(&self, state: Arc<DecisionsState>, transport: Transport, _peer: SocketAddr) {
        // Whatever goes wrong with one connection, its client sees it close.
        let _ = RespConnection::new(state, StallTimeout::new(transport))
            .run()
            .await;
    }
}
