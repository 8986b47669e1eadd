//! The servers that a request may go to, in the order in which it tries them.

use std::sync::Arc;

use sluicegate_net::Exchange;

use super::forward::ForwardContext;
use super::forward_failure::ForwardFailure;
use super::service::ClientConnection;
use super::upstream::{ServerGroup, UpstreamServer};

/// The servers that a request may go to.
pub(super) struct CandidateServers<'a> {
    /// The one that the limits service names. The others are for the case that none of its
    /// addresses may be dialled, and for no other failure of it.
    named: Option<Arc<UpstreamServer>>,
    /// Those of its route; `None` when no route covers it.
    route: Option<&'a ServerGroup>,
}

impl<'a> CandidateServers<'a> {
    pub(super) fn find(
        forwarding: &ForwardContext<'a>,
        path: &str,
    ) -> Result<Self, ForwardFailure> {
        let ForwardContext {
            caller,
            snapshot,
            host,
            routing,
            ..
        } = *forwarding;
        let backend = routing.and_then(|routing| routing.backend.as_ref());
        let named = backend.map(|backend| caller.handler.backend_server(&snapshot.gate, backend));
        let named = named.transpose().map_err(ForwardFailure::NoBackend)?;
        let route = snapshot.routes.group(host, path).map(|group| &**group);
        Ok(Self { named, route })
    }

    /// The connection that belongs to the client, if it has one to any of these servers.
    pub(super) fn private_connection(
        &self,
        caller: &ClientConnection,
    ) -> Option<(&Arc<UpstreamServer>, Exchange)> {
        let private = caller.private_connections()?;
        let of_route = self.route.into_iter().flat_map(ServerGroup::servers);
        self.named
            .iter()
            .chain(of_route)
            .find_map(|server| Some((server, private.take(Some(server.id?))?)))
    }

    /// The servers in the order in which the request should try them.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = &Arc<UpstreamServer>> {
        let of_route = self.route.into_iter().flat_map(ServerGroup::in_turn);
        self.named.iter().chain(of_route)
    }
}
