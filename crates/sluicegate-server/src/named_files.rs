//! The files that a configuration names: where each of them is named, and what it holds.
//!
//! This is the one list of them. Reloads follow it, the permissions of secrets are checked by it, and
//! so does `sluicegate check`.

use std::path::{Path, PathBuf};

use sluicegate_config::{Config, JwksUrl, Redis, RedisMode, SecretSource, ServerTls, StoreKind};
use sluicegate_config::{Jwt, Upstream};

/// A file that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile<'a> {
    /// The key in the configuration, such as `proxy.tls.key`.
    pub(crate) place: String,
    pub(crate) path: &'a Path,
    pub(crate) kind: FileKind,
    /// Read again by a reload, so a change of its content is a reason for one. Tokens and passwords
    /// are not: they are read when they are used. What belongs to the store stays until a restart.
    pub(crate) is_followed: bool,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A chain of certificates, for everybody to see.
    Certificate,
    PrivateKey,
    /// Certificates to trust.
    Authorities,
    /// Digests of API keys.
    ApiKeys,
    /// Keys that verify tokens.
    KeySet,
    /// A bearer token.
    Token,
    Password,
    /// The body of a rejection, which was read with the configuration.
    Body,
    /// A value of the configuration itself (`${file:…}`), which was read with it.
    Value,
}

impl FileKind {
    /// Returns true when whoever can write the file can get in or listen. An authority of one's own
    /// makes certificates of clients, or of servers in between.
    pub(crate) fn is_trusted(self) -> bool {
        !matches!(self, Self::Certificate | Self::Body)
    }

    /// Returns true when whoever can read the file can pretend to be somebody else.
    pub(crate) fn is_secret(self) -> bool {
        matches!(self, Self::PrivateKey | Self::Token | Self::Password)
    }
}

/// Every file of a configuration, in the order of its sections.
pub(crate) fn named_files(config: &Config) -> Vec<NamedFile<'_>> {
    let mut files = FileList::default();
    if let Some(proxy) = &config.proxy {
        files.pair("proxy.tls", proxy.tls.as_ref(), true);
        let upstreams = proxy.routes.iter().flat_map(|route| &route.upstreams);
        for upstream in upstreams {
            if let Upstream::Server { ca_file, .. } = upstream {
                files.authorities("proxy.upstream_ca_file", ca_file.as_ref(), true);
            }
        }
    }
    if let Some(tls) = &config.decisions.tls {
        files.pair("decisions.tls", Some(&tls.server), true);
        let client_ca_file = tls.client_ca_file.as_ref();
        files.authorities("decisions.tls.client_ca_file", client_ca_file, true);
    }
    let token_file = config.decisions.token_file.as_ref();
    files.add("decisions.token_file", token_file, FileKind::Token, false);
    let token_file = config.admin.token_file.as_ref();
    files.add("admin.token_file", token_file, FileKind::Token, false);
    if let Some(keys) = &config.principals.api_keys {
        files.add(
            "principals.api_keys.file",
            Some(&keys.file),
            FileKind::ApiKeys,
            true,
        );
    }
    if let Some(jwt) = &config.principals.jwt {
        files.jwt(jwt);
    }
    if let StoreKind::Redis(redis) = &config.store.kind {
        files.redis("store.redis", redis);
    }
    if let Some(external) = &config.external {
        let place = match &external.service {
            sluicegate_config::ExternalService::Http { .. } => "external.http.tls.ca_file",
            sluicegate_config::ExternalService::Grpc { .. } => "external.grpc.tls.ca_file",
        };
        files.authorities(place, external.service.at().ca_file.as_ref(), true);
        if let Some(redis) = &external.cache_redis {
            files.redis("external.cache_redis", redis);
        }
    }
    if let Some(traces) = &config.traces {
        files.authorities("traces.ca_file", traces.otlp.ca_file.as_ref(), false);
    }
    for file in &config.response.body_files {
        files.add("reject.body_file", Some(&file.path), FileKind::Body, true);
    }
    for file in &config.value_files {
        // A password is there already, as what it is.
        if !files.0.iter().any(|known| known.path == file.path) {
            files.add(&file.place, Some(&file.path), FileKind::Value, false);
        }
    }
    files.0
}

/// The files whose change is a reason to reload.
pub(crate) fn followed_files(config: &Config) -> Vec<PathBuf> {
    let followed = named_files(config)
        .into_iter()
        .filter(|file| file.is_followed);
    let mut paths: Vec<PathBuf> = followed.map(|file| file.path.to_owned()).collect();
    paths.dedup();
    paths
}

/// The list that is being made.
#[derive(Default)]
struct FileList<'a>(Vec<NamedFile<'a>>);

impl<'a> FileList<'a> {
    /// Adds a file, if there is one and it is not there yet.
    fn add(
        &mut self,
        place: impl Into<String>,
        path: Option<&'a PathBuf>,
        kind: FileKind,
        is_followed: bool,
    ) {
        let file = path.map(|path| NamedFile {
            place: place.into(),
            path,
            kind,
            is_followed,
        });
        let file = file.filter(|file| !self.0.contains(file));
        self.0.extend(file);
    }

    fn authorities(
        &mut self,
        place: impl Into<String>,
        path: Option<&'a PathBuf>,
        is_followed: bool,
    ) {
        self.add(place, path, FileKind::Authorities, is_followed);
    }

    /// A certificate and its key.
    fn pair(&mut self, place: &str, tls: Option<&'a ServerTls>, is_followed: bool) {
        let Some(ServerTls { cert, key }) = tls else {
            return;
        };
        let (cert_place, key_place) = (format!("{place}.cert"), format!("{place}.key"));
        self.add(cert_place, Some(cert), FileKind::Certificate, is_followed);
        self.add(key_place, Some(key), FileKind::PrivateKey, is_followed);
    }

    fn jwt(&mut self, jwt: &'a Jwt) {
        if let sluicegate_config::JwksSource::File(file) = &jwt.keys {
            self.add(
                "principals.jwt.jwks_file",
                Some(file),
                FileKind::KeySet,
                true,
            );
        }
        let ca_file = |url: &'a JwksUrl| url.at.ca_file.as_ref();
        let ca_file = jwt.jwks_url().and_then(ca_file);
        self.authorities("principals.jwt.jwks.ca_file", ca_file, true);
    }

    /// The files of one Redis; the client reads them again for each connection, or at a restart.
    fn redis(&mut self, place: &str, redis: &'a Redis) {
        let sentinel = match &redis.mode {
            RedisMode::Sentinel { password, .. } => password.as_ref(),
            _ => None,
        };
        let passwords = [
            (format!("{place}.password_file"), redis.password.as_ref()),
            (format!("{place}.sentinel.password_file"), sentinel),
        ];
        for (place, password) in passwords {
            if let Some(SecretSource::File(file)) = password {
                self.add(place, Some(file), FileKind::Password, false);
            }
        }
        if let Some(tls) = &redis.tls {
            let ca_place = format!("{place}.tls.ca_file");
            self.authorities(ca_place, tls.ca_file.as_ref(), false);
            self.pair(&format!("{place}.tls"), tls.client.as_ref(), false);
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_config::{Source, Syntax, load};

    use super::*;

    const EVERYTHING: &str = "
proxy: { listen: '127.0.0.1:1', tls: { cert: c, key: k }, upstream: ['https://a', 'https://b'], upstream_ca_file: u }
decisions: { http: '127.0.0.1:2', token_file: d, tls: { cert: c, key: k, client_ca_file: i } }
admin: { listen: '127.0.0.1:3', token_file: t }
principals: { api_keys: { file: keys }, jwt: { jwks_url: 'https://a', jwks: { ca_file: j } } }
store: { kind: redis, redis: { mode: sentinel, endpoints: [a], password_file: p,
         sentinel: { master: m, password_file: s }, tls: { ca_file: ra, cert: rc, key: rk } } }
external: { grpc: { address: 'a:1', tls: { ca_file: e } }, cache_redis: { endpoints: [b], password_file: q } }
traces: { otlp: 'https://c:4317', ca_file: o }
";

    fn listed(text: &str) -> Vec<String> {
        let source = Source {
            name: "test".to_owned(),
            text: text.to_owned(),
            syntax: Syntax::Yaml,
            base_dir: PathBuf::new(),
        };
        let config = load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let files = named_files(&config);
        let line = |file: &NamedFile<'_>| {
            let followed = if file.is_followed { " followed" } else { "" };
            format!(
                "{} {} {:?}{followed}",
                file.place,
                file.path.display(),
                file.kind
            )
        };
        files.iter().map(line).collect()
    }

    #[test]
    fn every_file_is_listed_once_with_its_place() {
        let expected = [
            "proxy.tls.cert c Certificate followed",
            "proxy.tls.key k PrivateKey followed",
            "proxy.upstream_ca_file u Authorities followed",
            "decisions.tls.cert c Certificate followed",
            "decisions.tls.key k PrivateKey followed",
            "decisions.tls.client_ca_file i Authorities followed",
            "decisions.token_file d Token",
            "admin.token_file t Token",
            "principals.api_keys.file keys ApiKeys followed",
            "principals.jwt.jwks.ca_file j Authorities followed",
            "store.redis.password_file p Password",
            "store.redis.sentinel.password_file s Password",
            "store.redis.tls.ca_file ra Authorities",
            "store.redis.tls.cert rc Certificate",
            "store.redis.tls.key rk PrivateKey",
            "external.grpc.tls.ca_file e Authorities followed",
            "external.cache_redis.password_file q Password",
            "traces.ca_file o Authorities",
        ];
        assert_eq!(listed(EVERYTHING), expected);
        assert_eq!(
            listed("principals: { jwt: { jwks_file: j } }"),
            ["principals.jwt.jwks_file j KeySet followed"]
        );
        assert!(listed("admin: off").is_empty());
    }
}
