//! Passwords, and how they stay out of everything that is written.
//!
//! **Invariant:** no `Debug` or `Display` of a type that holds a password shows it, nor the user,
//! which a mistyped URL makes half of the password.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// A password, given as text, in a file or in an environment variable.
///
/// Nothing prints it: `Debug` shows asterisks, and errors name the file or variable only.
///
/// ```
/// use sluicegate::Secret;
///
/// let secret = Secret::new("hunter2");
/// assert_eq!(format!("{secret:?}"), "Secret(***)");
///
/// let error = Secret::from_file("/no/such/file").unwrap_err();
/// assert!(error.to_string().starts_with("cannot read /no/such/file: "));
/// ```
#[derive(Clone)]
pub struct Secret(SecretSource);

/// Where the password comes from.
#[derive(Clone)]
enum SecretSource {
    Given(String),
    File(PathBuf),
}

impl Secret {
    /// A password as text.
    pub fn new(password: impl Into<String>) -> Self {
        Self(SecretSource::Given(password.into()))
    }

    /// A password in a file, without the line end at its end. The file is read now, so that a
    /// mistake shows early, and again for each new connection, so that a rotated password needs no
    /// restart.
    pub fn from_file(path: impl Into<PathBuf>) -> Result<Self, SecretError> {
        let secret = Self(SecretSource::File(path.into()));
        secret.read().map(|_| secret)
    }

    /// A password in the environment variable `name`, read once: it does not change while we run.
    pub fn from_env(name: &str) -> Result<Self, SecretError> {
        match env::var(name) {
            Ok(password) if password.is_empty() => Err(SecretError::EmptyVariable(name.to_owned())),
            Ok(password) => Ok(Self::new(password)),
            Err(env::VarError::NotPresent) => Err(SecretError::NoVariable(name.to_owned())),
            Err(env::VarError::NotUnicode(_)) => Err(SecretError::VariableNotText(name.to_owned())),
        }
    }

    /// The password as it is now. A file is read on the spot: it is small and local.
    pub(super) fn read(&self) -> Result<String, SecretError> {
        let path = match &self.0 {
            SecretSource::Given(password) => return Ok(password.clone()),
            SecretSource::File(path) => path,
        };
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(SecretError::EmptyFile(path.clone())),
            password => Ok(password.to_owned()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.0, SecretSource::Given(password) if password.is_empty())
    }
}

fn unreadable(path: &Path, error: &io::Error) -> SecretError {
    SecretError::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    }
}

/// Shows the path of a file, which is no secret and helps to find a mistake.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SecretSource::Given(_) => f.write_str("Secret(***)"),
            SecretSource::File(path) => write!(f, "Secret(*** of {})", path.display()),
        }
    }
}

/// The reason why a password could not be read.
///
/// ```
/// use sluicegate::{Secret, SecretError};
///
/// let error = Secret::from_env("NO_SUCH_VARIABLE").unwrap_err();
/// assert_eq!(error, SecretError::NoVariable("NO_SUCH_VARIABLE".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretError {
    /// The file is missing, may not be read, or is no text.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: String,
    },
    /// The file is empty.
    EmptyFile(PathBuf),
    /// The environment variable is not set.
    NoVariable(String),
    /// The environment variable is empty.
    EmptyVariable(String),
    /// The environment variable is not UTF-8.
    VariableNotText(String),
}

impl fmt::Display for SecretError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "cannot read {}: {why}", path.display()),
            Self::EmptyFile(path) => write!(f, "{} is empty", path.display()),
            Self::NoVariable(name) => write!(f, "the environment variable {name} is not set"),
            Self::EmptyVariable(name) => write!(f, "the environment variable {name} is empty"),
            Self::VariableNotText(name) => {
                write!(f, "the environment variable {name} is not UTF-8")
            }
        }
    }
}

impl Error for SecretError {}

/// User and password at a server. The default logs in nowhere.
///
/// ```
/// use sluicegate::{Credentials, Secret};
///
/// let credentials = Credentials {
///     username: Some("sluicegate".into()),
///     password: Some(Secret::new("hunter2")),
/// };
/// assert!(!format!("{credentials:?}").contains("hunter2"));
/// ```
#[derive(Clone, Default)]
pub struct Credentials {
    /// The ACL user; `None` for the user `default`.
    pub username: Option<String>,
    /// The password; `None` when the server asks for none.
    pub password: Option<Secret>,
}

/// Shows neither user nor password: in `redis://a:b@host`, written for the password `a:b`, the user
/// is half of the password.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let username = self.username.as_ref().map(|_| format_args!("***"));
        f.debug_struct("Credentials")
            .field("username", &username)
            .field("password", &self.password)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_file_is_read_again_each_time_and_without_its_line_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        fs::write(&path, "first one\r\n").unwrap();
        let secret = Secret::from_file(&path).unwrap();
        assert_eq!(secret.read().unwrap(), "first one");
        fs::write(&path, " second\n").unwrap();
        assert_eq!(secret.read().unwrap(), " second");
        assert!(!format!("{secret:?}").contains("second"));
    }

    #[test]
    fn a_password_that_is_missing_or_empty_is_refused_with_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        let missing = Secret::from_file(&path).unwrap_err().to_string();
        assert!(
            missing.starts_with(&format!("cannot read {}: ", path.display())),
            "{missing}"
        );
        fs::write(&path, "\n").unwrap();
        assert_eq!(
            Secret::from_file(&path).unwrap_err().to_string(),
            format!("{} is empty", path.display())
        );
        let unset = Secret::from_env("SLUICEGATE_NO_SUCH_VARIABLE")
            .unwrap_err()
            .to_string();
        assert_eq!(
            unset,
            "the environment variable SLUICEGATE_NO_SUCH_VARIABLE is not set"
        );
        assert_eq!(
            Secret::from_env("CARGO_PKG_NAME").unwrap().read().unwrap(),
            "sluicegate"
        );
    }

    #[test]
    fn neither_user_nor_password_is_printed() {
        let credentials = Credentials {
            username: Some("half".into()),
            password: Some(Secret::new("other")),
        };
        assert_eq!(
            format!("{credentials:?}"),
            "Credentials { username: Some(***), password: Some(Secret(***)) }"
        );
    }
}
