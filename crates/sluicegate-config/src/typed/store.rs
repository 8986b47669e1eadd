//! The store: counters in this process or in Redis.

use std::path::PathBuf;

use sluicegate_core::{FailurePolicy, KeyLayout, Nanos, RedisClock};

use super::proxy::ServerTls;

/// The place of the counters.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// The treatment of requests while the store is away; limits may differ.
    pub on_failure: FailurePolicy,
    /// The kind of store, with its settings.
    pub kind: StoreKind,
}

/// A store with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreKind {
    /// In this process.
    Local {
        /// The most counters that are kept, 1 to 1,000,000,000.
        max_keys: usize,
        /// The time between two sweeps, which remove counters that are full again.
        sweep: Nanos,
    },
    /// In Redis or Valkey.
    Redis(Box<Redis>),
}

/// Redis or Valkey.
#[derive(Clone, Debug, PartialEq)]
pub struct Redis {
    /// The topology of the servers.
    pub mode: RedisMode,
    /// `host:port`, as written in the file; at least one.
    pub endpoints: Vec<String>,
    /// The ACL user; `None` is the default user.
    pub username: Option<String>,
    /// The place of the password, which is read when the store is made.
    pub password: Option<SecretSource>,
    /// The database; a cluster has only 0.
    pub database: u32,
    /// TLS; `None` is plain TCP.
    pub tls: Option<RedisTls>,
    /// The longest a decision may take, 1 ms to 1 min.
    pub deadline: Nanos,
    /// The longest a new connection may take, 1 ms to 1 min.
    pub connect_timeout: Nanos,
    /// The first pause between attempts to connect.
    pub recovery_base: Nanos,
    /// The longest pause between attempts to connect; at least the first.
    pub recovery_cap: Nanos,
    /// The beginning of every key; at most [`KeyLayout::PREFIX_MAX`] bytes of visible ASCII.
    pub key_prefix: String,
    /// The form of keys.
    pub key_layout: KeyLayout,
    /// The clock that decisions are made by.
    pub clock: RedisClock,
}

/// The topology of the servers, with what each needs to be found.
///
/// The library has a mode of its own, which holds credentials where this one says where they are:
/// secrets are read when the store is made, and never while a file is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisMode {
    /// One server.
    Standalone,
    /// A primary and its replicas.
    Replication,
    /// A primary that sentinels name; the endpoints are the sentinels'.
    Sentinel {
        /// The name of the primary at the sentinels.
        master: String,
        /// The ACL user at the sentinels; `None` is the default user.
        username: Option<String>,
        /// The place of the password at the sentinels.
        password: Option<SecretSource>,
    },
    /// A cluster.
    Cluster,
}

/// The place of a secret; the secret itself is never in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// The first line of a file.
    File(PathBuf),
    /// A variable of the environment.
    Env(String),
}

/// TLS towards Redis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisTls {
    /// Certificates to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The certificate and key that we show to servers that ask for one.
    pub client: Option<ServerTls>,
    /// The name that the server's certificate must have; `None` is the host's.
    pub server_name: Option<String>,
}
