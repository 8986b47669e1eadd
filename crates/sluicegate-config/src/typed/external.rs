//! The service that knows callers' quotas, for limits with `quota_from: external`.

use std::path::PathBuf;

use sluicegate_core::Nanos;

use super::Redis;
use crate::secret_names::{SECRET_HEADERS, is_secret_header};

/// The service that limits with `quota_from: external` ask.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalSettings {
    /// The longest a request waits for it, 1 ms to 1 min.
    pub timeout: Nanos,
    /// The lifetime of an answer that does not name one, 1 s to 1 d.
    pub cache_ttl: Nanos,
    /// The most calls at a time, 1 to 10,000.
    pub max_concurrent_requests: usize,
    /// Its protocol and address.
    pub service: ExternalService,
    /// The headers of a request that are sent to it.
    pub headers: HeaderFilter,
    /// The Redis that keeps answers; `None` is the store's, if the store is in Redis.
    pub cache_redis: Option<Box<Redis>>,
    /// The servers to which its answers may send requests.
    pub backend_url: BackendUrlSettings,
}

/// The protocol and address of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalService {
    /// JSON, as the body of a `POST`.
    Http {
        /// The address of the service.
        at: ServiceAddress,
        /// The path, with its query.
        path: String,
    },
    /// `edgequota.ratelimit.v1.RateLimitService/GetLimits`.
    Grpc {
        /// The address of the service.
        at: ServiceAddress,
        /// The encoding of messages.
        codec: GrpcCodec,
    },
}

impl ExternalService {
    /// The address of the service.
    pub fn at(&self) -> &ServiceAddress {
        match self {
            Self::Http { at, .. } | Self::Grpc { at, .. } => at,
        }
    }
}

/// The address of a service, and how it is reached. The default is no address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceAddress {
    /// True for TLS.
    pub tls: bool,
    /// A name or address; an IPv6 address without its brackets.
    pub host: String,
    /// The port; 80, or 443 with TLS, where the URL has none.
    pub port: u16,
    /// Authorities to trust besides the system's, in PEM.
    pub ca_file: Option<PathBuf>,
}

impl ServiceAddress {
    /// `http://host:port` or `https://host:port`, with brackets around an address of IPv6.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        format!("{scheme}://{host}:{}", self.port)
    }
}

/// The encoding of gRPC messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrpcCodec {
    /// Whichever the service understands, protocol buffers first.
    #[default]
    Auto,
    /// Protocol buffers.
    Protobuf,
    /// JSON (`application/grpc+json`).
    Json,
}

/// The headers of a request that are sent to the service; names in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderFilter {
    /// These and no others.
    Only(Vec<String>),
    /// All but these, and but those that [hold credentials](HeaderFilter::is_secret).
    AllBut(Vec<String>),
}

impl HeaderFilter {
    /// Well-known headers that hold credentials; names of others are found by patterns.
    pub const SECRET: &[&str] = &SECRET_HEADERS;

    /// Returns true for a header that holds a credential by its name: it is in the list, or looks
    /// like those, such as `x-any-token`.
    pub fn is_secret(name: &str) -> bool {
        is_secret_header(name)
    }

    /// Returns true when a header is sent; `name` in lower case. A credential is sent only if it is
    /// allowed by name.
    pub fn tells(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.iter().any(|known| known == name),
            Self::AllBut(names) => {
                !names.iter().any(|known| known == name) && !is_secret_header(name)
            }
        }
    }
}

impl Default for HeaderFilter {
    /// All but those that hold credentials.
    fn default() -> Self {
        Self::AllBut(Vec::new())
    }
}

/// The servers to which the service's answers may send requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendUrlSettings {
    /// Hosts, lower case, or `*.example` for all below it; empty is every host.
    pub allowed_hosts: Vec<String>,
    /// True when addresses that are not public are never dialled.
    pub deny_private_networks: bool,
    /// `http`, `https` or both.
    pub schemes: Vec<BackendScheme>,
}

impl Default for BackendUrlSettings {
    /// Every public server, by `http` or `https`.
    fn default() -> Self {
        let schemes = vec![BackendScheme::Http, BackendScheme::Https];
        Self {
            allowed_hosts: Vec::new(),
            deny_private_networks: true,
            schemes,
        }
    }
}

/// The scheme of a server that an answer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendScheme {
    /// `http`
    Http,
    /// `https`
    Https,
}
