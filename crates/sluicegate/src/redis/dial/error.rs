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
    pub(super) step: Step,
    pub(super) cause: Cause,
}

/// Whose matter a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Blame {
    /// The server is away or busy: try again.
    Away,
    /// Somebody has to change a setting, a password or a certificate. Trying again is right too: they may.
    Settings,
}

impl DialError {
    /// Whose matter it is.
    pub(in super::super) fn blame(&self) -> Blame {
        match &self.cause {
            Cause::TimedOut(_) => Blame::Away,
            Cause::Refused(refusal) => refusal.blame,
            Cause::Password(_) | Cause::ServerName => Blame::Settings,
            Cause::Io(error) if is_certificate_error(error) => Blame::Settings,
            Cause::Io(_) => Blame::Away,
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
            Cause::TimedOut(after) => write!(f, "no answer within {after:?}"),
            Cause::Refused(refusal) => f.write_str(&refusal.what),
            Cause::Password(error) => write!(f, "{error}"),
            Cause::ServerName => f.write_str(
                "the host is no name for a certificate (set store.redis.tls.server_name)",
            ),
            Cause::Io(error) => write!(f, "{error}"),
        }
    }
}

impl Error for DialError {}

/// Where an attempt stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Resolve,
    Connect,
    Tls,
    Auth,
    Select,
}

impl fmt::Display for Step {
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
pub(super) enum Cause {
    TimedOut(Duration),
    Io(io::Error),
    Refused(Refusal),
    Password(SecretError),
    ServerName,
}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A server's "no", in our words.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) blame: Blame,
    pub(super) what: String,
}
