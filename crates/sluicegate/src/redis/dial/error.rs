//! Why there is no connection, and whose matter that is.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use super::super::endpoint::Endpoint;
use super::super::secret::SecretError;

/// An attempt that failed. It holds nothing of the password, nor of what a server said about it.
#[derive(Debug)]
pub(in super::super) struct DialError {
    pub(super) endpoint: Endpoint,
    pub(super) step: DialStep,
    pub(super) cause: DialCause,
}

/// Whose matter a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum FailureClass {
    /// The server is away or busy: try again.
    Unavailable,
    /// Somebody has to change a setting, a password or a certificate. Trying again is right too: they may.
    Configuration,
}

impl DialError {
    /// Whose matter it is.
    pub(in super::super) fn blame(&self) -> FailureClass {
        match &self.cause {
            DialCause::TimedOut(_) => FailureClass::Unavailable,
            DialCause::Refused(refusal) => refusal.blame,
            DialCause::Password(_) | DialCause::ServerName => FailureClass::Configuration,
            DialCause::Io(error) if is_certificate_error(error) => FailureClass::Configuration,
            DialCause::Io(_) => FailureClass::Unavailable,
        }
    }
}

fn is_certificate_error(error: &io::Error) -> bool {
    use rustls::AlertDescription as Alert;
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        Some(rustls::Error::InvalidCertificate(_)) => true,
        Some(rustls::Error::AlertReceived(alert)) => matches!(
            alert,
            Alert::BadCertificate
                | Alert::CertificateRequired
                | Alert::CertificateUnknown
                | Alert::CertificateExpired
                | Alert::HandshakeFailure
                | Alert::UnknownCA
                | Alert::UnsupportedCertificate
        ),
        _ => false,
    }
}

impl fmt::Display for DialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            endpoint,
            step,
            cause,
        } = self;
        write!(f, "{endpoint}: {step}: ")?;
        match cause {
            DialCause::TimedOut(after) => write!(f, "no answer within {after:?}"),
            DialCause::Refused(refusal) => f.write_str(&refusal.what),
            DialCause::Password(error) => write!(f, "{error}"),
            DialCause::ServerName => f.write_str(
                "the host is no name for a certificate (set store.redis.tls.server_name)",
            ),
            DialCause::Io(error) => write!(f, "{error}"),
        }
    }
}

impl Error for DialError {}

/// Where an attempt stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DialStep {
    Resolve,
    Connect,
    Tls,
    Auth,
    Select,
}

impl fmt::Display for DialStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resolve => "cannot resolve the name",
            Self::Connect => "cannot connect",
            Self::Tls => "cannot agree on TLS",
            Self::Auth => "cannot authenticate",
            Self::Select => "cannot select the database",
        })
    }
}

/// Why it stopped there.
#[derive(Debug)]
pub(super) enum DialCause {
    TimedOut(Duration),
    Io(io::Error),
    Refused(ServerRefusal),
    Password(SecretError),
    ServerName,
}

impl From<io::Error> for DialCause {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A server's "no", in our words.
#[derive(Debug)]
pub(super) struct ServerRefusal {
    pub(super) blame: FailureClass,
    pub(super) what: String,
}
