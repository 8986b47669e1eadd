//! Who is asking: API keys and signed tokens.
//!
//! Files are read once, at load, and give an [`Authenticator`] that never changes; a changed file means another one. Nothing
//! here prints a key, a digest or a token.

mod unauthorized;

mod api_keys;
mod key_file;

mod claims;
mod jwks;
mod signature;
mod tokens;

mod bounded_file;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_config::{OnInvalid, Principals};
use sluicegate_core::Principal;

use crate::telemetry::Metrics;
use api_keys::ApiKeys;
use tokens::TokenVerifier;

pub use unauthorized::{AuthFailure, Unauthorized};

/// Finds out who is behind a request. Shared by all requests in an `Arc`.
///
/// If a request carries an API key and a token, the key names the caller; only when the key is wrong does the token get its
/// turn. With both wrong, the reason is the key's. Ids of keys and subjects of tokens are one set of names.
pub struct Authenticator {
    api_keys: Option<ApiKeys>,
    tokens: Option<TokenVerifier>,
    is_required: bool,
    on_invalid: OnInvalid,
    files: Vec<PathBuf>,
    credential_headers: Vec<HeaderName>,
    challenges: Challenges,
    /// Where wrong and missing credentials are counted, if they are.
    metrics: Option<Arc<Metrics>>,
}

impl Authenticator {
    /// Reads the files, or says everything that is wrong with them: file, place, what was expected. No message holds a
    /// key, a digest or a token.
    pub fn load(principals: &Principals) -> Result<Self, Vec<String>> {
        let mut mistakes = Vec::new();
        if principals.required && principals.api_keys.is_none() && principals.jwt.is_none() {
            mistakes.push(
                "principals.required: needs api_keys or jwt beside it, or nobody could pass"
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
            files.push(settings.jwks_file.clone());
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

    /// Counts every credential that is not accepted, and every one that is missing where it is required. Who passes as
    /// anonymous with a wrong one is counted too.
    #[must_use]
    pub fn counted_in(mut self, metrics: Arc<Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Whether callers can say who they are at all. If not, everybody is anonymous.
    pub fn is_configured(&self) -> bool {
        self.api_keys.is_some() || self.tokens.is_some()
    }

    /// The files that were read. When one of them changes, load again.
    pub fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    /// The headers that hold credentials, for whoever logs or forwards headers.
    pub fn credential_headers(&self) -> &[HeaderName] {
        &self.credential_headers
    }

    /// How many keys of the key set were passed over: of an unknown kind, or for another use than signatures.
    pub fn skipped_keys(&self) -> usize {
        self.tokens.as_ref().map_or(0, TokenVerifier::skipped_keys)
    }

    /// Who the caller is, by the rules of the configuration: `required` and `on_invalid` are applied.
    pub fn authenticate(&self, headers: &HeaderMap, now: SystemTime) -> Identity {
        let verified = self.verify(headers, now);
        match &verified {
            Err(refusal) => self.count(refusal.reason),
            Ok(None) if self.is_required => self.count(AuthFailure::Missing),
            Ok(_) => {}
        }
        self.apply_rules(verified)
    }

    /// The same, for somebody who only wants to know: nothing is counted.
    pub fn identity(&self, headers: &HeaderMap, now: SystemTime) -> Identity {
        self.apply_rules(self.verify(headers, now))
    }

    fn apply_rules(&self, verified: Result<Option<Arc<Principal>>, Unauthorized>) -> Identity {
        match (verified, self.on_invalid) {
            (Ok(Some(principal)), _) => Identity::Known(principal),
            (Err(refusal), OnInvalid::Reject) => Identity::Refused(refusal),
            (Ok(None), _) | (Err(_), OnInvalid::Anonymous) if self.is_required => {
                Identity::Refused(self.challenges.refusal(AuthFailure::Missing))
            }
            (Ok(None), _) | (Err(_), OnInvalid::Anonymous) => Identity::Anonymous,
        }
    }

    /// What the credentials say by themselves: a principal, nothing, or why they are wrong. For those who count reasons
    /// although wrong credentials pass as anonymous.
    pub fn verify(
        &self,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Option<Arc<Principal>>, Unauthorized> {
        let by_key = self
            .api_keys
            .as_ref()
            .map_or(Ok(None), |keys| keys.verify(headers));
        if let Ok(Some(principal)) = by_key {
            return Ok(Some(principal));
        }
        let by_token = self
            .tokens
            .as_ref()
            .map_or(Ok(None), |tokens| tokens.verify(headers, now));
        match (by_key, by_token) {
            (_, Ok(Some(principal))) => Ok(Some(principal)),
            (Err(reason), _) | (Ok(_), Err(reason)) => Err(self.challenges.refusal(reason)),
            (Ok(_), Ok(None)) => Ok(None),
        }
    }

    fn count(&self, reason: AuthFailure) {
        if let Some(metrics) = &self.metrics {
            metrics.auth_refused(reason);
        }
    }
}

/// How much there is, and no more: keys are secrets.
impl fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticator")
            .field("api_keys", &self.api_keys.as_ref().map(ApiKeys::len))
            .field("token_keys", &self.tokens.as_ref().map(TokenVerifier::len))
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Who a caller turned out to be.
#[derive(Clone, Debug)]
pub enum Identity {
    /// Nobody in particular, and that is fine.
    Anonymous,
    /// This principal, verified.
    Known(Arc<Principal>),
    /// A wrong credential, or none where one is required: 401.
    Refused(Unauthorized),
}

/// What `WWW-Authenticate` says, made once.
struct Challenges {
    /// For callers that showed nothing.
    missing: HeaderValue,
    /// For callers whose credential is wrong.
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

/// The value of the one line with this name; several would leave it to each reader which one counts.
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

/// Whether a text can name a principal: not empty, at most 256 bytes, no control characters.
fn is_principal_id(text: &str) -> bool {
    const BYTES_MAX: usize = 256;
    !text.is_empty() && text.len() <= BYTES_MAX && !text.chars().any(char::is_control)
}

fn header_name(place: &str, name: &str) -> Result<HeaderName, String> {
    HeaderName::try_from(name).map_err(|_| format!("{place}: expected the name of a header"))
}

fn take_or_collect<T>(result: Result<T, Vec<String>>, mistakes: &mut Vec<String>) -> Option<T> {
    result.map_err(|more| mistakes.extend(more)).ok()
}
