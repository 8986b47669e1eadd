//! Signed tokens in a header: JSON Web Tokens (RFC 7519) in the compact form of RFC 7515.
//!
//! Idea: a token is three parts, `header.claims.signature`. The header, which an attacker can write
//! as he likes, only says which key and which algorithm to try. Both must be ones of ours: the
//! algorithm in the configured list, the key in the key set, and the key of the type that the
//! algorithm needs. Only then is the signature verified, over the exact bytes that were received,
//! and only then are the claims decoded.
//!
//! Invariants, each the answer to a known attack:
//! - `alg: none` does not exist here, and a public RSA key is never used as an HMAC secret, because
//!   a key has one type (`signature.rs`).
//! - Keys in the token or at a URL that it names (`jwk`, `jku`, `x5u`) are not looked at.
//! - A token with `crit` is refused, since it demands extensions and we have none.
//! - The length is bounded before anything is decoded.

use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use sluicegate_config::{JwksSource, Jwt, JwtAlgorithm};
use sluicegate_core::Principal;

use super::claims::ClaimRules;
use super::credential_check::CredentialCheck;
use super::jwks::{KeyChoiceError, KeySet};
use super::keys_unavailable::KeysUnavailable;
use super::remote_keys::RemoteKeys;
use super::signature::algorithm_by_name;
use super::unauthorized::AuthFailure;
use super::{header_name, single_value};

/// Verifies tokens by the configured keys, algorithms and claims.
pub(super) struct TokenVerifier {
    /// The header that tokens come in.
    header: HeaderName,
    /// The algorithms that are accepted, whatever a key could do.
    algorithms: Vec<JwtAlgorithm>,
    keys: KeySource,
    /// The types that are accepted, lower case; empty accepts any and none.
    types: Vec<String>,
    rules: ClaimRules,
}

/// The place of the keys.
enum KeySource {
    /// Read with the configuration.
    File(KeySet),
    /// Fetched again and again.
    Url(Arc<RemoteKeys>),
}

impl TokenVerifier {
    /// Longer tokens are refused before they are decoded.
    const TOKEN_BYTES_MAX: usize = 8192;

    /// Reads the key set, or returns all mistakes.
    pub(super) fn load(settings: &Jwt) -> Result<Self, Vec<String>> {
        let header = header_name("principals.jwt.header", &settings.header);
        let algorithms = &settings.algorithms;
        let keys = match &settings.keys {
            JwksSource::File(file) => KeySet::read(file, algorithms).map(KeySource::File),
            JwksSource::Url(url) => match RemoteKeys::new(url, algorithms) {
                Ok(keys) => Ok(KeySource::Url(Arc::new(keys))),
                Err(mistake) => Err(vec![format!("principals.jwt.jwks_url: {mistake}")]),
            },
        };
        match (header, keys) {
            (Ok(header), Ok(keys)) => Ok(Self {
                header,
                algorithms: settings.algorithms.clone(),
                keys,
                types: settings.types.clone(),
                rules: ClaimRules::new(settings),
            }),
            (header, keys) => Err(header
                .err()
                .into_iter()
                .chain(keys.err().into_iter().flatten())
                .collect()),
        }
    }

    pub(super) fn header(&self) -> &HeaderName {
        &self.header
    }

    /// The number of usable keys of the file.
    pub(super) fn len(&self) -> usize {
        match &self.keys {
            KeySource::File(keys) => keys.len(),
            KeySource::Url(keys) => keys.status().keys,
        }
    }

    /// The number of keys that are of an unknown type, or not for signatures.
    pub(super) fn skipped_keys(&self) -> usize {
        match &self.keys {
            KeySource::File(keys) => keys.skipped,
            KeySource::Url(keys) => keys.status().skipped,
        }
    }

    /// The keys that are fetched, if they are.
    pub(super) fn remote_keys(&self) -> Option<&Arc<RemoteKeys>> {
        match &self.keys {
            KeySource::File(_) => None,
            KeySource::Url(keys) => Some(keys),
        }
    }

    /// Keeps the keys that were fetched under another configuration, if they are of the same URL.
    pub(super) fn keep_keys_of(&mut self, other: &Self) {
        let (KeySource::Url(own), KeySource::Url(others)) = (&mut self.keys, &other.keys) else {
            return;
        };
        match own.is_same(others) {
            true => *own = Arc::clone(others),
            false => own.keep_keys_of(others),
        }
    }

    /// The principal of the token in the headers; `None` without one. `Bearer` may stand before it.
    pub(super) fn verify(
        &self,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<Arc<Principal>>, TokenError> {
        let Some(line) = single_value(headers, &self.header)? else {
            return Ok(None);
        };
        let line = str::from_utf8(line)
            .ok()
            .filter(|line| line.is_ascii())
            .ok_or(AuthFailure::Malformed)?;
        let token = match line.split_once(' ') {
            None => line,
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => {
                token.trim_start_matches(' ')
            }
            // Another scheme, such as `Basic`, may be for a server behind us; it is not verified.
            Some(_) if self.header == AUTHORIZATION => return Err(AuthFailure::Scheme.into()),
            Some(_) => return Err(AuthFailure::Malformed.into()),
        };
        self.principal_of(token, now)
            .map(|principal| Some(Arc::new(principal)))
    }

    /// Verifies a token: bounds, key and algorithm, signature, claims, in this order.
    fn principal_of(&self, token: &str, now: SystemTime) -> Result<Principal, TokenError> {
        if token.len() > Self::TOKEN_BYTES_MAX {
            return Err(AuthFailure::Malformed.into());
        }
        let (message, signature) = token.rsplit_once('.').ok_or(AuthFailure::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(AuthFailure::Malformed)?;
        let header: JoseHeader = decode_json(header)?;
        if header.crit.is_some() {
            // RFC 7515, section 4.1.11: refuse what lists extensions that are not understood.
            return Err(AuthFailure::Malformed.into());
        }
        let algorithm = algorithm_by_name(&header.alg).ok_or(AuthFailure::Algorithm)?;
        if !self.algorithms.contains(&algorithm) {
            return Err(AuthFailure::Algorithm.into());
        }
        if !self.types.is_empty() && !self.takes_type(header.typ.as_ref()) {
            return Err(AuthFailure::Type.into());
        }
        let verify = |keys: &KeySet| {
            let key = keys.choose(header.kid.as_deref(), algorithm)?;
            let signature = decode_base64url(signature)?;
            match key.verifies(algorithm, message.as_bytes(), &signature) {
                true => Ok(()),
                false => Err(TokenError::Invalid(AuthFailure::BadSignature)),
            }
        };
        match &self.keys {
            KeySource::File(keys) => verify(keys)?,
            KeySource::Url(keys) => keys.with_keys(verify).map_err(TokenError::Unavailable)??,
        }
        Ok(self.rules.principal(&decode_json(claims)?, now)?)
    }

    /// Returns true for a type in the list, in any case and with `application/` before it or not
    /// (RFC 7515, section 4.1.9). A token that does not state its type is not accepted: it could be
    /// of another kind of the same issuer (RFC 8725, section 3.11).
    fn takes_type(&self, typ: Option<&Value>) -> bool {
        const PREFIX: &str = "application/";
        let Some(typ) = typ.and_then(Value::as_str) else {
            return false;
        };
        let has_prefix = |start: &&str| start.eq_ignore_ascii_case(PREFIX);
        let name = match typ.get(..PREFIX.len()).filter(has_prefix) {
            Some(_) => &typ[PREFIX.len()..],
            None => typ,
        };
        let is_same = |accepted: &String| accepted.eq_ignore_ascii_case(name);
        self.types.iter().any(is_same)
    }
}

/// Why a token names nobody.
#[derive(Clone, Copy, Debug)]
pub(super) enum TokenError {
    /// It is not valid.
    Invalid(AuthFailure),
    /// It names a key that is not in the set; a newer set may have it.
    UnknownKeyId,
    /// There are no keys to verify it with.
    Unavailable(KeysUnavailable),
}

impl From<Result<Option<Arc<Principal>>, TokenError>> for CredentialCheck {
    fn from(verified: Result<Option<Arc<Principal>>, TokenError>) -> Self {
        match verified {
            Ok(None) => Self::Absent,
            Ok(Some(subject)) => Self::Valid(subject),
            Err(TokenError::Invalid(reason)) => Self::Invalid(reason),
            Err(TokenError::UnknownKeyId) => Self::Invalid(AuthFailure::KeyId),
            Err(TokenError::Unavailable(missing)) => Self::Unverifiable(missing),
        }
    }
}

impl From<AuthFailure> for TokenError {
    fn from(failure: AuthFailure) -> Self {
        Self::Invalid(failure)
    }
}

impl From<KeyChoiceError> for TokenError {
    fn from(no_key: KeyChoiceError) -> Self {
        match no_key {
            KeyChoiceError::UnknownId => Self::UnknownKeyId,
            KeyChoiceError::Unclear => Self::Invalid(AuthFailure::KeyId),
            KeyChoiceError::WrongAlgorithm => Self::Invalid(AuthFailure::Algorithm),
        }
    }
}

/// The fields of the JOSE header that are used. Others, such as `jku` and `jwk`, are ignored on
/// purpose.
#[derive(Deserialize)]
struct JoseHeader {
    alg: String,
    /// The id of the key.
    kid: Option<String>,
    /// Extensions that must be understood.
    crit: Option<IgnoredAny>,
    /// The type of the token.
    typ: Option<Value>,
}

/// JSON in base64url. The parser refuses more than 128 levels of nesting.
fn decode_json<T: DeserializeOwned>(part: &str) -> Result<T, AuthFailure> {
    serde_json::from_slice(&decode_base64url(part)?).map_err(|_| AuthFailure::Malformed)
}

fn decode_base64url(part: &str) -> Result<Vec<u8>, AuthFailure> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| AuthFailure::Malformed)
}
