//! The decision service: other proxies ask, and the same limits, stores and failure policies answer.
//!
//! Every protocol makes an [`About`] of what it is asked, and tells the [`Answer`] in its own words.

mod about;
mod authorize;
mod http;
mod openapi;
mod stall;
mod token;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::watch;
use tollgate_config as config;

use crate::cores::Door;
use crate::live::Gate;

pub(crate) use about::{About, Answer, GiveBackError};
pub(crate) use stall::Impatient;
pub(crate) use token::SharedToken;

/// The keys of the addresses, by protocol.
pub(crate) const HTTP: &str = "decisions.http";

/// Connections of each protocol at a time.
const CONNECTIONS_MAX: usize = 10_000;

/// What all protocols share.
pub(crate) struct Desk {
    pub(crate) gate: Arc<Gate>,
    /// What callers must show.
    pub(crate) token: Option<SharedToken>,
    /// Becomes true when no question may begin any more.
    pub(crate) ending: watch::Receiver<bool>,
}

/// A door for each protocol that the configuration turns on.
pub(crate) fn doors(
    config: &config::Decisions,
    gate: &Arc<Gate>,
    ending: &watch::Receiver<bool>,
) -> Result<Vec<Door>, String> {
    if config.addresses().next().is_none() {
        return Ok(Vec::new());
    }
    let token = match &config.token_file {
        None => None,
        Some(file) => Some(SharedToken::from_file(file).map_err(|error| format!("decisions.token_file: {error}"))?),
    };
    let desk = Arc::new(Desk { gate: Arc::clone(gate), token, ending: ending.clone() });
    let http = config.http.map(|address| door(HTTP, address, &desk, http::serve));
    Ok(http.into_iter().collect())
}

/// A door whose connections are served by one of the protocols.
fn door<F>(
    name: &'static str,
    address: SocketAddr,
    desk: &Arc<Desk>,
    serve: impl Fn(Arc<Desk>, TcpStream, SocketAddr) -> F + Send + Sync + 'static,
) -> Door
where
    F: Future<Output = ()> + Send + 'static,
{
    let desk = Arc::clone(desk);
    Door::new(name, vec![address], CONNECTIONS_MAX, move |stream, peer| serve(Arc::clone(&desk), stream, peer))
}
