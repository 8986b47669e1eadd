//! The service that knows callers' quotas.

use std::path::PathBuf;

use sluicegate_core::Nanos;

use super::Redis;

/// The service that limits with `quota_from: external` ask.
#[derive(Clone, Debug, PartialEq)]
pub struct ExternalSettings {
    /// The longest a request waits for it.
    pub timeout: Nanos,
    /// How long an answer holds that does not say.
    pub cache_ttl: Nanos,
    /// Calls at a time.
    pub max_concurrent_requests: usize,
    /// How it is asked.
    pub service: ExternalService,
    /// Which headers of a request it is told.
    pub headers: HeaderFilter,
    /// The Redis that keeps answers; `None` is the store's, if it is one.
    pub cache_redis: Option<Box<Redis>>,
    /// Where its answers may send requests.
    pub backend_url: BackendUrlSettings,
}

/// How the service is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalService {
    /// JSON, as the body of a `POST`.
    Http {
        /// Where it listens.
        at: ServiceAddress,
        /// The path, with its query.
        path: String,
    },
    /// `edgequota.ratelimit.v1.RateLimitService/GetLimits`.
    Grpc {
        /// Where it listens.
        at: ServiceAddress,
        /// How messages are written.
        codec: GrpcCodec,
    },
}

impl ExternalService {
    /// Where it listens.
    pub fn at(&self) -> &ServiceAddress {
        match self {
            Self::Http { at, .. } | Self::Grpc { at, .. } => at,
        }
    }
}

/// Where a service listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAddress {
    /// Whether it is spoken to over TLS.
    pub tls: bool,
    /// A name or address; an IPv6 address without its brackets.
    pub host: String,
    /// 80, or 443 with TLS, unless said.
    pub port: u16,
    /// Certificates that it may be signed with, besides the system's.
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

/// How messages of gRPC are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrpcCodec {
    /// Protocol buffers.
    #[default]
    Protobuf,
    /// JSON (`application/grpc+json`).
    Json,
}

/// Which headers of a request the service is told; names in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderFilter {
    /// These and no others.
    Only(Vec<String>),
    /// All but these, which include [`HeaderFilter::SECRET`].
    AllBut(Vec<String>),
}

impl HeaderFilter {
    /// Headers that hold credentials: told only if an allow list names them.
    pub const SECRET: [&str; 14] = [
        "authorization",
        "proxy-authorization",
        "www-authenticate",
        "proxy-authenticate",
        "cookie",
        "set-cookie",
        "x-api-key",
        "api-key",
        "x-auth-token",
        "x-access-token",
        "x-csrf-token",
        "x-xsrf-token",
        "x-amz-security-token",
        "x-forwarded-client-cert",
    ];

    /// Whether a header is told; `name` in lower case.
    pub fn tells(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.iter().any(|known| known == name),
            Self::AllBut(names) => !names.iter().any(|known| known == name),
        }
    }
}

impl Default for HeaderFilter {
    fn default() -> Self {
        Self::AllBut(Self::SECRET.map(str::to_owned).to_vec())
    }
}

/// Where the service's answers may send requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendUrlSettings {
    /// Hosts, lower case, `*.example` for all below it; empty is every host.
    pub allowed_hosts: Vec<String>,
    /// Whether addresses that are not public are never dialled.
    pub deny_private_networks: bool,
    /// `http`, `https` or both.
    pub schemes: Vec<BackendScheme>,
}

impl Default for BackendUrlSettings {
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
