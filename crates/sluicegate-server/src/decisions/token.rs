//! The token that callers of the decision service show.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::token_file::{AdminToken, TokenError};

/// The token in the first line of a file. A new one is in force within a second.
pub(crate) struct SharedToken {
    file: AdminToken,
    /// The last token that was admitted, and when it was compared with the file: so most decisions
    /// need not read the file.
    admitted: ArcSwapOption<AdmittedToken>,
}

/// A token that was compared with the file and admitted.
struct AdmittedToken {
    /// SHA-256 of the token, so that the secret itself is not kept.
    hash: [u8; 32],
    at: Instant,
}

impl SharedToken {
    /// The header for gateways, which pass on the `Authorization` of their clients.
    pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-sluicegate-token");
    /// The time for which a comparison with the file holds.
    const FRESH: Duration = Duration::from_secs(1);

    /// Reads the file to see that it can be used.
    pub(crate) fn from_file(path: impl Into<PathBuf>) -> Result<Self, TokenError> {
        Ok(Self {
            file: AdminToken::from_file(path)?,
            admitted: ArcSwapOption::empty(),
        })
    }

    /// Returns true when this is the token. The comparison takes constant time, so that it does not
    /// tell how much of a guess is right.
    pub(crate) fn admits(&self, shown: &[u8]) -> bool {
        let hash: [u8; 32] = Sha256::digest(shown).into();
        let is_same = |known: &AdmittedToken| {
            bool::from(known.hash.ct_eq(&hash)) && known.at.elapsed() < Self::FRESH
        };
        if self.admitted.load().as_deref().is_some_and(is_same) {
            return true;
        }
        let is_admitted = self.file.admits(shown);
        if is_admitted {
            self.admitted.store(Some(
                AdmittedToken {
                    hash,
                    at: Instant::now(),
                }
                .into(),
            ));
        }
        is_admitted
    }

    /// The token in [`Self::HEADER`], if that header occurs once.
    pub(crate) fn in_own_header(headers: &HeaderMap) -> Option<&[u8]> {
        only(headers, &Self::HEADER).map(<[u8]>::trim_ascii)
    }

    /// The token in [`Self::HEADER`], or else in `Authorization: Bearer`.
    pub(crate) fn in_either_header(headers: &HeaderMap) -> Option<&[u8]> {
        Self::in_own_header(headers).or_else(|| {
            let (scheme, token) =
                only(headers, &AUTHORIZATION)?.split_at_checked(b"Bearer ".len())?;
            scheme
                .eq_ignore_ascii_case(b"Bearer ")
                .then(|| token.trim_ascii())
        })
    }
}

/// The value of a header that occurs exactly once. Of two, nobody knows which one a proxy has set.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut lines = headers.get_all(name).iter();
    lines
        .next()
        .filter(|_| lines.next().is_none())
        .map(|line| line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] = b"0123456789abcdef";

    #[test]
    fn only_the_whole_token_is_admitted_also_after_the_right_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        std::fs::write(&path, GOOD).unwrap();
        let token = SharedToken::from_file(&path).unwrap();
        for _ in 0..2 {
            assert!(token.admits(GOOD));
            for wrong in [
                &b""[..],
                b"0123456789abcdeF",
                b"0123456789abcde",
                b"0123456789abcdef0",
            ] {
                assert!(!token.admits(wrong));
            }
        }
        std::fs::write(&path, "fedcba9876543210").unwrap();
        assert!(
            token.admits(b"fedcba9876543210"),
            "a new token need not wait"
        );
        assert!(
            !token.admits(GOOD),
            "what was admitted last is another one now"
        );
    }

    #[test]
    fn a_token_is_shown_once_and_in_one_place() {
        let headers = |lines: &[(&'static str, &'static str)]| -> HeaderMap {
            lines
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
                .collect()
        };
        let own = headers(&[("x-sluicegate-token", " a "), ("authorization", "Bearer b")]);
        assert_eq!(SharedToken::in_own_header(&own), Some(&b"a"[..]));
        assert_eq!(SharedToken::in_either_header(&own), Some(&b"a"[..]));
        let bearer = headers(&[("authorization", "bearer b")]);
        assert_eq!(
            SharedToken::in_own_header(&bearer),
            None,
            "that is the client's"
        );
        assert_eq!(SharedToken::in_either_header(&bearer), Some(&b"b"[..]));
        for none in [
            headers(&[]),
            headers(&[("authorization", "Basic b")]),
            headers(&[("authorization", "Bearer b"), ("authorization", "Bearer c")]),
            headers(&[("x-sluicegate-token", "b"), ("x-sluicegate-token", "c")]),
        ] {
            assert_eq!(SharedToken::in_either_header(&none), None);
        }
    }
}
