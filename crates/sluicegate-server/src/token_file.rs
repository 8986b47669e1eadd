//! A bearer token in a file, for operators and for callers of the decision service.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A bearer token: the first line of a file. The file is read again for each request, so that
/// another token needs no restart.
#[derive(Clone)]
pub struct AdminToken {
    path: PathBuf,
}

impl AdminToken {
    /// A shorter token could be guessed.
    const CHARACTERS_MIN: usize = 16;
    /// The most bytes of the file; a longer one is no token.
    const BYTES_MAX: u64 = 4096;

    /// Checks that the file has a usable token.
    pub fn from_file(path: impl Into<PathBuf>) -> Result<Self, TokenError> {
        let token = Self { path: path.into() };
        token.read().map(|_| token)
    }

    /// Returns true when this is the token. The time it takes reveals neither how much of it is
    /// right nor its length. While the file cannot be read, every token is refused.
    pub fn admits(&self, shown: &[u8]) -> bool {
        match self.read() {
            Ok(token) => is_same(token.as_bytes(), shown),
            Err(error) => {
                tracing::error!(%error, "the admin API refuses every token, because its token file cannot be read");
                false
            }
        }
    }

    fn read(&self) -> Result<String, TokenError> {
        let unreadable =
            |error: std::io::Error| TokenError::Unreadable(self.path.clone(), error.to_string());
        let metadata = fs::metadata(&self.path).map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > Self::BYTES_MAX {
            return Err(TokenError::NoToken(self.path.clone()));
        }
        let text = fs::read(&self.path).map_err(unreadable)?;
        let text = String::from_utf8(text).map_err(|_| TokenError::NoToken(self.path.clone()))?;
        let token = text.lines().next().unwrap_or_default().trim();
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenError::NoToken(self.path.clone()));
        }
        if token.len() < Self::CHARACTERS_MIN {
            return Err(TokenError::TooShort(self.path.clone()));
        }
        Ok(token.to_owned())
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Hashes have one length, so the length of the token does not show either.
fn is_same(token: &[u8], shown: &[u8]) -> bool {
    let [token, shown]: [[u8; 32]; 2] = [token, shown].map(|text| Sha256::digest(text).into());
    token.ct_eq(&shown).into()
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminToken(*** of {})", self.path.display())
    }
}

/// A token that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The file is missing or closed to us.
    Unreadable(PathBuf, String),
    /// It holds something else than one word of plain characters.
    NoToken(PathBuf),
    /// It could be guessed.
    TooShort(PathBuf),
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(path, why) => write!(f, "cannot read {}: {why}", path.display()),
            Self::NoToken(path) => write!(
                f,
                "{}: the first line must be a word of plain characters",
                path.display()
            ),
            Self::TooShort(path) => write!(f, "{}: must be at least 16 characters", path.display()),
        }
    }
}

impl Error for TokenError {}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "0123456789abcdef";

    fn file(content: impl AsRef<[u8]>) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        fs::write(&path, content).unwrap();
        (directory, path)
    }

    #[test]
    fn only_the_whole_token_is_admitted() {
        let (_directory, path) = file(format!("{GOOD}\n"));
        let token = AdminToken::from_file(&path).unwrap();
        assert!(token.admits(GOOD.as_bytes()));
        for wrong in [
            "",
            "0",
            "0123456789abcdeF",
            "0123456789abcde",
            "0123456789abcdef0",
            "\n",
        ] {
            assert!(!token.admits(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn another_token_is_in_force_as_soon_as_it_is_written_and_none_without_the_file() {
        let (_directory, path) = file(GOOD);
        let token = AdminToken::from_file(&path).unwrap();
        fs::write(&path, "fedcba9876543210").unwrap();
        assert!(token.admits(b"fedcba9876543210") && !token.admits(GOOD.as_bytes()));
        fs::remove_file(&path).unwrap();
        assert!(!token.admits(b"fedcba9876543210") && !token.admits(b""));
        fs::write(&path, "").unwrap();
        assert!(!token.admits(b""));
    }

    #[test]
    fn a_file_that_holds_no_token_is_refused_with_its_place() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "must be at least 16"),
            (b"short\n", "must be at least 16"),
            (b"\n0123456789abcdef", "must be at least 16"),
            (b"two words of a token", "must be a word"),
            (b"0123456789abcdef\xff", "must be a word"),
            (&[b'a'; 5000], "must be a word"),
        ];
        for (content, expected) in cases {
            let (_directory, path) = file(content);
            let error = AdminToken::from_file(&path).unwrap_err().to_string();
            assert!(
                error.starts_with(&path.display().to_string()) && error.contains(expected),
                "{error}"
            );
        }
        let error = AdminToken::from_file("/no/such/file")
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot read /no/such/file: "), "{error}");
    }

    #[test]
    fn the_token_is_not_printed() {
        let (_directory, path) = file(GOOD);
        assert!(!format!("{:?}", AdminToken::from_file(&path).unwrap()).contains(GOOD));
    }
}
