//! The decision service: other proxies ask whether a request may pass, over HTTP, gRPC or RESP, and
//! the same limits, stores and failure policies answer.
//!
//! Every protocol does the same: it parses, calls [`DecisionCall::admit`], and writes the answer.

mod authorize;
mod call;
mod check;
mod endpoint;
pub(crate) mod grpc;
mod http;
mod openapi;
pub(crate) mod resp;
#[cfg(test)]
mod test_state;
#[cfg(test)]
mod timeout_tests;
mod token;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use sluicegate_config as config;
use sluicegate_gate::gate::Gate;
use sluicegate_net::Endpoint;
use tokio::sync::watch;

pub(crate) use call::DecisionCall;
pub(crate) use check::CheckAnswer;
pub(crate) use endpoint::EndpointTls;
pub(crate) use token::SharedToken;

/// The keys of the addresses, by protocol.
pub(crate) const HTTP: &str = "decisions.http";
pub(crate) const GRPC: &str = "decisions.grpc";
pub(crate) const RESP: &str = "decisions.resp";

/// The state that all protocols share.
pub(crate) struct DecisionsState {
    pub(crate) gate: Arc<Gate>,
    /// The token that callers must show; `None` when everybody may ask.
    pub(crate) token: Option<SharedToken>,
    /// Becomes true when the process ends: no new request is answered then.
    pub(crate) ending: watch::Receiver<bool>,
    /// The certificates, where the configuration names any; a reload replaces them.
    pub(crate) tls: Arc<ArcSwapOption<EndpointTls>>,
}

/// Makes an endpoint for each protocol that the configuration turns on.
pub(crate) fn endpoints(
    config: &config::Decisions,
    gate: &Arc<Gate>,
    tls: &Arc<ArcSwapOption<EndpointTls>>,
    ending: &watch::Receiver<bool>,
) -> Result<Vec<Endpoint>, String> {
    if config.addresses().next().is_none() {
        return Ok(Vec::new());
    }
    let token = match &config.token_file {
        None => None,
        Some(file) => Some(
            SharedToken::from_file(file)
                .map_err(|error| format!("decisions.token_file: {error}"))?,
        ),
    };
    let state = Arc::new(DecisionsState {
        gate: Arc::clone(gate),
        token,
        ending: ending.clone(),
        tls: Arc::clone(tls),
    });
    let mut endpoints = Vec::new();
    endpoints.extend(
        config
            .http
            .map(|address| endpoint::endpoint(http::HttpProtocol::new(ending), address, &state)),
    );
    if let Some(address) = config.grpc {
        endpoints.push(endpoint::endpoint(
            grpc::EnvoyProtocol::new()?,
            address,
            &state,
        ));
    }
    endpoints.extend(
        config
            .resp
            .map(|address| endpoint::endpoint(resp::RespProtocol, address, &state)),
    );
    Ok(endpoints)
}
