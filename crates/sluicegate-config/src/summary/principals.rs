//! Credentials in sentences: where the keys of tokens come from.

use crate::typed::{Jwt, Principals};

/// The URL of the keys, and what depends on it.
pub(super) fn in_words(principals: &Principals) -> Vec<String> {
    let Some(url) = principals.jwt.as_ref().and_then(Jwt::jwks_url) else {
        return Vec::new();
    };
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
