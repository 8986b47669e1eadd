//! `store.redis`, and what of `store` is about Redis: where it is, as whom, how long.

use sluicegate_core::Nanos;

use super::names::host_and_port;
use super::proxy::certificate;
use super::redis_url::{self, RedisUrl};
use crate::expand::Reference;
use crate::field::Field;
use crate::section::Section;
use crate::typed::{KeyLayout, Redis, RedisClock, RedisMode, RedisTls, SecretSource, StoreKind};

const LAYOUTS: [(&str, KeyLayout); 4] = [
    ("readable", KeyLayout::Readable),
    ("compact", KeyLayout::Compact),
    ("edgequota", KeyLayout::EdgeQuota),
    ("edgeguard", KeyLayout::EdgeGuard),
];

/// The mode as a word; what belongs to sentinels is read elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RedisModeName {
    Standalone,
    Replication,
    Sentinel,
    Cluster,
}

const MODES: [(&str, RedisModeName); 4] = [
    ("standalone", RedisModeName::Standalone),
    ("replication", RedisModeName::Replication),
    ("sentinel", RedisModeName::Sentinel),
    ("cluster", RedisModeName::Cluster),
];

/// The settings, if there are any or there must be.
pub(super) fn redis(store: &mut Section<'_>, is_used: bool) -> Option<Redis> {
    let common = CommonSettings::read(store);
    let field = if is_used {
        store.need_subsection("redis", "kind redis needs a url or endpoints")
    } else {
        store.subsection("redis")
    };
    field?.section(|section| servers(section, common))
}

/// The Redis of something other than counters, which goes by what the store says of its own.
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

/// The settings that stand directly below `store`.
struct CommonSettings {
    deadline: Nanos,
    key_prefix: String,
    key_layout: KeyLayout,
    clock: RedisClock,
}

impl CommonSettings {
    fn read(store: &mut Section<'_>) -> Self {
        let Self {
            deadline,
            key_prefix: prefix,
            key_layout,
            clock,
        } = Self::default();
        Self {
            deadline: store.read("deadline", deadline, |field| field.duration(DIAL)),
            key_prefix: store.read("key_prefix", prefix, key_prefix),
            key_layout: store.read("key_layout", key_layout, |field| field.word(&LAYOUTS)),
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
    fn default() -> Self {
        Self {
            deadline: Nanos::from_millis(50),
            key_prefix: "sluicegate".to_owned(),
            key_layout: KeyLayout::default(),
            clock: RedisClock::default(),
        }
    }
}

const DIAL: std::ops::RangeInclusive<Nanos> = Nanos::MILLISECOND..=Nanos::MINUTE;

fn key_prefix(field: &Field<'_>) -> Option<String> {
    /// As long as leaves room for the rest of a key.
    const LENGTH_MAX: usize = 64;
    let prefix = field.text()?;
    // Braces would choose the slot of every key.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"{}".contains(&byte);
    if prefix.len() > LENGTH_MAX || !prefix.bytes().all(is_plain) {
        field.note_with_value(format_args!(
            "must be at most {LENGTH_MAX} characters of visible ASCII without braces"
        ));
        return None;
    }
    Some(prefix.to_owned())
}

fn servers(section: &mut Section<'_>, common: CommonSettings) -> Redis {
    let url = section.optional("url", |field| {
        let text = field.text()?;
        redis_url::parse(text).map_err(|why| field.note(why)).ok()
    });
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

/// A name as Redis Sentinel accepts it.
pub(super) fn master_name(text: &str) -> Result<String, String> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_name) {
        true => Ok(text.to_owned()),
        false => Err(crate::field::expected(
            "letters, digits, '.', '-' and '_'",
            text,
        )),
    }
}

/// The user, and where the password is.
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

/// Only as a reference, which is followed when the store is made.
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
            None => enabled = section.read("enabled", true, Field::boolean),
        }
        let ca_file = section.optional("ca_file", |field| match field.any_text() {
            Some("") => None,
            _ => field.file(),
        });
        let client = match section.present(&["cert", "key"]).is_empty() {
            true => None,
            false => Some(certificate(section)),
        };
        // Known even where it is not there.
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
