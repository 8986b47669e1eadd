//! `store.redis.url`: where Redis is, in one line.

use super::names::host_and_port;
use super::redis::{RedisModeName, master_name};

/// What a URL says, and what the other keys say when there is none.
#[derive(Debug)]
pub(super) struct RedisUrl {
    pub(super) mode: RedisModeName,
    pub(super) endpoints: Vec<String>,
    /// The name that the sentinels know.
    pub(super) master: Option<String>,
    pub(super) database: u32,
    pub(super) tls: bool,
}

/// Reads a URL. No error repeats any of it: somebody may have put a password there.
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
