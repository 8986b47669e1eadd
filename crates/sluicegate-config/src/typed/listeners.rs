//! The decision service and the admin API: listeners that ask for a token beyond loopback.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::proxy::ServerTls;

/// The decision service: where other proxies ask whether a request may pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decisions {
    /// JSON, and the authorization requests of gateways; `None` is off.
    pub http: Option<SocketAddr>,
    /// Envoy's rate limit service; `None` is off.
    pub grpc: Option<SocketAddr>,
    /// The protocol of Redis; `None` is off.
    pub resp: Option<SocketAddr>,
    /// The file with the token that callers must show; `None` asks for no token.
    pub token_file: Option<PathBuf>,
    /// TLS for all of them; `None` is plain.
    pub tls: Option<DecisionsTls>,
    /// True when an address beyond loopback needs neither a token nor certificates.
    pub allow_remote: bool,
}

/// TLS of the decision service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionsTls {
    /// The certificate that callers see.
    pub server: ServerTls,
    /// The authority of the certificates that callers must show; `None` asks for none.
    pub client_ca_file: Option<PathBuf>,
}

impl Decisions {
    /// Every address that is listened at, with its key in the file.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let all = [
            ("decisions.http", self.http),
            ("decisions.grpc", self.grpc),
            ("decisions.resp", self.resp),
        ];
        all.into_iter()
            .filter_map(|(name, address)| Some((name, address?)))
    }
}

/// The listener of the admin API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// The address; `None` is off.
    pub listen: Option<SocketAddr>,
    /// The file with the token; present whenever `listen` is not loopback.
    pub token_file: Option<PathBuf>,
}
