//! An authenticator over files of its own, and requests for it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::FutureExt;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use sluicegate_config::{ApiKeys, JwksSource, Jwt, JwtAlgorithm, Principals};
use sluicegate_core::{Nanos, Principal};
use sluicegate_gate::auth::{AuthFailure, Authenticated, Authenticator, Forwarder, Identity};
use tempfile::TempDir;

/// The time of every request, unless a test says otherwise.
pub const NOON: u64 = 1_800_000_000;

pub const EVERY_ALGORITHM: [JwtAlgorithm; 12] = [
    JwtAlgorithm::HS256,
    JwtAlgorithm::HS384,
    JwtAlgorithm::HS512,
    JwtAlgorithm::RS256,
    JwtAlgorithm::RS384,
    JwtAlgorithm::RS512,
    JwtAlgorithm::PS256,
    JwtAlgorithm::PS384,
    JwtAlgorithm::PS512,
    JwtAlgorithm::ES256,
    JwtAlgorithm::ES384,
    JwtAlgorithm::EdDSA,
];

/// A configuration whose files live as long as it does.
pub struct CredentialFiles {
    pub principals: Principals,
    directory: TempDir,
}

impl CredentialFiles {
    pub fn new() -> Self {
        Self {
            principals: Principals::default(),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// Takes API keys in `X-Api-Key`, from a file with this text.
    pub fn with_key_file(mut self, text: impl AsRef<[u8]>) -> Self {
        let file = self.file("keys.yaml", text.as_ref());
        self.principals.api_keys = Some(ApiKeys {
            header: "x-api-key".into(),
            file,
        });
        self
    }

    /// Takes tokens in `Authorization`, signed in any way by the keys of this set.
    pub fn with_jwks(self, keys: &[&Value]) -> Self {
        let set = serde_json::json!({ "keys": keys });
        self.with_jwks_text(set.to_string())
    }

    /// Takes tokens in `Authorization`, with this text as the key set.
    pub fn with_jwks_text(mut self, text: impl AsRef<[u8]>) -> Self {
        let jwks_file = self.file("jwks.json", text.as_ref());
        self.principals.jwt = Some(Jwt {
            header: "authorization".into(),
            keys: JwksSource::File(jwks_file),
            issuer: None,
            audience: None,
            algorithms: EVERY_ALGORITHM.to_vec(),
            leeway: Nanos::new(0),
            types: Vec::new(),
        });
        self
    }

    pub fn with_jwt(mut self, change: impl FnOnce(&mut Jwt)) -> Self {
        change(self.principals.jwt.as_mut().unwrap());
        self
    }

    pub fn load(&self) -> Authenticator {
        Authenticator::load(&self.principals).unwrap()
    }

    /// The mistakes, with the directory of the files taken out.
    pub fn mistakes(&self) -> Vec<String> {
        let directory = format!("{}/", self.directory.path().display());
        let mistakes = Authenticator::load(&self.principals).unwrap_err();
        mistakes
            .iter()
            .map(|mistake| mistake.replace(&directory, ""))
            .collect()
    }

    fn file(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

pub fn noon() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOON)
}

pub fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name: HeaderName = name.parse().unwrap();
        headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

/// The identity of a request with this token in `Authorization`, at noon.
pub fn ask_with_token(authenticator: &Authenticator, token: &str) -> Identity {
    ask(authenticator, &[("authorization", token)])
}

/// The identity of a request with these header lines, at noon.
pub fn ask(authenticator: &Authenticator, lines: &[(&str, &str)]) -> Identity {
    ask_at(authenticator, &headers(lines), noon())
}

/// The identity of a request with these headers. Keys of a file are there: nobody waits for them.
pub fn ask_at(authenticator: &Authenticator, headers: &HeaderMap, now: SystemTime) -> Identity {
    authenticate(authenticator, headers, now, Forwarder::Proxy).identity
}

/// The same, with the headers that are to be removed.
pub fn authenticate(
    authenticator: &Authenticator,
    headers: &HeaderMap,
    now: SystemTime,
    forwarder: Forwarder,
) -> Authenticated {
    let authenticated = authenticator.authenticate(headers, now, forwarder);
    let authenticated = authenticated.now_or_never();
    authenticated.expect("keys of a file need no waiting")
}

pub fn known(identity: Identity) -> Arc<Principal> {
    match identity {
        Identity::Known(principal) => principal,
        other => panic!("not known: {other:?}"),
    }
}

pub fn refused(identity: Identity) -> AuthFailure {
    match identity {
        Identity::Refused(refusal) => refusal.reason,
        other => panic!("not refused: {other:?}"),
    }
}
