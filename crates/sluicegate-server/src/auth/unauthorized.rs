//! Why a credential was not accepted, and what its owner is told.

use std::error::Error;
use std::fmt;

use http::header::HeaderValue;

use crate::telemetry::metrics::Label;

/// A request that does not pass for lack of a good credential.
///
/// Its text is for the caller and helps nobody to guess: only times are named, because a caller can do something about them.
#[derive(Clone, Debug)]
pub struct Unauthorized {
    /// For metrics and logs.
    pub reason: AuthFailure,
    challenge: HeaderValue,
}

impl Unauthorized {
    pub(super) fn new(reason: AuthFailure, challenge: HeaderValue) -> Self {
        Self { reason, challenge }
    }

    /// The value of `WWW-Authenticate`: which credentials are taken.
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
            _ => "the credential is not valid",
        })
    }
}

impl Error for Unauthorized {}

/// Why a credential was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AuthFailure {
    /// None was shown, and one is required.
    Missing,
    /// No such API key.
    UnknownKey,
    /// It cannot be read: empty, too long, odd bytes, no token, a claim missing or of the wrong type.
    Malformed,
    /// The signature is not by the key.
    BadSignature,
    /// The token's time is over.
    Expired,
    /// The token's time has not come.
    NotYet,
    /// Issued by somebody else.
    Issuer,
    /// Meant for somebody else.
    Audience,
    /// Signed in a way that is not accepted, or that does not fit the key.
    Algorithm,
    /// By a key that is not in the set, or by none of several.
    KeyId,
    /// The header is there more than once.
    Repeated,
}

impl AuthFailure {
    /// Every reason.
    pub const ALL: [Self; 11] = [
        Self::Missing,
        Self::UnknownKey,
        Self::Malformed,
        Self::BadSignature,
        Self::Expired,
        Self::NotYet,
        Self::Issuer,
        Self::Audience,
        Self::Algorithm,
        Self::KeyId,
        Self::Repeated,
    ];

    /// As a label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::UnknownKey => "unknown_key",
            Self::Malformed => "malformed",
            Self::BadSignature => "bad_signature",
            Self::Expired => "expired",
            Self::NotYet => "not_yet",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Algorithm => "algorithm",
            Self::KeyId => "key_id",
            Self::Repeated => "repeated",
        }
    }
}

impl Label for AuthFailure {
    const NAME: &'static str = "reason";
    const ALL: &'static [Self] = &Self::ALL;

    fn as_str(self) -> &'static str {
        self.as_str()
    }

    fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for AuthFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
