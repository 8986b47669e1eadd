//! Finds out which codec the service speaks over gRPC.
//!
//! No server says which codecs it speaks, and many answer a message that they cannot decode with a
//! status that has other causes too. So the other codec is tried: when an answer looks as if the
//! message was not understood, and only once for each connection, because a service with an error
//! of another kind must not be called twice each time.

use std::sync::Mutex;

use sluicegate_config::GrpcCodec;
use tonic::Code;

use super::error::CallError;
use super::grpc_codec::MessageCodec;

/// The codec of the next call, and what was found out so far.
pub(super) struct CodecChoice {
    configured: GrpcCodec,
    finding: Mutex<Finding>,
}

/// What is known about the service.
#[derive(Clone, Copy, Debug)]
struct Finding {
    /// The codec that it understood last; without any, the first to try.
    spoken: MessageCodec,
    /// The connection on which that was seen, or on which neither codec was understood.
    connection: Option<u64>,
}

/// What follows an answer to a message that was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterMisunderstanding {
    /// The other codec is tried.
    TryOther,
    /// The other codec is spoken, and the configuration forbids it.
    OtherIsSpoken,
    /// The answer has another reason.
    Nothing,
}

impl CodecChoice {
    pub(super) fn new(configured: GrpcCodec) -> Self {
        let spoken = match configured {
            GrpcCodec::Auto | GrpcCodec::Protobuf => MessageCodec::Protobuf,
            GrpcCodec::Json => MessageCodec::Json,
        };
        Self {
            configured,
            finding: Mutex::new(Finding {
                spoken,
                connection: None,
            }),
        }
    }

    /// The codec of the next call.
    pub(super) fn codec(&self) -> MessageCodec {
        match self.configured {
            GrpcCodec::Auto => self.finding().spoken,
            GrpcCodec::Protobuf => MessageCodec::Protobuf,
            GrpcCodec::Json => MessageCodec::Json,
        }
    }

    /// True when replies in either codec may be used.
    pub(super) fn is_free(&self) -> bool {
        self.configured == GrpcCodec::Auto
    }

    /// Records that `spoken` was understood on a connection, or that nothing else was.
    pub(super) fn settle(&self, spoken: MessageCodec, connection: u64) {
        let mut finding = self.finding.lock().expect("no holder of this lock panics");
        *finding = Finding {
            spoken,
            connection: Some(connection),
        };
    }

    /// What to do after a message in `codec` was not understood on a connection.
    pub(super) fn after_misunderstanding(
        &self,
        codec: MessageCodec,
        connection: u64,
    ) -> AfterMisunderstanding {
        let finding = self.finding();
        match finding.connection == Some(connection) {
            false => AfterMisunderstanding::TryOther,
            true if finding.spoken == codec => AfterMisunderstanding::Nothing,
            // Another call has found out meanwhile.
            true if self.is_free() => AfterMisunderstanding::TryOther,
            true => AfterMisunderstanding::OtherIsSpoken,
        }
    }

    fn finding(&self) -> Finding {
        *self.finding.lock().expect("no holder of this lock panics")
    }
}

/// What an answer tells about the codec of its question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Understanding {
    /// The service has read the message.
    Understood,
    /// The service may not have understood the message.
    Misunderstood,
    /// The answer tells nothing, or there is none.
    Unknown,
}

impl Understanding {
    pub(super) fn of<T>(called: &Result<T, CallError>) -> Self {
        match called {
            // A service that knows which caller it does not know has read the message.
            Ok(_) | Err(CallError::Grpc(Code::NotFound)) => Self::Understood,
            Err(
                CallError::Grpc(
                    Code::Internal | Code::Unknown | Code::InvalidArgument | Code::Unimplemented,
                )
                | CallError::Status(415)
                | CallError::Undecodable(_),
            ) => Self::Misunderstood,
            Err(_) => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AfterMisunderstanding::{Nothing, OtherIsSpoken, TryOther};
    use super::MessageCodec::{Json, Protobuf};
    use super::*;

    #[test]
    fn what_was_understood_is_spoken_next_and_the_other_is_tried_once_for_each_connection() {
        let choice = CodecChoice::new(GrpcCodec::Auto);
        assert_eq!(choice.codec(), Protobuf);
        assert_eq!(choice.after_misunderstanding(Protobuf, 1), TryOther);
        choice.settle(Json, 1);
        assert_eq!(choice.codec(), Json);
        assert_eq!(choice.after_misunderstanding(Json, 1), Nothing);
        assert_eq!(
            choice.after_misunderstanding(Protobuf, 1),
            TryOther,
            "a call that began before"
        );
        assert_eq!(choice.after_misunderstanding(Json, 2), TryOther);
        choice.settle(Json, 2);
        assert_eq!(choice.after_misunderstanding(Json, 2), Nothing);
    }

    #[test]
    fn a_configured_codec_is_spoken_whatever_was_found() {
        for (configured, codec) in [(GrpcCodec::Protobuf, Protobuf), (GrpcCodec::Json, Json)] {
            let choice = CodecChoice::new(configured);
            assert_eq!(choice.after_misunderstanding(codec, 1), TryOther);
            choice.settle(codec.other(), 1);
            assert_eq!(choice.codec(), codec);
            assert_eq!(choice.after_misunderstanding(codec, 1), OtherIsSpoken);
            assert_eq!(choice.after_misunderstanding(codec, 2), TryOther);
        }
    }

    #[test]
    fn answers_that_have_other_causes_are_no_misunderstanding() {
        for code in [
            Code::Unavailable,
            Code::DeadlineExceeded,
            Code::PermissionDenied,
        ] {
            let answer = Err::<(), _>(CallError::Grpc(code));
            assert_eq!(
                Understanding::of(&answer),
                Understanding::Unknown,
                "{code:?}"
            );
        }
        let silent = Err::<(), _>(CallError::Unreachable("gone".to_owned()));
        assert_eq!(Understanding::of(&silent), Understanding::Unknown);
        let wrong = Err::<(), _>(CallError::Malformed("average is not a whole number"));
        assert_eq!(Understanding::of(&wrong), Understanding::Unknown);
    }
}
