//! The options of a Redis store: where the servers are, how to log in, how long to wait.
//!
//! `url` makes options from a URL, and `validate` finds their mistakes. Both add their methods to
//! [`RedisOptions`] in their own files.

use std::path::PathBuf;

use sluicegate_core::{KeyLayout, Nanos, RedisClock};

use super::endpoint::Endpoint;
use super::recovery::Recovery;
use super::secret::Credentials;

/// The servers that hold the counters, and how they are reached.
///
/// Begin with the constructor for the kind of servers: [`standalone`](RedisOptions::standalone),
/// [`replication`](RedisOptions::replication), [`sentinel`](RedisOptions::sentinel) or
/// [`cluster`](RedisOptions::cluster), or with a URL ([`from_url`](RedisOptions::from_url)). Then
/// change the fields that need another value. [`RedisStore::new`](crate::RedisStore::new) checks
/// the result.
///
/// ```
/// use sluicegate::{Credentials, Nanos, RedisOptions, Secret};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut options = RedisOptions::cluster(["rl-0:6379".parse()?, "rl-1:6379".parse()?]);
/// options.credentials = Credentials {
///     username: Some("sluicegate".into()),
///     password: Some(Secret::new("…")),
/// };
/// options.deadline = Nanos::from_millis(20);
/// options.validate()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// How the servers belong together.
    pub mode: RedisMode,
    /// The server, the servers to begin with, or the sentinels. A cluster or replicated primary is
    /// found from any of them, so two or three are enough.
    pub endpoints: Vec<Endpoint>,
    /// User and password at the servers that hold counters.
    pub credentials: Credentials,
    /// Number of the database; a cluster has only 0.
    pub database: u32,
    /// TLS for every connection; without it, nothing is encrypted.
    pub tls: Option<TlsOptions>,
    /// The longest that a decision may take, 1 ms to 60 s; 50 ms by default. When it is over, the
    /// failure policy of the limit applies.
    pub deadline: Nanos,
    /// The longest that a new connection may take, TLS and login included, 1 ms to 60 s; 1 s by
    /// default. Decisions do not wait for it longer than their deadline.
    pub connect_timeout: Nanos,
    /// The waits between attempts while a server is away.
    pub recovery: Recovery,
    /// The beginning of every key, at most [`KeyLayout::PREFIX_MAX`] bytes; `sluicegate` by
    /// default. Replicas that should share counters need the same prefix.
    pub key_prefix: String,
    /// How keys are written: readable, or as digests.
    pub key_layout: KeyLayout,
    /// The clock that decides; that of the server by default.
    pub clock: RedisClock,
}

impl RedisOptions {
    /// Options for one server.
    pub fn standalone(endpoint: Endpoint) -> Self {
        Self::of(RedisMode::Standalone, vec![endpoint])
    }

    /// Options for a primary and its replicas without sentinels. The primary is found by asking
    /// each for its role.
    pub fn replication(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self::of(RedisMode::Replication, endpoints.into_iter().collect())
    }

    /// Options for the primary that these sentinels know as `master`. The endpoints are those of
    /// the sentinels; without a port they are at 26379.
    pub fn sentinel(
        endpoints: impl IntoIterator<Item = Endpoint>,
        master: impl Into<String>,
    ) -> Self {
        let mode = RedisMode::Sentinel {
            master: master.into(),
            credentials: Credentials::default(),
        };
        Self::of(
            mode,
            endpoints
                .into_iter()
                .map(|endpoint| endpoint.or_port(Endpoint::SENTINEL_PORT))
                .collect(),
        )
    }

    /// Options for the cluster that these nodes belong to.
    pub fn cluster(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self::of(RedisMode::Cluster, endpoints.into_iter().collect())
    }

    /// Default options for these servers.
    pub(super) fn of(mode: RedisMode, endpoints: Vec<Endpoint>) -> Self {
        Self {
            mode,
            endpoints,
            credentials: Credentials::default(),
            database: 0,
            tls: None,
            deadline: Nanos::from_millis(50),
            connect_timeout: Nanos::SECOND,
            recovery: Recovery::default(),
            key_prefix: "sluicegate".to_owned(),
            key_layout: KeyLayout::default(),
            clock: RedisClock::default(),
        }
    }
}

/// How the servers belong together.
#[derive(Clone, Debug)]
pub enum RedisMode {
    /// One server.
    Standalone,
    /// A primary and its replicas.
    Replication,
    /// A primary that sentinels know.
    Sentinel {
        /// The name they know it by.
        master: String,
        /// The credentials for the sentinels themselves.
        credentials: Credentials,
    },
    /// Primaries that share the slots.
    Cluster,
}

/// TLS for the connections to Redis.
///
/// The certificates of the servers are always verified. The default trusts the authorities of the
/// system and expects the host of each endpoint in the certificate.
///
/// ```
/// use sluicegate::{RedisOptions, TlsOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut options = RedisOptions::standalone("redis.internal:6379".parse()?);
/// options.tls = Some(TlsOptions {
///     ca_file: Some("/etc/sluicegate/ca.pem".into()),
///     ..TlsOptions::default()
/// });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM file with the authorities to trust; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// Our certificate, for servers that require one.
    pub client_cert: Option<ClientCert>,
    /// Name in the certificates of the servers; `None` for the host of the endpoint. Needed where
    /// endpoints are addresses.
    pub server_name: Option<String>,
}

/// Our certificate and its key, both PEM files.
///
/// ```
/// use sluicegate::{ClientCert, TlsOptions};
///
/// let tls = TlsOptions {
///     client_cert: Some(ClientCert {
///         cert_file: "/etc/sluicegate/client.pem".into(),
///         key_file: "/etc/sluicegate/client.key".into(),
///     }),
///     ..TlsOptions::default()
/// };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCert {
    /// The certificate, followed by the intermediate ones up to the authority.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}
