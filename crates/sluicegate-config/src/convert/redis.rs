//! `store.redis`, and the keys of `store` that apply to Redis only: topology, servers, credentials,
//! TLS and timeouts.
//!
//! A URL and the keys that it replaces lead to the same settings; giving both is a mistake. Secrets
//! are never read here, only the place where they are.

use sluicegate_core::Nanos;

use super::names::host_and_port;
use super::proxy::certificate;
use super::redis_url::{self, RedisUrl};
use crate::expand::Reference;
use crate::field::{Field, Section};
use crate::typed::{KeyLayout, Redis, RedisClock, RedisMode, RedisTls, SecretSource, StoreKind};

/// The layouts by name.
const LAYOUTS: [(&str, KeyLayout); 4] = [
    ("readable", KeyLayout::Readable),
    ("compact", KeyLayout::Compact),
    ("edgequota", KeyLayout::EdgeQuota),
    ("edgeguard", KeyLayout::EdgeGuard),
];

/// The name of a topology, before the settings of sentinels are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedisModeName {
    Standalone,
    Replication,
    Sentinel,
    Cluster,
}

/// The topologies by name.
const MODES: [(&str, RedisModeName); 4] = [
    ("standalone", RedisModeName::Standalone),
    ("replication", RedisModeName::Replication),
    ("sentinel", RedisModeName::Sentinel),
    ("cluster", RedisModeName::Cluster),
];

/// The settings, if the section is present; it must be when `is_used`.
pub(super) fn redis(store: &mut Section<'_>, is_used: bool) -> Option<Redis> {
    let common = CommonSettings::read(store);
    let field = if is_used {
        store.need_subsection("redis", "kind redis needs a url or endpoints")
    } else {
        store.subsection("redis")
    };
    field?.section(|section| servers(section, common))
}

/// The Redis that caches answers of the limits service. It has the section's servers, and the
/// store's deadline and key prefix.
pub(super) fn cache_redis(field: &Field<'_>, store: &StoreKind) -> Option<Redis> {
    let common = match store {
        StoreKind::Redis(redis) => CommonSettings {
            deadline: redis.deadline,
            key_prefix: redis.key_prefix.clone(),
            ..CommonSettings::default()
        },
        StoreKind::Local { .. } => CommonSettings::default(),
    };
    field.section(|section| servers(section, common))
}

/// The settings that are keys of `store` itself.
struct CommonSettings {
    /// The longest a decision may take.
    deadline: Nanos,
    /// The beginning of every key.
    key_prefix: String,
    key_layout: KeyLayout,
    clock: RedisClock,
}

impl CommonSettings {
    /// Reads the keys of `store`.
    fn read(store: &mut Section<'_>) -> Self {
        let Self {
            deadline,
            key_prefix: prefix,
            key_layout,
            clock,
        } = Self::default();
        let key_prefix = store.read("key_prefix", prefix, key_prefix);
        let key_layout = store.read("key_layout", key_layout, |field| field.word(&LAYOUTS));
        // Counters of callers and values of ours, such as overrides, must not meet there.
        let is_within = |names: &str| {
            let rest = key_prefix.strip_prefix(names);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
        };
        if key_layout == KeyLayout::EdgeQuota && is_within("rl:edgequota") {
            store.refuse(
                "key_prefix",
                "rl:edgequota is where key_layout edgequota keeps counters: choose another prefix",
            );
        }
        Self {
            deadline: store.read("deadline", deadline, |field| field.duration(DIAL)),
            key_prefix,
            key_layout,
            clock: store.read("clock", clock, |field| {
                field.word(&[
                    ("server", RedisClock::Server),
                    ("replica", RedisClock::Replica),
                ])
            }),
        }
    }
}

impl Default for CommonSettings {
    /// The settings of a store that names none of them.
    fn default() -> Self {
        Self {
            deadline: Nanos::from_millis(50),
            key_prefix: "sluicegate".to_owned(),
            key_layout: KeyLayout::default(),
            clock: RedisClock::default(),
        }
    }
}

/// The range of deadlines. One of zero would fail every decision.
const DIAL: std::ops::RangeInclusive<Nanos> = Nanos::MILLISECOND..=Nanos::MINUTE;

/// The beginning of every key.
fn key_prefix(field: &Field<'_>) -> Option<String> {
    let prefix = field.text()?;
    // Braces would be a hash tag, which puts every key on one slot of a cluster.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"{}".contains(&byte);
    if prefix.len() > KeyLayout::PREFIX_MAX || !prefix.bytes().all(is_plain) {
        field.note_with_value(format_args!(
            "must be at most {} characters of visible ASCII without braces",
            KeyLayout::PREFIX_MAX
        ));
        return None;
    }
    Some(prefix.to_owned())
}

/// The settings of one Redis, from a URL or from its keys.
fn servers(section: &mut Section<'_>, common: CommonSettings) -> Redis {
    let url = section.optional("url", |field| {
        let text = field.text()?;
        redis_url::parse(text).map_err(|why| field.note(why)).ok()
    });
    // A URL that could not be read still counts as given: the keys that it replaces are not
    // missing.
    let written = section.has("url");
    if written {
        for key in section.present(&["mode", "endpoints", "database"]) {
            section.refuse(key, "is part of the url: remove it here");
        }
    }
    let endpoints = if written {
        Vec::new()
    } else {
        endpoints(section)
    };
    // Without a mode, several servers are a primary and its replicas.
    let word = section.optional("mode", |field| field.word(&MODES));
    let database = section.optional("database", |field| {
        field.whole_number(0..=u64::from(u32::MAX))
    });
    let url = url.unwrap_or_else(|| RedisUrl {
        mode: word.unwrap_or(if endpoints.len() > 1 {
            RedisModeName::Replication
        } else {
            RedisModeName::Standalone
        }),
        endpoints,
        master: None,
        database: database
            .and_then(|number| u32::try_from(number).ok())
            .unwrap_or(0),
        tls: false,
    });
    check_shape(section, &url);
    let (username, password) = credentials(section);
    let (recovery_base, recovery_cap) = recovery(section);
    Redis {
        mode: mode(section, &url),
        endpoints: url.endpoints,
        username,
        password,
        database: url.database,
        tls: tls(section, written.then_some(url.tls)),
        deadline: common.deadline,
        connect_timeout: section.read("connect_timeout", Nanos::SECOND, |field| {
            field.duration(DIAL)
        }),
        recovery_base,
        recovery_cap,
        key_prefix: common.key_prefix,
        key_layout: common.key_layout,
        clock: common.clock,
    }
}

/// The servers by `host:port`, each once; at least one.
fn endpoints(section: &mut Section<'_>) -> Vec<String> {
    let Some(field) = section.need("endpoints", "at least one host:port, or a url") else {
        return Vec::new();
    };
    let fields = field.one_or_more();
    if fields.is_empty() {
        field.note("must name at least one host:port");
    }
    let mut endpoints: Vec<String> = Vec::new();
    for field in &fields {
        let Some(text) = field.text() else { continue };
        match host_and_port(text) {
            Ok(_) if endpoints.iter().any(|other| other == text) => field.note("is listed twice"),
            Ok(_) => endpoints.push(text.to_owned()),
            Err(why) => field.note(why),
        }
    }
    endpoints
}

/// Notes settings that the topology does not allow.
fn check_shape(section: &mut Section<'_>, url: &RedisUrl) {
    if url.mode == RedisModeName::Standalone && url.endpoints.len() > 1 {
        section.refuse("endpoints", "must name one server in mode standalone");
    }
    if url.mode == RedisModeName::Cluster && url.database != 0 {
        let key = if section.has("url") {
            "url"
        } else {
            "database"
        };
        section.refuse(key, "a cluster has only database 0");
    }
}

/// The topology with its settings; `sentinel` must not be present for the others.
fn mode(section: &mut Section<'_>, url: &RedisUrl) -> RedisMode {
    match url.mode {
        RedisModeName::Sentinel => sentinel(section, url.master.as_deref()),
        other => {
            section.refuse("sentinel", "applies to mode sentinel only");
            match other {
                RedisModeName::Cluster => RedisMode::Cluster,
                RedisModeName::Replication => RedisMode::Replication,
                RedisModeName::Standalone | RedisModeName::Sentinel => RedisMode::Standalone,
            }
        }
    }
}

/// `sentinel: { master, username, password… }`; a URL names the primary itself.
fn sentinel(section: &mut Section<'_>, named: Option<&str>) -> RedisMode {
    let unnamed = RedisMode::Sentinel {
        master: named.unwrap_or_default().to_owned(),
        username: None,
        password: None,
    };
    let field = match named {
        Some(_) => section.subsection("sentinel"),
        None => section.need_subsection("sentinel", "mode sentinel needs sentinel.master"),
    };
    let read = field.and_then(|field| {
        field.section(|section| {
            let master = match named {
                Some(named) => {
                    section.refuse("master", "is part of the url: remove it here");
                    named.to_owned()
                }
                None => {
                    let field = section.need("master", "the name of the primary at the sentinels");
                    field
                        .and_then(|field| field.parsed(master_name))
                        .unwrap_or_default()
                }
            };
            let (username, password) = credentials(section);
            RedisMode::Sentinel {
                master,
                username,
                password,
            }
        })
    });
    read.unwrap_or(unnamed)
}

/// Checks a name as Redis Sentinel does.
pub(super) fn master_name(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err(crate::message_text::expected(
            "letters, digits, '.', '-' and '_'",
            text,
        )),
    }
}

/// The user, and the place of the password: at most one of the three keys for it.
fn credentials(section: &mut Section<'_>) -> (Option<String>, Option<SecretSource>) {
    let username = section.text_or_none("username");
    let file = section.optional("password_file", |field| match field.any_text() {
        Some("") => None,
        _ => field.file().map(SecretSource::File),
    });
    let env = section.text_or_none("password_env").map(SecretSource::Env);
    let inline = section.optional("password", password);
    let is_there = file.is_some() || env.is_some() || section.has("password");
    if usize::from(file.is_some())
        + usize::from(env.is_some())
        + usize::from(section.has("password"))
        > 1
    {
        section
            .field()
            .note("has more than one of password_file, password_env and password: keep one");
    }
    if username.is_some() && !is_there {
        section.refuse("username", "needs a password_file or password_env");
    }
    (username, file.or(env).or(inline))
}

/// A password as a reference, which is followed when the store is made. One that is written in the
/// file is a mistake, because files are copied and shown.
fn password(field: &Field<'_>) -> Option<SecretSource> {
    match &field.node.origin.whole {
        Some(Reference::Env(name)) => Some(SecretSource::Env(name.clone())),
        Some(Reference::File(path)) => Some(SecretSource::File(path.clone())),
        None => {
            field.note(
                "must not be written in the file: use password_file, password_env or ${NAME}",
            );
            None
        }
    }
}

/// The section `tls`. A URL decides whether there is TLS; otherwise the section does by its
/// presence and `enabled`.
fn tls(section: &mut Section<'_>, by_url: Option<bool>) -> Option<RedisTls> {
    let mut enabled = by_url.unwrap_or(false);
    let Some(field) = section.subsection("tls") else {
        return enabled.then(RedisTls::default);
    };
    let read = field.section(|section| {
        match by_url {
            Some(_) => section.refuse(
                "enabled",
                "is part of the url: rediss:// is TLS, redis:// is not",
            ),
            None => enabled = section.enabled(),
        }
        let ca_file = section.optional("ca_file", |field| match field.any_text() {
            Some("") => None,
            _ => field.file(),
        });
        let client = match section.present(&["cert", "key"]).is_empty() {
            true => None,
            false => Some(certificate(section)),
        };
        // Asked for, so that they are known keys even when absent.
        section.optional("cert", |_| Some(()));
        section.optional("key", |_| Some(()));
        let server_name = section.optional("server_name", |field| {
            let text = field.any_text().filter(|text| !text.is_empty())?;
            host_and_port(text)
                .map_err(|why| field.note(why))
                .ok()
                .map(|_| text.to_owned())
        });
        RedisTls {
            ca_file,
            client,
            server_name,
        }
    });
    read.filter(|_| enabled)
}

/// The pauses between attempts to connect: the first, and the longest.
fn recovery(section: &mut Section<'_>) -> (Nanos, Nanos) {
    let by_default = (Nanos::from_millis(50), Nanos::SECOND);
    let read = section.subsection("recovery").and_then(|field| {
        field.section(|section| {
            let range = Nanos::MILLISECOND..=Nanos::HOUR;
            let base = section.read("base", by_default.0, |field| field.duration(range.clone()));
            let cap = section.read("cap", by_default.1.max(base), |field| field.duration(range));
            if base > cap {
                section.field().note("base must be at most cap");
            }
            (base, cap)
        })
    });
    read.unwrap_or(by_default)
}
