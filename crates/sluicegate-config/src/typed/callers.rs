//! Callers: their address, their credentials, and lists of those who are treated apart.

use std::path::{Path, PathBuf};

use ipnet::IpNet;
use sluicegate_core::address::Prefixes;
use sluicegate_core::{Nanos, ProxyHeader};

use super::ServiceAddress;
use crate::redact::shown_url;

/// The rules that find the client's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIp {
    /// The networks of proxies whose headers are believed; empty believes nobody.
    pub trusted_proxies: Vec<IpNet>,
    /// The header that they write.
    pub header: ProxyHeader,
    /// The leading bits of an address that make a caller, where no limit says so.
    pub prefixes: Prefixes,
}

/// The credentials that callers may show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principals {
    /// API keys.
    pub api_keys: Option<ApiKeys>,
    /// JSON web tokens.
    pub jwt: Option<Jwt>,
    /// True when a request without a credential is rejected with 401.
    pub required: bool,
    /// The treatment of a request whose credential is wrong.
    pub on_invalid: OnInvalid,
    /// The treatment of a request that shows more than one credential.
    pub credentials: CredentialPolicy,
}

/// The treatment of credentials that do not name the caller: the server behind could believe them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CredentialPolicy {
    /// Every credential that is shown must be valid.
    #[default]
    VerifyAll,
    /// One that is not verified is removed before the request is forwarded.
    StripUnverified,
}

/// The treatment of a request whose credential is wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnInvalid {
    /// Rejected with 401.
    #[default]
    Reject,
    /// Handled as if it had no credential.
    Anonymous,
}

/// API keys in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeys {
    /// The header that holds the key, lower case.
    pub header: String,
    /// The list of keys: id, SHA-256 of the key in hex, claims.
    pub file: PathBuf,
}

/// JSON web tokens in a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jwt {
    /// The header that holds the token, lower case; `Bearer` in front of it is optional.
    pub header: String,
    /// The keys, as a JSON Web Key Set.
    pub keys: JwksSource,
    /// The issuer that the token must name; `None` accepts any.
    pub issuer: Option<String>,
    /// The audience that the token must name; `None` accepts any.
    pub audience: Option<String>,
    /// Signature algorithms that are accepted, at least one.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The difference between clocks that is tolerated, at most an hour.
    pub leeway: Nanos,
    /// The `typ` that the token's header must have, lower case and without `application/`; empty
    /// accepts any and none.
    pub types: Vec<String>,
}

impl Jwt {
    /// The file of the keys, if they come from one.
    pub fn jwks_file(&self) -> Option<&Path> {
        match &self.keys {
            JwksSource::File(file) => Some(file),
            JwksSource::Url(_) => None,
        }
    }

    /// The URL of the keys, if they come from one.
    pub fn jwks_url(&self) -> Option<&JwksUrl> {
        match &self.keys {
            JwksSource::File(_) => None,
            JwksSource::Url(url) => Some(url),
        }
    }
}

/// The place of the keys that verify tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// A file, read with the configuration.
    File(PathBuf),
    /// A URL, fetched in the background again and again.
    Url(Box<JwksUrl>),
}

/// The URL of the keys that verify tokens, and how often it is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksUrl {
    /// The server.
    pub at: ServiceAddress,
    /// The path, with its query.
    pub path: String,
    /// The time between two fetches, 30 s to 1 d; a response may shorten it.
    pub refresh: Nanos,
    /// The longest that a fetch takes, and that a request waits for one, 1 ms to 1 min.
    pub timeout: Nanos,
    /// The age up to which keys are used while no newer ones can be had; at least twice `refresh`.
    pub max_stale: Nanos,
}

impl JwksUrl {
    /// The URL, without parameters that look like secrets.
    pub fn shown(&self) -> String {
        shown_url(&format!("{}{}", self.at.url(), self.path))
    }
}

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of RFC 7518")]
pub enum JwtAlgorithm {
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    PS256,
    PS384,
    PS512,
    ES256,
    ES384,
    EdDSA,
}

/// Callers that are never limited, and callers that are always rejected. Deny comes before allow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// These are never limited.
    pub allow: AccessList,
    /// These are rejected with 403.
    pub deny: AccessList,
}

/// Callers by address or by principal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    /// Client addresses.
    pub cidrs: Vec<IpNet>,
    /// Principals, by id.
    pub keys: Vec<String>,
}
