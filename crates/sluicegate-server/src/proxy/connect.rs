//! Connections that a request can be sent over: open ones, idle ones, and those that are waited for.

use sluicegate_gate::telemetry::metrics::UpstreamFailure;
use sluicegate_net::http2_client::{self, OpenStream};
use sluicegate_net::{ConnectionGrant, ConnectionSlot, Exchange, NoSlot, Transport};

use super::dial::{self, DialError};
use super::forward::{ForwardContext, record_unreachable};
use super::forward_failure::ForwardFailure;
use super::upstream::UpstreamServer;

/// A connection to a server that is open already.
pub(super) enum ReadyConnection {
    Http2(OpenStream),
    Idle(Exchange),
}

impl ReadyConnection {
    /// The client's own connection to the server, if it has one; else any. An error if there is one
    /// of HTTP/2 with as many streams as the server allows.
    pub(super) fn find(
        server: &UpstreamServer,
        private: Option<Exchange>,
    ) -> Result<Option<Self>, NoSlot> {
        if private.is_none()
            && let Some(connection) = http2_client::open_connection(server.id)
        {
            return connection
                .try_stream()
                .map(Self::Http2)
                .map(Some)
                .ok_or(NoSlot);
        }
        let idle = private.or_else(|| Exchange::reused(server.id));
        Ok(idle.map(Self::Idle))
    }
}

/// A connection that was waited for.
pub(super) enum NewConnection {
    /// Another request of this thread has just finished with it.
    HandedOver(Exchange),
    Dialled(Transport, ConnectionSlot),
}

/// Waits for a connection to a server.
pub(super) async fn take_connection(
    forwarding: &ForwardContext<'_>,
    server: &UpstreamServer,
) -> Result<NewConnection, ForwardFailure> {
    let ForwardContext { snapshot, .. } = *forwarding;
    let slot = match server.slots.take(snapshot.upstream_wait()).await {
        Ok(ConnectionGrant::HandedOver(exchange)) => {
            return Ok(NewConnection::HandedOver(exchange));
        }
        Ok(ConnectionGrant::Slot(slot)) => slot,
        Err(NoSlot) => return Err(record_busy(forwarding)),
    };
    match dial::dial(server, snapshot.connect_timeout()).await {
        Ok(stream) => Ok(NewConnection::Dialled(stream, slot)),
        Err(DialError::NotAllowed) => Err(ForwardFailure::NoRoute),
        Err(DialError::Failed(error)) => {
            record_unreachable(forwarding, server, &error);
            Err(ForwardFailure::Unreachable(error))
        }
    }
}

/// Counts a request that found no connection. The server's health is not touched: it works.
pub(super) fn record_busy(forwarding: &ForwardContext<'_>) -> ForwardFailure {
    let metrics = &forwarding.caller.handler.gate.metrics;
    metrics.upstream_failed(UpstreamFailure::Busy);
    ForwardFailure::Busy
}
