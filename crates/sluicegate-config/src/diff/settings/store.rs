//! The settings of the store.

use super::{Settings, layout};
use crate::summary::failure;
use crate::typed::{
    Redis, RedisClock, RedisMode, RedisTls, SecretSource, ServerTls, Store, StoreKind,
};

/// Every setting of `store`.
pub(super) fn list(store: &Store, settings: &mut Settings) {
    let Store { on_failure, kind } = store;
    settings.put(
        "store.on_failure",
        format_args!("\"{}\"", failure(*on_failure)),
    );
    match kind {
        StoreKind::Local { max_keys, sweep } => {
            settings.put("store.kind", "local");
            settings.put("store.local.max_keys", max_keys);
            settings.put("store.local.sweep", sweep);
        }
        StoreKind::Redis(redis) => {
            settings.put("store.kind", "redis");
            self::redis("store.redis", redis, settings);
            settings.put("store.deadline", redis.deadline);
            settings.put("store.key_prefix", &redis.key_prefix);
            settings.put("store.key_layout", layout(redis.key_layout));
            settings.put(
                "store.clock",
                match redis.clock {
                    RedisClock::Server => "server",
                    RedisClock::Replica => "replica",
                    RedisClock::Given => "given",
                },
            );
        }
    }
}

/// The servers and credentials of one Redis; also those of the cache of answers.
pub(super) fn redis(path: &str, redis: &Redis, settings: &mut Settings) {
    let Redis {
        mode,
        endpoints,
        username,
        password,
        database,
        tls,
        connect_timeout,
        recovery_base,
        recovery_cap,
        // Keys of `store` itself.
        deadline: _,
        key_prefix: _,
        key_layout: _,
        clock: _,
    } = redis;
    let name = match mode {
        RedisMode::Standalone => "standalone",
        RedisMode::Replication => "replication",
        RedisMode::Cluster => "cluster",
        RedisMode::Sentinel {
            master,
            username,
            password,
        } => {
            let path = format!("{path}.sentinel");
            settings.put(format!("{path}.master"), master);
            credentials(&path, username.as_deref(), password.as_ref(), settings);
            "sentinel"
        }
    };
    settings.put(format!("{path}.mode"), name);
    settings.put_list(format!("{path}.endpoints"), endpoints);
    credentials(path, username.as_deref(), password.as_ref(), settings);
    settings.put(format!("{path}.database"), database);
    settings.put(format!("{path}.connect_timeout"), connect_timeout);
    settings.put(format!("{path}.recovery.base"), recovery_base);
    settings.put(format!("{path}.recovery.cap"), recovery_cap);
    if let Some(tls) = tls {
        let RedisTls {
            ca_file,
            client,
            server_name,
        } = tls;
        let path = format!("{path}.tls");
        settings.put(format!("{path}.enabled"), true);
        settings.put_some(
            format!("{path}.ca_file"),
            ca_file.as_ref().map(|file| file.display()),
        );
        settings.put_some(format!("{path}.server_name"), server_name.as_ref());
        certificate(&path, client.as_ref(), settings);
    }
}

/// The user, and the place of the password.
fn credentials(
    path: &str,
    username: Option<&str>,
    password: Option<&SecretSource>,
    settings: &mut Settings,
) {
    settings.put_some(format!("{path}.username"), username);
    match password {
        Some(SecretSource::File(file)) => {
            settings.put(format!("{path}.password_file"), file.display());
        }
        Some(SecretSource::Env(name)) => settings.put(format!("{path}.password_env"), name),
        None => {}
    }
}

/// The files of a certificate.
pub(super) fn certificate(path: &str, tls: Option<&ServerTls>, settings: &mut Settings) {
    if let Some(ServerTls { cert, key }) = tls {
        settings.put(format!("{path}.cert"), cert.display());
        settings.put(format!("{path}.key"), key.display());
    }
}
