//! The error of a dial: at which step it stopped and why.
//!
//! The text goes to logs, health pages and responses, so it holds no password and nothing that a
//! server said about one.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use super::super::endpoint::Endpoint;
use super::super::secret::SecretError;

/// An attempt that failed. As text it names the place, the step and the reason.
#[derive(Debug)]
pub(in super::super) struct DialError {
    pub(super) endpoint: Endpoint,
    pub(super) step: DialStep,
    pub(super) cause: DialCause,
}

/// The class of a failure: what it needs to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum FailureClass {
    /// Nothing but time: the server is away or busy.
    Unavailable,
    /// A change of a setting, a password or a certificate. Dialling goes on, because the change may
    /// be made at the server.
    Configuration,
}

impl DialError {
    /// The class of the failure.
    pub(in super::super) fn class(&self) -> FailureClass {
        match &self.cause {
            DialCause::TimedOut(_) => FailureClass::Unavailable,
            DialCause::Refused(refusal) => refusal.class,
            DialCause::Password(_) | DialCause::ServerName => FailureClass::Configuration,
            DialCause::Io(error) if is_certificate_error(error) => FailureClass::Configuration,
            DialCause::Io(_) => FailureClass::Unavailable,
        }
    }
}

/// Returns true when TLS failed because of a certificate, ours or the server's.
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
            DialCause::Refused(refusal) => f.write_str(&refusal.text),
            DialCause::Password(error) => write!(f, "{error}"),
            DialCause::ServerName => f.write_str(
                "the host is not a valid name for a certificate (set store.redis.tls.server_name)",
            ),
            DialCause::Io(error) => write!(f, "{error}"),
        }
    }
}

impl Error for DialError {}

/// The steps of a dial, in their order.
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

/// The reason why a step failed.
#[derive(Debug)]
pub(super) enum DialCause {
    /// The time of the whole attempt was over.
    TimedOut(Duration),
    Io(io::Error),
    /// The server replied with an error.
    Refused(ServerRefusal),
    /// The password file could not be read.
    Password(SecretError),
    /// The host cannot be the name in a certificate.
    ServerName,
}

impl From<io::Error> for DialCause {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// An error reply of the server, in text of our own.
#[derive(Debug)]
pub(super) struct ServerRefusal {
    pub(super) class: FailureClass,
    pub(super) text: String,
}
