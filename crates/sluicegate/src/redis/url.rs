//! Options in the form of a URL.
//!
//! **Invariant:** no error repeats any part of the URL. In a malformed one the password may be
//! anywhere.

use std::path::PathBuf;

use super::endpoint::Endpoint;
use super::options::{RedisMode, RedisOptions, TlsOptions};
use super::options_error::OptionsError;
use super::secret::{Credentials, Secret};

impl RedisOptions {
    /// Options from a URL; everything that the URL does not say has its default.
    ///
    /// | URL | means |
    /// |---|---|
    /// | `redis://[user:password@]host[:port][/database]` | one server |
    /// | `redis://host,host…[/database]` | a primary and its replicas |
    /// | `redis+sentinel://host,host…/master[/database]` | sentinels |
    /// | `redis+cluster://host,host…` | a cluster |
    ///
    /// With `rediss` instead of `redis`, connections use TLS, and the query parameters `ca_file`
    /// and `server_name` are allowed. User and password are percent-decoded; a password alone is
    /// written `:password@`. With sentinels they are for the servers that the sentinels name, not
    /// for the sentinels. The result is validated.
    ///
    /// No error repeats any part of the URL, so none shows a password.
    ///
    /// ```
    /// use sluicegate::RedisOptions;
    ///
    /// let options = RedisOptions::from_url("rediss://ann:p%40ss@rl-0:6380/3").unwrap();
    /// assert_eq!(options.endpoints[0].to_string(), "rl-0:6380");
    /// assert!(options.tls.is_some());
    ///
    /// let error = RedisOptions::from_url("http://rl-0").unwrap_err();
    /// assert!(error.to_string().starts_with("store.redis.url: must begin with redis://"));
    /// ```
    pub fn from_url(text: &str) -> Result<Self, OptionsError> {
        let options = parse(text)?;
        options.validate().map(|()| options)
    }
}

/// Parses a URL without validating the options.
fn parse(text: &str) -> Result<RedisOptions, OptionsError> {
    let (scheme, rest) = text.split_once("://").ok_or_else(unknown_scheme)?;
    let scheme = parse_scheme(scheme)?;
    let (rest, query) = rest
        .split_once('?')
        .map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if path.contains('@') || query.is_some_and(|query| query.contains('@')) || text.contains('#') {
        return Err(mistake(
            "write '/' as %2F, '?' as %3F, '#' as %23 and '@' as %40 in user and password",
        ));
    }
    let (user, hosts) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(user, hosts)| (Some(user), hosts));
    let endpoints = hosts
        .split(',')
        .map(parse_endpoint)
        .collect::<Result<_, _>>()?;
    let mut options = options_for(scheme.topology, endpoints, path)?;
    options.credentials = user.map_or(Ok(Credentials::default()), parse_user)?;
    options.tls = scheme.is_tls.then(TlsOptions::default);
    if let Some(query) = query {
        apply_query(query, &mut options)?;
    }
    Ok(options)
}

/// The part of a URL before `://`.
struct UrlScheme {
    topology: UrlTopology,
    is_tls: bool,
}

/// How the servers belong together, as far as the scheme says.
enum UrlTopology {
    /// One server, or several that replicate each other.
    Servers,
    Sentinel,
    Cluster,
}

fn parse_scheme(text: &str) -> Result<UrlScheme, OptionsError> {
    let (base, topology) = text
        .split_once('+')
        .map_or((text, None), |(base, topology)| (base, Some(topology)));
    let is_tls = match base {
        "redis" => false,
        "rediss" => true,
        _ => return Err(unknown_scheme()),
    };
    match topology {
        None => Ok(UrlScheme {
            topology: UrlTopology::Servers,
            is_tls,
        }),
        Some("sentinel") => Ok(UrlScheme {
            topology: UrlTopology::Sentinel,
            is_tls,
        }),
        Some("cluster") => Ok(UrlScheme {
            topology: UrlTopology::Cluster,
            is_tls,
        }),
        Some(_) => Err(unknown_scheme()),
    }
}

fn parse_endpoint(text: &str) -> Result<Endpoint, OptionsError> {
    text.parse::<Endpoint>().map_err(mistake)
}

/// Options for the servers. The path is a database; with sentinels it is their name for the
/// primary, optionally followed by a database.
fn options_for(
    topology: UrlTopology,
    endpoints: Vec<Endpoint>,
    path: &str,
) -> Result<RedisOptions, OptionsError> {
    let (mut options, database) = match topology {
        UrlTopology::Servers if endpoints.len() > 1 => (RedisOptions::replication(endpoints), path),
        UrlTopology::Servers => (RedisOptions::of(RedisMode::Standalone, endpoints), path),
        UrlTopology::Cluster => (RedisOptions::cluster(endpoints), path),
        UrlTopology::Sentinel => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            (RedisOptions::sentinel(endpoints, master), database)
        }
    };
    if database.is_empty() {
        return Ok(options);
    }
    let is_number = database.bytes().all(|byte| byte.is_ascii_digit());
    options.database = match database.parse() {
        Ok(number) if is_number => number,
        _ => return Err(mistake("the database must be a number")),
    };
    Ok(options)
}

/// User and password before the `@`.
fn parse_user(text: &str) -> Result<Credentials, OptionsError> {
    // Some clients read `redis://secret@host` as a password and some as a user: neither is guessed.
    let (user, password) = text
        .split_once(':')
        .ok_or_else(|| mistake("write user:password@ or :password@ before the host"))?;
    let username = Some(decoded(user)?).filter(|user| !user.is_empty());
    let password = Some(decoded(password)?)
        .filter(|password| !password.is_empty())
        .map(Secret::new);
    Ok(Credentials { username, password })
}

/// The query parameters. They belong to TLS.
fn apply_query(query: &str, options: &mut RedisOptions) -> Result<(), OptionsError> {
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = decoded(value)?;
        match (name, &mut options.tls) {
            ("ca_file" | "server_name", None) => {
                return Err(mistake("ca_file and server_name need rediss://"));
            }
            ("ca_file" | "server_name", _) if value.is_empty() => {
                return Err(mistake("ca_file and server_name need a value"));
            }
            ("ca_file", Some(tls)) if tls.ca_file.is_none() => {
                tls.ca_file = Some(PathBuf::from(value))
            }
            ("server_name", Some(tls)) if tls.server_name.is_none() => {
                tls.server_name = Some(value)
            }
            ("ca_file" | "server_name", Some(_)) => {
                return Err(mistake("a query parameter is given twice"));
            }
            _ => {
                return Err(mistake(
                    "unknown query parameter (expected ca_file or server_name)",
                ));
            }
        }
    }
    Ok(())
}

/// Decodes percent-encoded text.
fn decoded(text: &str) -> Result<String, OptionsError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else {
            return Err(mistake("'%' must be followed by two hex digits"));
        };
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
            return Err(mistake("'%' must be followed by two hex digits"));
        };
        bytes.push(high << 4 | low);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| mistake("percent-encoded text must be UTF-8"))
}

fn unknown_scheme() -> OptionsError {
    mistake(
        "must begin with redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster:// or rediss+cluster://",
    )
}

/// A mistake of the URL. The text must not contain any part of it.
fn mistake(what: impl std::fmt::Display) -> OptionsError {
    OptionsError::new("store.redis.url", what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(url: &str) -> RedisOptions {
        RedisOptions::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn password(options: &RedisOptions) -> Option<String> {
        options
            .credentials
            .password
            .as_ref()
            .map(|password| password.read().unwrap())
    }

    #[test]
    fn a_url_says_where_and_as_whom() {
        let options = read("redis://ann:p%40ss%2Fw%C3%A9@rl-0:6380/3");
        assert!(matches!(options.mode, RedisMode::Standalone) && options.tls.is_none());
        assert_eq!(options.endpoints, [Endpoint::new("rl-0", 6_380)]);
        assert_eq!(
            (options.credentials.username.as_deref(), options.database),
            (Some("ann"), 3)
        );
        assert_eq!(password(&options).as_deref(), Some("p@ss/wé"));
        let options =
            read("rediss://:secret@[::1]?ca_file=%2Fetc%2Fca.pem&server_name=redis.internal");
        let tls = options.tls.as_ref().unwrap();
        assert_eq!(tls.ca_file.as_deref(), Some("/etc/ca.pem".as_ref()));
        assert_eq!(tls.server_name.as_deref(), Some("redis.internal"));
        assert_eq!(
            (options.credentials.username.clone(), password(&options)),
            (None, Some("secret".into()))
        );
        assert_eq!(options.endpoints, [Endpoint::new("::1", 6_379)]);
    }

    #[test]
    fn a_url_says_how_servers_belong_together() {
        assert!(matches!(
            read("redis://a,b:1/2").mode,
            RedisMode::Replication
        ));
        assert!(matches!(
            read("rediss+cluster://a,b").mode,
            RedisMode::Cluster
        ));
        let sentinel = read("redis+sentinel://a,b:1/mymaster/4");
        assert!(
            matches!(&sentinel.mode, RedisMode::Sentinel { master, .. } if master == "mymaster")
        );
        assert_eq!(
            sentinel.endpoints,
            [Endpoint::new("a", 26_379), Endpoint::new("b", 1)]
        );
        assert_eq!(sentinel.database, 4);
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        for (url, what) in [
            ("rl-0:6379", "store.redis.url: must begin with"),
            ("http://a", "store.redis.url: must begin with"),
            ("redis+x://a", "store.redis.url: must begin with"),
            ("redis://", "store.redis.url: the host is missing"),
            ("redis://a:b", "store.redis.url: the port must be"),
            ("redis://a,,b", "store.redis.url: the host is missing"),
            (
                "redis://a/x",
                "store.redis.url: the database must be a number",
            ),
            (
                "redis://a/+1",
                "store.redis.url: the database must be a number",
            ),
            ("redis://secret@a", "store.redis.url: write user:password@"),
            ("redis://u:p%4@a", "store.redis.url: '%' must be followed"),
            ("redis://u:p%ff@a", "store.redis.url: percent-encoded text"),
            ("redis://u:pa/ss@a", "store.redis.url: write '/' as"),
            ("redis://u:pa?ss@a", "store.redis.url: write '/' as"),
            ("redis://u:pa#ss@a", "store.redis.url: write '/' as"),
            (
                "redis://a?timeout=1",
                "store.redis.url: unknown query parameter",
            ),
            (
                "redis://a?ca_file=x",
                "store.redis.url: ca_file and server_name need rediss://",
            ),
            (
                "redis+cluster://a/1",
                "store.redis.database: a cluster has only",
            ),
            ("redis+sentinel://a", "store.redis.master: must be"),
            ("redis://u:@a", "store.redis.username: needs a password"),
        ] {
            let error = RedisOptions::from_url(url).unwrap_err().to_string();
            assert!(error.starts_with(what), "{url}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_password_is_ever_printed(password in "[ -~]{4,24}", place in 0..8_usize) {
            let url = match place {
                0 => format!("redis://ann:{password}@rl-0:6379/0"),
                1 => format!("rediss://:{password}@rl-0?ca_file=x"),
                2 => format!("redis://{password}@rl-0"),
                3 => format!("redis+sentinel://ann:{password}@a,b/m/0"),
                4 => format!("redis://ann:{password}@rl-0:x"),
                5 => format!("{password}@rl-0:6379"),
                6 => format!("redis+cluster://ann:{password}@a/1"),
                _ => format!("redis://ann:{password}@a/0?password={password}"),
            };
            let printed = match RedisOptions::from_url(&url) {
                Ok(options) => format!("{options:?} {options:#?}"),
                Err(error) => format!("{error} {error:?}"),
            };
            prop_assert!(!printed.contains(&password), "{} in {}", password, printed);
            // Nor a piece of it, where a sign in the password has torn the URL apart.
            for piece in password.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|piece| piece.len() >= 5) {
                prop_assert!(!printed.contains(piece), "{} in {}", piece, printed);
            }
            if let Err(error) = password.parse::<Endpoint>() {
                let printed = format!("{error} {error:?}");
                prop_assert!(!printed.contains(&password), "{}", printed);
            }
        }
    }
}
