//! `store.redis.url`: topology, servers, TLS and database in one line.

use super::names::host_and_port;
use super::redis::{RedisModeName, master_name};

/// The settings of a URL; without one, those of the keys that it replaces.
#[derive(Debug)]
pub(super) struct RedisUrl {
    pub(super) mode: RedisModeName,
    /// `host` or `host:port`, as written.
    pub(super) endpoints: Vec<String>,
    /// The name of the primary at the sentinels; `None` for other topologies.
    pub(super) master: Option<String>,
    /// 0 without a path.
    pub(super) database: u32,
    /// True for `rediss`.
    pub(super) tls: bool,
}

/// Reads a URL. No error contains any of it: it may contain a password.
pub(super) fn parse(text: &str) -> Result<RedisUrl, &'static str> {
    const SCHEMES: &str = "must begin with redis://, rediss://, redis+sentinel://, rediss+sentinel://, \
                           redis+cluster:// or rediss+cluster://";
    let (scheme, rest) = text.split_once("://").ok_or(SCHEMES)?;
    let (base, kind) = scheme
        .split_once('+')
        .map_or((scheme, ""), |(base, kind)| (base, kind));
    let tls = match base {
        "redis" => false,
        "rediss" => true,
        _ => return Err(SCHEMES),
    };
    if rest.contains('@') {
        return Err(
            "must not contain a user or password: use username and password_file or password_env",
        );
    }
    if rest.contains(['?', '#']) {
        return Err("must have no query: TLS is configured in the section tls");
    }
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let endpoints = hosts
        .split(',')
        .map(|host| host_and_port(host).map(|_| host.to_owned()));
    let endpoints: Vec<String> = endpoints.collect::<Result<_, _>>()?;
    let (mode, master, database) = match kind {
        // Several servers without a scheme of their own: one of them is the primary.
        "" if endpoints.len() > 1 => (RedisModeName::Replication, None, path),
        "" => (RedisModeName::Standalone, None, path),
        "cluster" => (RedisModeName::Cluster, None, path),
        "sentinel" => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            let master = master_name(master)
                .map_err(|_| "must name the primary after the hosts, as in /mymaster")?;
            (RedisModeName::Sentinel, Some(master), database)
        }
        _ => return Err(SCHEMES),
    };
    let is_number = database.bytes().all(|byte| byte.is_ascii_digit());
    let database = match database {
        "" => 0,
        number => number
            .parse()
            .ok()
            .filter(|_| is_number)
            .ok_or("invalid database: must be a number")?,
    };
    Ok(RedisUrl {
        mode,
        endpoints,
        master,
        database,
        tls,
    })
}
