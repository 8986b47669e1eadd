//! Signed tokens (JSON Web Tokens, RFC 7519) in a header.
//!
//! Nothing in a token is believed before its signature is verified, except which key and which algorithm to try; and these
//! must be in our key set, in our list, and fit each other.

use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use sluicegate_config::{Jwt, JwtAlgorithm};
use sluicegate_core::Principal;

use super::claims::ClaimRules;
use super::jwks::{KeyChoiceError, KeySet};
use super::signature::algorithm_by_name;
use super::unauthorized::AuthFailure;
use super::{header_name, single_value};

/// Which tokens are accepted.
pub(super) struct TokenVerifier {
    header: HeaderName,
    algorithms: Vec<JwtAlgorithm>,
    keys: KeySet,
    rules: ClaimRules,
}

impl TokenVerifier {
    /// Longer tokens are refused before they are looked at.
    const TOKEN_BYTES_MAX: usize = 8192;

    pub(super) fn load(settings: &Jwt) -> Result<Self, Vec<String>> {
        let header = header_name("principals.jwt.header", &settings.header);
        match (
            header,
            KeySet::read(&settings.jwks_file, &settings.algorithms),
        ) {
            (Ok(header), Ok(keys)) => Ok(Self {
                header,
                algorithms: settings.algorithms.clone(),
                keys,
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

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn skipped_keys(&self) -> usize {
        self.keys.skipped
    }

    /// The subject of the token, nobody without one.
    pub(super) fn verify(
        &self,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<Arc<Principal>>, AuthFailure> {
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
            // `Basic` and the like are for somebody behind us.
            Some(_) if self.header == AUTHORIZATION => return Ok(None),
            Some(_) => return Err(AuthFailure::Malformed),
        };
        self.principal_of(token, now)
            .map(|principal| Some(Arc::new(principal)))
    }

    fn principal_of(&self, token: &str, now: SystemTime) -> Result<Principal, AuthFailure> {
        if token.len() > Self::TOKEN_BYTES_MAX {
            return Err(AuthFailure::Malformed);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(AuthFailure::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(AuthFailure::Malformed)?;
        let header: JoseHeader = decode_json(header)?;
        if header.crit.is_some() {
            // It asks for extensions to be understood, and we know none.
            return Err(AuthFailure::Malformed);
        }
        let algorithm = algorithm_by_name(&header.alg).ok_or(AuthFailure::Algorithm)?;
        if !self.algorithms.contains(&algorithm) {
            return Err(AuthFailure::Algorithm);
        }
        let key =
            self.keys
                .choose(header.kid.as_deref(), algorithm)
                .map_err(|no_key| match no_key {
                    KeyChoiceError::UnknownId => AuthFailure::KeyId,
                    KeyChoiceError::WrongAlgorithm => AuthFailure::Algorithm,
                })?;
        let signature = decode_base64url(signature)?;
        if !key.verifies(algorithm, message.as_bytes(), &signature) {
            return Err(AuthFailure::BadSignature);
        }
        self.rules.principal(&decode_json(claims)?, now)
    }
}

/// What the head of a token says, as far as we listen: where it says its key is to be found, for one, is not asked.
#[derive(Deserialize)]
struct JoseHeader {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

/// JSON in base64url. Nesting beyond 128 levels is refused by the parser.
fn decode_json<T: DeserializeOwned>(part: &str) -> Result<T, AuthFailure> {
    serde_json::from_slice(&decode_base64url(part)?).map_err(|_| AuthFailure::Malformed)
}

fn decode_base64url(part: &str) -> Result<Vec<u8>, AuthFailure> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| AuthFailure::Malformed)
}
