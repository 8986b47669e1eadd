//! Credentials in sentences: which ones are believed, and where the keys of tokens come from.

use crate::typed::{CredentialPolicy, JwksUrl, Jwt, Principals};

/// What happens to a second credential, and the URL of the keys.
pub(super) fn in_words(principals: &Principals) -> Vec<String> {
    let has_two = principals.api_keys.is_some() && principals.jwt.is_some();
    let second = match principals.credentials {
        CredentialPolicy::VerifyAll => {
            "a request with an API key and a token needs both to be valid"
        }
        CredentialPolicy::StripUnverified => {
            "a credential that is not verified is removed before a request is forwarded"
        }
    };
    let is_told = has_two || principals.credentials != CredentialPolicy::default();
    let mut words = Vec::new();
    words.extend(is_told.then(|| second.to_owned()));
    let url = principals.jwt.as_ref().and_then(Jwt::jwks_url);
    words.extend(url.into_iter().flat_map(url_in_words));
    words
}

/// The URL of the keys, and what depends on it.
fn url_in_words(url: &JwksUrl) -> Vec<String> {
    let mut words = vec![format!(
        "tokens are verified with keys from {}, fetched every {}; without a newer answer they are \
         used for {}",
        url.shown(),
        url.refresh,
        url.max_stale
    )];
    if !url.at.tls {
        words.push(format!(
            "the keys come without TLS: whoever can change what {} answers can make tokens",
            url.at.host
        ));
    }
    words
}
