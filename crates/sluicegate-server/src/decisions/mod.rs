//! The decision service: other proxies ask, and the same limits, stores and failure policies answer.
//!
//! Over HTTP, an [`About`] is made of what is asked, and the [`Answer`] is told in words; the other protocols ask about charges.

mod about;
mod asking;
mod authorize;
mod door;
pub(crate) mod grpc;
mod http;
mod openapi;
#[cfg(test)]
mod patience;
mod resp;
#[cfg(test)]
mod test_desk;
mod token;

use std::sync::Arc;

use sluicegate_config as config;
use sluicegate_net::Endpoint;
use tokio::sync::watch;

use crate::live::Gate;

pub(crate) use about::{About, Answer, GiveBackError};
pub(crate) use asking::Asking;
pub(crate) use door::DoorTls;
pub(crate) use http::{Described, about_request as described, is_json};
pub(crate) use token::SharedToken;

/// The keys of the addresses, by protocol.
pub(crate) const HTTP: &str = "decisions.http";
pub(crate) const GRPC: &str = "decisions.grpc";
pub(crate) const RESP: &str = "decisions.resp";

/// What all protocols share.
pub(crate) struct Desk {
    pub(crate) gate: Arc<Gate>,
    /// What callers must show.
    pub(crate) token: Option<SharedToken>,
    /// Becomes true when no question may begin any more.
    pub(crate) ending: watch::Receiver<bool>,
}

/// An endpoint for each protocol that the configuration turns on.
pub(crate) fn endpoints(
    config: &config::Decisions,
    gate: &Arc<Gate>,
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
    let desk = Arc::new(Desk {
        gate: Arc::clone(gate),
        token,
        ending: ending.clone(),
    });
    let mut endpoints = Vec::new();
    endpoints.extend(
        config
            .http
            .map(|address| door::endpoint(http::Http::new(ending), address, &desk)),
    );
    if let Some(address) = config.grpc {
        endpoints.push(door::endpoint(grpc::Envoy::new()?, address, &desk));
    }
    endpoints.extend(
        config
            .resp
            .map(|address| door::endpoint(resp::Resp, address, &desk)),
    );
    Ok(endpoints)
}
