//! A request that is refused with 401: the reason for us, and the text for the caller.

use std::error::Error;
use std::fmt;

use http::header::HeaderValue;

// Defined with the other labels: the metrics count failures without knowing this module.
pub use crate::telemetry::metrics::AuthFailure;

/// A refusal for lack of a valid credential.
///
/// Its `Display` text is for the caller and helps nobody to guess: an unknown key and a bad
/// signature read the same. Only a wrong time is named, because an honest caller can do something
/// about it.
#[derive(Clone, Debug)]
pub struct Unauthorized {
    /// The exact reason, for metrics and logs and never for the caller.
    pub reason: AuthFailure,
    /// The value of `WWW-Authenticate`.
    challenge: HeaderValue,
}

impl Unauthorized {
    pub(super) fn new(reason: AuthFailure, challenge: HeaderValue) -> Self {
        Self { reason, challenge }
    }

    /// The value of `WWW-Authenticate`: the credentials that are accepted.
    pub fn challenge(&self) -> HeaderValue {
        self.challenge.clone()
    }
}

impl fmt::Display for Unauthorized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.reason {
            AuthFailure::Missing => "a credential is required",
            AuthFailure::Expired => "the token has expired",
            AuthFailure::NotYet => "the token is not valid yet",
            AuthFailure::Scheme => "the scheme of the credential is not accepted",
            _ => "the credential is not valid",
        })
    }
}

impl Error for Unauthorized {}
