//! What a Redis store is told before it dials: where, as whom, how long.

use std::path::PathBuf;

use sluicegate_core::{KeyLayout, Nanos, RedisClock};

use super::endpoint::Endpoint;
use super::options_error::OptionsError;
use super::recovery::Recovery;
use super::secret::Credentials;
use super::{url, validate};

/// Where the counters are and how they are reached.
///
/// ```
/// use sluicegate::{Credentials, Nanos, RedisOptions, Secret};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut options = RedisOptions::cluster(["rl-0:6379".parse()?, "rl-1:6379".parse()?]);
/// options.credentials = Credentials { username: Some("sluicegate".into()), password: Some(Secret::new("…")) };
/// options.deadline = Nanos::from_millis(20);
/// options.validate()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// How the servers belong together.
    pub mode: RedisMode,
    /// The server, the servers to begin with, or the sentinels.
    pub endpoints: Vec<Endpoint>,
    /// Who we are to the servers that hold counters.
    pub credentials: Credentials,
    /// The database; a cluster has only 0.
    pub database: u32,
    /// TLS for every connection; without it, nothing is encrypted.
    pub tls: Option<TlsOptions>,
    /// The longest a decision may take, 1 ms to 60 s; 50 ms by default.
    pub deadline: Nanos,
    /// The longest a new connection may take, 1 ms to 60 s; 1 s by default.
    pub connect_timeout: Nanos,
    /// The pauses between attempts while the store is away.
    pub recovery: Recovery,
    /// The beginning of every key, at most [`KeyLayout::PREFIX_MAX`] bytes; `sluicegate` by default.
    pub key_prefix: String,
    /// The form of keys.
    pub key_layout: KeyLayout,
    /// Whose clock counts.
    pub clock: RedisClock,
}

impl RedisOptions {
    /// One server.
    pub fn standalone(endpoint: Endpoint) -> Self {
        Self::of(RedisMode::Standalone, vec![endpoint])
    }

    /// A primary and its replicas; the primary is found by asking each for its role.
    pub fn replication(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self::of(RedisMode::Replication, endpoints.into_iter().collect())
    }

    /// The primary that these sentinels name for `master`. Endpoints without a port are at 26379.
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

    /// The cluster that these nodes belong to.
    pub fn cluster(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        Self::of(RedisMode::Cluster, endpoints.into_iter().collect())
    }

    /// What a URL says; the rest as by default. Checked by [`RedisOptions::validate`].
    ///
    /// | URL | means |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/database]` | one server |
    /// | `redis://host,host…[/database]` | a primary and its replicas |
    /// | `redis+sentinel://host,host…/master[/database]` | sentinels; user and password are for the servers they name |
    /// | `redis+cluster://host,host…` | a cluster |
    ///
    /// With `rediss` instead of `redis`, connections use TLS, and the query parameters `ca_file` and `server_name` are
    /// known. User and password are percent-decoded; a password alone is written `:password@`.
    ///
    /// No error repeats any of the URL.
    pub fn from_url(text: &str) -> Result<Self, OptionsError> {
        let options = url::parse(text)?;
        options.validate().map(|()| options)
    }

    /// Looks for mistakes and names all of them.
    pub fn validate(&self) -> Result<(), OptionsError> {
        validate::validate(self)
    }

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
        /// Who we are to the sentinels themselves.
        credentials: Credentials,
    },
    /// Primaries that share the slots.
    Cluster,
}

/// TLS to the servers. Certificates are always verified.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// A PEM file with the authorities to trust; otherwise those of the system.
    pub ca_file: Option<PathBuf>,
    /// What we show to servers that ask who we are.
    pub client_cert: Option<ClientCert>,
    /// The name in the servers' certificates; otherwise the host of the endpoint.
    pub server_name: Option<String>,
}

/// A certificate of ours and its key, both PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCert {
    /// The certificate, followed by those between it and the authority.
    pub cert_file: PathBuf,
    /// The private key.
    pub key_file: PathBuf,
}
