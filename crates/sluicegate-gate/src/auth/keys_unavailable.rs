//! A token that cannot be verified, because the keys of its issuer are missing.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The answer to a request whose token cannot be verified: 503, and when to come back. It is no
/// 401, because the token may be good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeysUnavailable {
    gap: KeysGap,
    retry_after_secs: u64,
}

/// Why tokens cannot be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeysGap {
    /// No fetch has succeeded since the start.
    NotLoaded,
    /// The last good fetch is longer ago than `jwks.max_stale`.
    TooOld,
    /// Too many requests wait for a fetch already.
    Busy,
}

impl KeysUnavailable {
    /// `wait` is the time until the next fetch; the answer says a second at least.
    pub(super) fn new(gap: KeysGap, wait: Duration) -> Self {
        let whole = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        Self {
            gap,
            retry_after_secs: whole.max(1),
        }
    }

    /// The value of `Retry-After`.
    pub fn retry_after_secs(&self) -> u64 {
        self.retry_after_secs
    }
}

impl KeysGap {
    /// The reason in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotLoaded => "keys not yet loaded",
            Self::TooOld => "keys too old",
            Self::Busy => "too many requests wait for keys",
        }
    }
}

impl fmt::Display for KeysUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.gap.as_str())
    }
}

impl Error for KeysUnavailable {}
