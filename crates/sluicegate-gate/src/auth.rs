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

mod credential_check;

mod api_keys;
mod key_file;

mod claims;
mod jwks;
mod keys_unavailable;
mod remote_keys;
mod signature;
mod tokens;

mod bounded_file;
#[cfg(feature = "fuzz-internals")]
pub(crate) mod fuzz_internals;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_config::Principals;
use sluicegate_core::Principal;
use tokio::runtime::Handle;

use crate::telemetry::Metrics;
use api_keys::ApiKeys;
use credential_check::{Conclusion, CredentialCheck, CredentialRefusal, CredentialRules};
use tokens::{TokenError, TokenVerifier};

pub use credential_check::{Forwarder, UnverifiedHeaders};
pub use keys_unavailable::{KeysGap, KeysUnavailable};
pub use remote_keys::KeysStatus;
pub use unauthorized::{AuthFailure, Unauthorized};

/// Identifies the caller of a request by its credentials.
///
/// If a request carries an API key and a token, the key names the caller; `principals.credentials`
/// says what becomes of the token. With both invalid, the reason of the key is reported. Ids of keys
/// and subjects of tokens share one namespace: the same text is the same principal.
pub struct Authenticator {
    /// `None` when `principals.api_keys` is not configured.
    api_keys: Option<ApiKeys>,
    /// `None` when `principals.jwt` is not configured.
    tokens: Option<TokenVerifier>,
    rules: CredentialRules,
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
        let shares_header = credential_headers.len() == 1 && api_keys.is_some() && tokens.is_some();
        let challenges = Challenges::new(key_header, tokens.is_some());
        Ok(Self {
            api_keys,
            tokens,
            rules: CredentialRules::new(principals, shares_header),
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

    /// The identity of the caller, after all rules of the configuration. Failures are counted.
    ///
    /// A token that names an unknown key waits for newer keys, where these come from a URL.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        now: SystemTime,
        forwarder: Forwarder,
    ) -> Authenticated {
        let rules = self.rules.towards(forwarder);
        let by_key = self.check_key(headers);
        let by_token = match rules.needs_token(&by_key) {
            true => self.check_token_or_wait(headers, now).await,
            false => self.skip_token(headers),
        };
        let Conclusion {
            caller,
            unverified,
            counted,
        } = rules.conclude(by_key, by_token);
        if let (Some(reason), Some(metrics)) = (counted, &self.metrics) {
            metrics.auth_refused(reason);
        }
        Authenticated {
            identity: self.identity_of(caller),
            unverified,
        }
    }

    /// The same without counting and without waiting, for operators who explain a decision.
    pub fn identity(&self, headers: &HeaderMap, now: SystemTime) -> Identity {
        let by_key = self.check_key(headers);
        let by_token = match self.rules.needs_token(&by_key) {
            true => self.check_token(headers, now),
            false => self.skip_token(headers),
        };
        self.identity_of(self.rules.conclude(by_key, by_token).caller)
    }

    /// Removes credentials that were not found valid.
    pub fn strip(&self, unverified: UnverifiedHeaders, headers: &mut HeaderMap) {
        let keys = self.api_keys.as_ref().filter(|_| unverified.key);
        let tokens = self.tokens.as_ref().filter(|_| unverified.token);
        let names = keys.map(ApiKeys::header).into_iter();
        for name in names.chain(tokens.map(TokenVerifier::header)) {
            headers.remove(name);
        }
    }

    fn identity_of(&self, caller: Result<Option<Arc<Principal>>, CredentialRefusal>) -> Identity {
        match caller {
            Ok(Some(principal)) => Identity::Known(principal),
            Ok(None) => Identity::Anonymous,
            Err(CredentialRefusal::Invalid(reason)) => {
                Identity::Refused(self.challenges.refusal(reason))
            }
            Err(CredentialRefusal::Unverifiable(missing)) => Identity::Unverifiable(missing),
        }
    }

    fn check_key(&self, headers: &HeaderMap) -> CredentialCheck {
        let keys = self.api_keys.as_ref();
        match keys.map_or(Ok(None), |keys| keys.verify(headers)) {
            Ok(None) => CredentialCheck::Absent,
            Ok(Some(owner)) => CredentialCheck::Valid(owner),
            Err(reason) => CredentialCheck::Invalid(reason),
        }
    }

    fn check_token(&self, headers: &HeaderMap, now: SystemTime) -> CredentialCheck {
        let tokens = self.tokens.as_ref();
        tokens.map_or(CredentialCheck::Absent, |tokens| {
            tokens.verify(headers, now).into()
        })
    }

    /// Checks the token; one that names an unknown key waits for newer keys.
    async fn check_token_or_wait(&self, headers: &HeaderMap, now: SystemTime) -> CredentialCheck {
        let Some(tokens) = &self.tokens else {
            return CredentialCheck::Absent;
        };
        let verified = tokens.verify(headers, now);
        let (Err(TokenError::UnknownKeyId), Some(keys)) = (&verified, tokens.remote_keys()) else {
            return verified.into();
        };
        // In a box: hardly a request needs room for this.
        match Box::pin(keys.wait_for_newer()).await {
            Ok(()) => tokens.verify(headers, now).into(),
            Err(missing) => CredentialCheck::Unverifiable(missing),
        }
    }

    fn skip_token(&self, headers: &HeaderMap) -> CredentialCheck {
        let header = self.tokens.as_ref().map(TokenVerifier::header);
        match header.is_some_and(|header| headers.contains_key(header)) {
            true => CredentialCheck::Skipped,
            false => CredentialCheck::Absent,
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

/// The result of an authentication.
#[derive(Clone, Debug)]
pub struct Authenticated {
    /// Who is asking, or why the request is refused.
    pub identity: Identity,
    /// The credentials to [remove](Authenticator::strip) before the request is forwarded.
    pub unverified: UnverifiedHeaders,
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
        // RFC 6750, section 3.1: no error code for a request without a token.
        let challenge = match reason {
            AuthFailure::Missing | AuthFailure::Scheme => &self.missing,
            _ => &self.wrong,
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
        // Blanks around a value do not count, as in keys and rules.
        (Some(line), None) => Ok(Some(line.as_bytes().trim_ascii())),
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
