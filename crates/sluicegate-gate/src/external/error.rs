//! The errors of a call, and which of them speak against the service.

use std::fmt;

use super::grpc_codec::MessageCodec;
use crate::http_client::ResponseError;

/// A call without a usable reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallError {
    /// No connection, or one that broke; with the cause.
    Unreachable(String),
    /// No complete reply before the deadline.
    TimedOut,
    /// An HTTP response with another status than 200.
    Status(u16),
    /// A gRPC status other than `OK`.
    Grpc(tonic::Code),
    /// A reply of more than [`super::REPLY_MAX`] bytes.
    TooLong,
    /// A body with a content encoding, such as gzip.
    Encoded,
    /// A reply that cannot be used, and what is wrong with it.
    Malformed(&'static str),
    /// A reply over gRPC that is not in the codec of the call.
    Undecodable(&'static str),
    /// The service over gRPC understands the other codec only; this is the configured one.
    OtherCodec(MessageCodec),
    /// The task that made the call panicked: a mistake of ours.
    Panicked,
}

impl CallError {
    /// Returns true when the error is likely to meet every caller. A reply that is wrong for one
    /// caller shows that the service works, so it counts against that caller only.
    pub(super) fn is_service_failure(&self) -> bool {
        use tonic::Code;
        match self {
            Self::Unreachable(_) | Self::TimedOut | Self::OtherCodec(_) => true,
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
            Self::TooLong
            | Self::Encoded
            | Self::Malformed(_)
            | Self::Undecodable(_)
            | Self::Panicked => false,
        }
    }
}

impl From<ResponseError> for CallError {
    fn from(error: ResponseError) -> Self {
        match error {
            ResponseError::Unreachable(why) => Self::Unreachable(why),
            ResponseError::Status(status) => Self::Status(status),
            ResponseError::TooLong(_) => Self::TooLong,
            ResponseError::Encoded => Self::Encoded,
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "cannot be reached: {why}"),
            Self::TimedOut => f.write_str("no reply in time"),
            Self::Status(status) => write!(f, "replied with status {status}"),
            Self::Grpc(code) => write!(f, "replied with gRPC status {code:?}"),
            Self::TooLong => write!(f, "reply is longer than {} bytes", super::REPLY_MAX),
            Self::Encoded => f.write_str("reply has a content encoding, expected none"),
            Self::Malformed(what) | Self::Undecodable(what) => {
                write!(f, "reply is not usable: {what}")
            }
            Self::OtherCodec(configured) => write!(
                f,
                "understands {other} and was called in {configured}: \
                 write external.grpc.codec: {word}, or auto",
                other = configured.other(),
                word = configured.other().word(),
            ),
            Self::Panicked => f.write_str("the call panicked"),
        }
    }
}

impl std::error::Error for CallError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_codec_is_named_with_what_to_write() {
        assert_eq!(
            CallError::OtherCodec(MessageCodec::Protobuf).to_string(),
            "understands JSON and was called in protobuf: write external.grpc.codec: json, or auto"
        );
        assert_eq!(
            CallError::OtherCodec(MessageCodec::Json).to_string(),
            "understands protobuf and was called in JSON: \
             write external.grpc.codec: protobuf, or auto"
        );
    }
}
