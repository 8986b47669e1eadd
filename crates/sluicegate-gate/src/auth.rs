//! Authentication: API keys and signed tokens (JWT) name the caller of a request.
//!
//! ```text
//! headers ─▶ api_keys.rs ◀─ key_file.rs          the keys by their SHA-256, from a YAML file
//!         └▶ tokens.rs   ◀─ jwks.rs              the keys that verify tokens, from a JWKS file
//!               │        ◀─ remote_keys.rs       or from a URL, fetched in the background
//!               └▶ signature.rs ─▶ claims.rs     first the signature, then the claims
//! ```
//!
//! The files are read once, when a configuration is loaded, and give an [`Authenticator`] that
//! never changes but for the keys that it fetches; a changed file means a new one. No error, log
//! line or `Debug` output contains a key, a digest or a token.

mod unauthorized;

mod api_keys;
mod key_file;

mod claims;
mod jwks;
mod keys_unavailable;
mod remote_keys;
mod signature;
mod tokens;

mod bounded_file;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_config::{OnInvalid, Principals};
use sluicegate_core::Principal;
use tokio::runtime::Handle;

use crate::telemetry::Metrics;
use api_keys::ApiKeys;
use tokens::{TokenError, TokenVerifier};

pub use keys_unavailable::{KeysGap, KeysUnavailable};
pub use remote_keys::KeysStatus;
pub use unauthorized::{AuthFailure, Unauthorized};

/// Identifies the caller of a request by its credentials.
///
/// If a request carries an API key and a token, the key names the caller; the token counts only
/// when the key is invalid. With both invalid, the reason of the key is reported. Ids of keys and
/// subjects of tokens share one namespace: the same text is the same principal.
pub struct Authenticator {
    /// `None` when `principals.api_keys` is not configured.
    api_keys: Option<ApiKeys>,
    /// `None` when `principals.jwt` is not configured.
    tokens: Option<TokenVerifier>,
    /// True when a request without a credential is refused.
    is_required: bool,
    /// Invalid credentials are refused, or treated as none.
    on_invalid: OnInvalid,
    /// The files that were read; the file watch follows them.
    files: Vec<PathBuf>,
    credential_headers: Vec<HeaderName>,
    challenges: Challenges,
    /// Counts failures, if set; see [`Authenticator::counted_in`].
    metrics: Option<Arc<Metrics>>,
}

impl Authenticator {
    /// Reads the files, or returns all mistakes in them, each with file, place and what was
    /// expected. No message contains a key, a digest or a token.
    pub fn load(principals: &Principals) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        if principals.required && principals.api_keys.is_none() && principals.jwt.is_none() {
            mistakes.push(
                "principals.required: needs api_keys or jwt beside it, otherwise every request is refused"
                    .to_owned(),
            );
        }
        let mut files = Vec::new();
        let mut api_keys = None;
        if let Some(settings) = &principals.api_keys {
            files.push(settings.file.clone());
            api_keys = take_or_collect(ApiKeys::load(settings), &mut mistakes);
        }
        let mut tokens = None;
        if let Some(settings) = &principals.jwt {
            files.extend(settings.jwks_file().map(Path::to_owned));
            tokens = take_or_collect(TokenVerifier::load(settings), &mut mistakes);
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let key_header = api_keys.as_ref().map(ApiKeys::header);
        let mut credential_headers = Vec::new();
        credential_headers.extend(key_header.cloned());
        credential_headers.extend(tokens.as_ref().map(|tokens| tokens.header().clone()));
        credential_headers.dedup();
        let challenges = Challenges::new(key_header, tokens.is_some());
        Ok(Self {
            api_keys,
            tokens,
            is_required: principals.required,
            on_invalid: principals.on_invalid,
            files,
            credential_headers,
            challenges,
            metrics: None,
        })
    }

    /// Counts every invalid credential, and every missing one where it is required. A caller that
    /// passes as anonymous with an invalid one is counted too: somebody may be guessing.
    #[must_use]
    pub fn counted_in(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Returns true when any credentials are configured. If not, every caller is anonymous.
    pub fn is_configured(&self) -> bool {
        self.api_keys.is_some() || self.tokens.is_some()
    }

    /// The files that were read; when one changes, a new authenticator has to be loaded.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    /// The headers that carry credentials, which must be neither logged nor used as keys.
    pub fn credential_headers(&self) -> &[HeaderName] {
        &self.credential_headers
    }

    /// Keeps the keys that were fetched under another configuration, if they are of the same URL.
    pub fn keep_keys_of(&mut self, other: &Self) {
        if let (Some(own), Some(others)) = (&mut self.tokens, &other.tokens) {
            own.keep_keys_of(others);
        }
    }

    /// Starts to fetch keys, if they come from a URL and are not fetched yet. Dropping the
    /// authenticator ends it.
    pub fn start_fetching(&self, background: &Handle) {
        if let Some(keys) = self.tokens.as_ref().and_then(TokenVerifier::remote_keys) {
            keys.start(background, self.metrics.clone());
        }
    }

    /// The state of the keys that are fetched; `None` when there are none.
    pub fn keys_status(&self) -> Option<KeysStatus> {
        let keys = self.tokens.as_ref()?.remote_keys()?;
        Some(keys.status())
    }

    /// The number of keys of tokens that were skipped: of an unknown type, or not for
    /// signatures.
    pub fn skipped_keys(&self) -> usize {
        self.tokens.as_ref().map_or(0, TokenVerifier::skipped_keys)
    }

    /// The identity of the caller, after `required` and `on_invalid`. Failures are counted.
    ///
    /// A token that names an unknown key waits for newer keys, where these come from a URL.
    pub async fn authenticate(&self, headers: &HeaderMap, now: SystemTime) -> Identity {
        let by_key = self.verify_key(headers);
        let verified = match by_key {
            Ok(Some(_)) => self.combine(by_key, Ok(None)),
            _ => self.combine(by_key, self.token_or_wait(headers, now).await),
        };
        match &verified {
            Err(refusal) => self.count(refusal.reason()),
            Ok(None) if self.is_required => self.count(AuthFailure::Missing),
            Ok(_) => {}
        }
        self.apply_rules(verified)
    }

    /// The same without counting and without waiting, for operators who explain a decision.
    pub fn identity(&self, headers: &HeaderMap, now: SystemTime) -> Identity {
        self.apply_rules(self.verify(headers, now))
    }

    /// Applies `required` and `on_invalid`: the one place that decides who is refused.
    fn apply_rules(&self, verified: Result<Option<Arc<Principal>>, CredentialRefusal>) -> Identity {
        match (verified, self.on_invalid) {
            (Ok(Some(principal)), _) => Identity::Known(principal),
            (Err(CredentialRefusal::Unverifiable(unavailable)), _) => {
                Identity::Unverifiable(unavailable)
            }
            (Err(CredentialRefusal::Invalid(refusal)), OnInvalid::Reject) => {
                Identity::Refused(refusal)
            }
            (Ok(None), _) | (Err(_), OnInvalid::Anonymous) if self.is_required => {
                Identity::Refused(self.challenges.refusal(AuthFailure::Missing))
            }
            (Ok(None), _) | (Err(_), OnInvalid::Anonymous) => Identity::Anonymous,
        }
    }

    /// The result of the credentials alone, before `required` and `on_invalid`: a principal, none,
    /// or why they name nobody.
    pub fn verify(
        &self,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<Arc<Principal>>, CredentialRefusal> {
        let by_key = self.verify_key(headers);
        match by_key {
            Ok(Some(_)) => self.combine(by_key, Ok(None)),
            _ => self.combine(by_key, self.verify_token(headers, now)),
        }
    }

    fn verify_key(&self, headers: &HeaderMap) -> Result<Option<Arc<Principal>>, AuthFailure> {
        let keys = self.api_keys.as_ref();
        keys.map_or(Ok(None), |keys| keys.verify(headers))
    }

    fn verify_token(
        &self,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<Arc<Principal>>, TokenError> {
        let tokens = self.tokens.as_ref();
        tokens.map_or(Ok(None), |tokens| tokens.verify(headers, now))
    }

    /// Verifies the token; one that names an unknown key waits for newer keys.
    async fn token_or_wait(
        &self,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<Arc<Principal>>, TokenError> {
        let by_token = self.verify_token(headers, now);
        let tokens = self.tokens.as_ref();
        let keys = tokens.and_then(TokenVerifier::remote_keys);
        let (Err(TokenError::UnknownKeyId), Some(keys)) = (&by_token, keys) else {
            return by_token;
        };
        // In a box: hardly a request needs room for this.
        match Box::pin(keys.wait_for_newer()).await {
            Ok(()) => self.verify_token(headers, now),
            Err(unavailable) => Err(TokenError::Unavailable(unavailable)),
        }
    }

    /// The key names the caller, and else the token.
    fn combine(
        &self,
        by_key: Result<Option<Arc<Principal>>, AuthFailure>,
        by_token: Result<Option<Arc<Principal>>, TokenError>,
    ) -> Result<Option<Arc<Principal>>, CredentialRefusal> {
        let invalid = |reason| CredentialRefusal::Invalid(self.challenges.refusal(reason));
        match (by_key, by_token) {
            (Ok(Some(principal)), _) | (_, Ok(Some(principal))) => Ok(Some(principal)),
            (_, Err(TokenError::Unavailable(gap))) => Err(CredentialRefusal::Unverifiable(gap)),
            (Err(reason), _) | (Ok(None), Err(TokenError::Invalid(reason))) => Err(invalid(reason)),
            (Ok(None), Err(TokenError::UnknownKeyId)) => Err(invalid(AuthFailure::KeyId)),
            (Ok(None), Ok(None)) => Ok(None),
        }
    }

    fn count(&self, reason: AuthFailure) {
        if let Some(metrics) = &self.metrics {
            metrics.auth_refused(reason);
        }
    }
}

/// Shows how many keys there are and nothing about them: keys are secrets.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("api_keys", &self.api_keys.as_ref().map(ApiKeys::len))
            .field("token_keys", &self.tokens.as_ref().map(TokenVerifier::len))
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Why credentials name nobody.
#[derive(Clone, Debug)]
pub enum CredentialRefusal {
    /// They are not valid.
    Invalid(Unauthorized),
    /// There are no keys to verify them with.
    Unverifiable(KeysUnavailable),
}

impl CredentialRefusal {
    /// The reason for metrics and logs.
    pub fn reason(&self) -> AuthFailure {
        match self {
            Self::Invalid(refusal) => refusal.reason,
            Self::Unverifiable(_) => AuthFailure::KeysUnavailable,
        }
    }
}

/// The identity of a caller.
#[derive(Clone, Debug)]
pub enum Identity {
    /// No credential, where none is required, or an invalid one that counts as none.
    Anonymous,
    /// A verified principal.
    Known(Arc<Principal>),
    /// An invalid credential, or none where one is required: the response is 401.
    Refused(Unauthorized),
    /// A token that nobody can verify now: the response is 503.
    Unverifiable(KeysUnavailable),
}

/// The values of `WWW-Authenticate` (RFC 9110, section 11.6.1), made once.
struct Challenges {
    /// For callers without a credential.
    missing: HeaderValue,
    /// For callers with an invalid credential; RFC 6750 names the error of a bearer token.
    wrong: HeaderValue,
}

impl Challenges {
    fn new(key_header: Option<&HeaderName>, takes_tokens: bool) -> Self {
        let by_key = key_header.map(|header| format!("ApiKey header=\"{header}\""));
        let with = |bearer: &str| {
            let by_token = takes_tokens.then(|| bearer.to_owned());
            let offers: Vec<String> = by_token.into_iter().chain(by_key.clone()).collect();
            HeaderValue::try_from(offers.join(", ")).expect("header names are visible ASCII")
        };
        Self {
            missing: with("Bearer"),
            wrong: with("Bearer error=\"invalid_token\""),
        }
    }

    fn refusal(&self, reason: AuthFailure) -> Unauthorized {
        let challenge = if reason == AuthFailure::Missing {
            &self.missing
        } else {
            &self.wrong
        };
        Unauthorized::new(reason, challenge.clone())
    }
}

/// The value of a header that may occur once. Several are refused: the servers behind us might use
/// another one than we do.
fn single_value<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a [u8]>, AuthFailure> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Ok(None),
        (Some(line), None) => Ok(Some(line.as_bytes())),
        (Some(_), Some(_)) => Err(AuthFailure::Repeated),
    }
}

/// Returns true for a text that can name a principal: 1 to 256 bytes, no control characters. Names
/// end up in keys of Redis and in logs.
fn is_principal_id(text: &str) -> bool {
    const BYTES_MAX: usize = 256;
    !text.is_empty() && text.len() <= BYTES_MAX && !text.chars().any(char::is_control)
}

/// The header that the configuration names at `place`.
fn header_name(place: &str, name: &str) -> Result<HeaderName, String> {
    HeaderName::try_from(name).map_err(|_| format!("{place}: expected the name of a header"))
}

/// The value of a result; mistakes are added to the list, so that all of them are reported at once.
fn take_or_collect<T>(result: Result<T, Vec<String>>, mistakes: &mut Vec<String>) -> Option<T> {
    result.map_err(|more| mistakes.extend(more)).ok()
}
