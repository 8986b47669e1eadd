//! The store that a configuration asks for: in this process, or in Redis.
//!
//! One enum and not a trait object, because the verbs of a store are generic and on the path of
//! every request. The rest of the file converts the settings of the file to those of the client.

use std::fmt;
use std::sync::Arc;

use sluicegate::{
    Charge, ClientCert, Clock, Credentials, List, LocalOptions, LocalStore, Nanos, Outcome, Quota,
    Recovery, RedisMode, RedisOptions, RedisStore, Secret, Store, StoreError, Timestamp,
    TlsOptions,
};
use sluicegate_config as config;
use sluicegate_core::algorithm::State;

/// Counters in this process or in Redis.
#[derive(Debug)]
pub enum AnyStore {
    /// In the memory of this process; each replica counts for itself.
    Local(LocalStore),
    /// In Redis or Valkey, shared by all replicas.
    Redis(Arc<RedisStore>),
}

impl Store for AnyStore {
    async fn decide<C: Clock>(
        &self,
        charges: &[Charge<'_>],
        clock: &C,
    ) -> Result<List<Outcome>, StoreError> {
        match self {
            Self::Local(store) => store.decide(charges, clock).await,
            Self::Redis(store) => store.decide(charges, clock).await,
        }
    }

    async fn refund<C: Clock>(
        &self,
        charge: &Charge<'_>,
        age: Nanos,
        clock: &C,
    ) -> Result<Outcome, StoreError> {
        match self {
            Self::Local(store) => store.refund(charge, age, clock).await,
            Self::Redis(store) => store.refund(charge, age, clock).await,
        }
    }

    async fn reset<C: Clock>(&self, charge: &Charge<'_>, clock: &C) -> Result<(), StoreError> {
        match self {
            Self::Local(store) => store.reset(charge, clock).await,
            Self::Redis(store) => store.reset(charge, clock).await,
        }
    }

    #[inline]
    fn as_local(&self) -> Option<&LocalStore> {
        match self {
            Self::Local(store) => Some(store),
            Self::Redis(_) => None,
        }
    }

    fn remembered(&self, charge: &Charge<'_>, now: Timestamp) -> Option<State> {
        match self {
            Self::Local(store) => store.remembered(charge, now),
            Self::Redis(store) => store.remembered(charge, now),
        }
    }

    fn has_excess(&self) -> bool {
        match self {
            Self::Local(store) => store.has_excess(),
            Self::Redis(store) => store.has_excess(),
        }
    }

    fn larger_quota(&self, charge: &Charge<'_>, now: Timestamp) -> Option<Quota> {
        match self {
            Self::Local(store) => store.larger_quota(charge, now),
            Self::Redis(store) => store.larger_quota(charge, now),
        }
    }
}

impl AnyStore {
    /// Makes the store, or returns all mistakes in its settings. Certificates and passwords are
    /// read; no connection is made yet.
    pub fn new(kind: &config::StoreKind) -> Result<Self, Vec<String>> {
        match kind {
            config::StoreKind::Local { max_keys, sweep } => {
                let options = LocalOptions {
                    max_keys: *max_keys,
                    sweep_interval: *sweep,
                };
                Ok(Self::Local(LocalStore::new(options)))
            }
            config::StoreKind::Redis(redis) => {
                Ok(Self::Redis(Arc::new(redis_store(redis, "store.redis")?)))
            }
        }
    }
}

/// A client of the Redis that is configured at `place`, which begins all mistakes.
pub(crate) fn redis_store(redis: &config::Redis, place: &str) -> Result<RedisStore, Vec<String>> {
    RedisStore::new(redis_options(redis, place)?).map_err(|error| error.mistakes().to_vec())
}

/// Converts the settings of the file to those of the client, or returns all mistakes.
///
/// Endpoints and secrets can be wrong, so they come first and are checked together; the rest is
/// copied, and checked once more as a whole.
fn redis_options(redis: &config::Redis, place: &str) -> Result<RedisOptions, Vec<String>> {
    let mut mistakes = Mistakes {
        place,
        list: Vec::new(),
    };
    let password = mistakes.secret("password", redis.password.as_ref());
    let mode = redis_mode(&redis.mode, &mut mistakes);
    let endpoints = redis.endpoints.iter().enumerate();
    let endpoints: Vec<_> = endpoints
        .filter_map(|(number, endpoint)| {
            mistakes.collect(&format!("endpoints[{number}]"), endpoint.parse())
        })
        .collect();
    if !mistakes.list.is_empty() {
        return Err(mistakes.list);
    }
    // The defaults of sentinels differ, such as their port.
    let defaults = match &mode {
        RedisMode::Sentinel { master, .. } => RedisOptions::sentinel(endpoints, master.clone()),
        _ => RedisOptions::replication(endpoints),
    };
    let options = RedisOptions {
        mode,
        credentials: Credentials {
            username: redis.username.clone(),
            password,
        },
        database: redis.database,
        tls: redis.tls.as_ref().map(tls_options),
        deadline: redis.deadline,
        connect_timeout: redis.connect_timeout,
        recovery: Recovery {
            base: redis.recovery_base,
            cap: redis.recovery_cap,
        },
        key_prefix: redis.key_prefix.clone(),
        key_layout: redis.key_layout,
        clock: redis.clock,
        ..defaults
    };
    options
        .validate()
        .map_err(|error| error.mistakes().to_vec())?;
    Ok(options)
}

fn redis_mode(mode: &config::RedisMode, mistakes: &mut Mistakes<'_>) -> RedisMode {
    match mode {
        config::RedisMode::Standalone => RedisMode::Standalone,
        config::RedisMode::Replication => RedisMode::Replication,
        config::RedisMode::Sentinel {
            master,
            username,
            password,
        } => RedisMode::Sentinel {
            master: master.clone(),
            credentials: Credentials {
                username: username.clone(),
                password: mistakes.secret("sentinel.password", password.as_ref()),
            },
        },
        config::RedisMode::Cluster => RedisMode::Cluster,
    }
}

/// The TLS settings; certificates are read by the client.
fn tls_options(tls: &config::RedisTls) -> TlsOptions {
    let client_cert = |own: &config::ServerTls| ClientCert {
        cert_file: own.cert.clone(),
        key_file: own.key.clone(),
    };
    TlsOptions {
        ca_file: tls.ca_file.clone(),
        client_cert: tls.client.as_ref().map(client_cert),
        server_name: tls.server_name.clone(),
    }
}

/// Collects the mistakes in a section of the configuration, so that all are reported at once.
struct Mistakes<'a> {
    /// The path of the section, such as `store.redis`.
    place: &'a str,
    list: Vec<String>,
}

impl Mistakes<'_> {
    /// The value of a field; a mistake is added to the list.
    fn collect<T, E: fmt::Display>(&mut self, field: &str, result: Result<T, E>) -> Option<T> {
        result
            .map_err(|error| self.list.push(format!("{}.{field}: {error}", self.place)))
            .ok()
    }

    /// A secret from its file or environment variable; `None` when it is not configured or wrong.
    fn secret(&mut self, field: &str, source: Option<&config::SecretSource>) -> Option<Secret> {
        match source? {
            config::SecretSource::File(path) => self.collect(field, Secret::from_file(path)),
            config::SecretSource::Env(name) => self.collect(field, Secret::from_env(name)),
        }
    }
}
