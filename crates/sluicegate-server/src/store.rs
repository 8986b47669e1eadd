//! The store that a configuration asks for.

use std::sync::Arc;

use sluicegate::{
    Charge, ClientCert, Clock, Credentials, Key, List, LocalOptions, LocalStore, Nanos, Outcome,
    Recovery, RedisMode, RedisOptions, RedisStore, Secret, Store, StoreError, Timestamp,
    TlsOptions,
};
use sluicegate_config as config;
use sluicegate_core::algorithm::State;

/// Counters in this process or in Redis.
#[derive(Debug)]
pub enum AnyStore {
    /// In this process.
    Local(LocalStore),
    /// In Redis or Valkey.
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
            // In a box: every request has room for this, and most need none of it.
            Self::Redis(store) => Box::pin(store.decide(charges, clock)).await,
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

    async fn reset<C: Clock>(&self, key: &Key<'_>, clock: &C) -> Result<(), StoreError> {
        match self {
            Self::Local(store) => store.reset(key, clock).await,
            Self::Redis(store) => store.reset(key, clock).await,
        }
    }

    fn remembered(&self, charge: &Charge<'_>, now: Timestamp) -> Option<State> {
        match self {
            Self::Local(store) => store.remembered(charge, now),
            Self::Redis(store) => store.remembered(charge, now),
        }
    }
}

impl AnyStore {
    /// Makes the store, or says what is wrong with its settings. Certificates and passwords are read, nothing is dialled.
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

/// A client of a Redis that is configured at `place`.
pub(crate) fn redis_store(redis: &config::Redis, place: &str) -> Result<RedisStore, Vec<String>> {
    RedisStore::new(redis_options(redis, place)?).map_err(|error| error.mistakes().to_vec())
}

fn redis_options(redis: &config::Redis, place: &str) -> Result<RedisOptions, Vec<String>> {
    let mut mistakes = Vec::new();
    let mut secret = |field: &str, source: &Option<config::SecretSource>| match source {
        None => None,
        Some(config::SecretSource::File(path)) => noted(
            &format!("{place}.{field}"),
            Secret::from_file(path),
            &mut mistakes,
        ),
        Some(config::SecretSource::Env(name)) => noted(
            &format!("{place}.{field}"),
            Secret::from_env(name),
            &mut mistakes,
        ),
    };
    let password = secret("password", &redis.password);
    let mode = match &redis.mode {
        config::RedisMode::Standalone => RedisMode::Standalone,
        config::RedisMode::Replication => RedisMode::Replication,
        config::RedisMode::Sentinel {
            master,
            username,
            password,
        } => {
            let password = secret("sentinel.password", password);
            RedisMode::Sentinel {
                master: master.clone(),
                credentials: Credentials {
                    username: username.clone(),
                    password,
                },
            }
        }
        config::RedisMode::Cluster => RedisMode::Cluster,
    };
    let mut endpoints = Vec::new();
    for (number, endpoint) in redis.endpoints.iter().enumerate() {
        endpoints.extend(noted(
            &format!("{place}.endpoints[{number}]"),
            endpoint.parse(),
            &mut mistakes,
        ));
    }
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let mut options = match mode {
        RedisMode::Sentinel {
            master,
            credentials,
        } => {
            let mut options = RedisOptions::sentinel(endpoints, master.clone());
            options.mode = RedisMode::Sentinel {
                master,
                credentials,
            };
            options
        }
        mode => RedisOptions {
            mode,
            ..RedisOptions::replication(endpoints)
        },
    };
    options.credentials = Credentials {
        username: redis.username.clone(),
        password,
    };
    options.database = redis.database;
    options.tls = redis.tls.as_ref().map(tls_options);
    options.deadline = redis.deadline;
    options.connect_timeout = redis.connect_timeout;
    options.recovery = Recovery {
        base: redis.recovery_base,
        cap: redis.recovery_cap,
    };
    options.key_prefix = redis.key_prefix.clone();
    options.key_layout = redis.key_layout;
    options.clock = redis.clock;
    options
        .validate()
        .map_err(|error| error.mistakes().to_vec())?;
    Ok(options)
}

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

fn noted<T, E: std::fmt::Display>(
    place: &str,
    result: Result<T, E>,
    mistakes: &mut Vec<String>,
) -> Option<T> {
    result
        .map_err(|error| mistakes.push(format!("{place}: {error}")))
        .ok()
}
