//! Why there is no answer.

use std::fmt;

/// A call that brought no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// No connection, or one that broke.
    Unreachable(String),
    /// Nothing, or not everything, came in time.
    TimedOut,
    /// An answer with another status than 200.
    Status(u16),
    /// An error of gRPC.
    Grpc(tonic::Code),
    /// More than [`super::REPLY_MAX`] bytes.
    TooLong,
    /// A body in another encoding than its own.
    Encoded,
    /// A reply that makes no sense: what is wrong with it.
    Malformed(&'static str),
    /// The call itself broke down.
    Panicked,
}

impl CallError {
    /// Whether it says something about the service as a whole, and not only about this caller.
    pub(super) fn is_service_failure(&self) -> bool {
        use tonic::Code;
        match self {
            Self::Unreachable(_) | Self::TimedOut => true,
            Self::Status(status) => *status >= 500 || *status == 429,
            Self::Grpc(code) => {
                matches!(
                    code,
                    Code::Unavailable
                        | Code::DeadlineExceeded
                        | Code::ResourceExhausted
                        | Code::Unimplemented
                )
            }
            Self::TooLong | Self::Encoded | Self::Malformed(_) | Self::Panicked => false,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "it cannot be reached: {why}"),
            Self::TimedOut => f.write_str("it did not answer in time"),
            Self::Status(status) => write!(f, "it answered with status {status}"),
            Self::Grpc(code) => write!(f, "it answered with {code:?}"),
            Self::TooLong => write!(f, "its answer is longer than {} bytes", super::REPLY_MAX),
            Self::Encoded => f.write_str("its answer has an encoding that was not asked for"),
            Self::Malformed(what) => write!(f, "its answer makes no sense: {what}"),
            Self::Panicked => f.write_str("the call broke down"),
        }
    }
}

impl std::error::Error for CallError {}
