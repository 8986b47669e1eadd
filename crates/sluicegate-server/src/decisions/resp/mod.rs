//! The protocol of Redis: `CL.THROTTLE` as clients of redis-cell send it, and the configured limits
//! by name.
//!
//! `parse.rs` takes commands out of the input, `command.rs` and `counter_command.rs` give them
//! meaning, `session.rs` answers those about the connection, `reply.rs` writes replies, and
//! `connection.rs` drives them all.

mod command;
mod connection;
mod counter_command;
#[cfg(feature = "fuzz-internals")]
pub(crate) mod fuzz_internals;
mod parse;
mod reply;
mod session;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use sluicegate_net::Transport;

use super::DecisionsState;
use super::endpoint::{EndpointProtocol, EndpointTls};
use connection::RespConnection;

/// RESP as a protocol of the decision service.
pub(super) struct RespProtocol;

impl EndpointProtocol for RespProtocol {
    const NAME: &'static str = super::RESP;

    fn tls(tls: &EndpointTls) -> &Arc<ServerConfig> {
        &tls.resp
    }

    /// Serves a client until it goes, sends something that is no command, or the process ends.
    async fn serve(&self, state: Arc<DecisionsState>, transport: Transport, _peer: SocketAddr) {
        // An error ends this connection only; its client sees it close.
        let _ = RespConnection::new(state, transport).run().await;
    }
}
