//! Replies of the limits service from bytes, for the targets in `fuzz/`.

use bytes::Bytes;
use sluicegate_core::Nanos;

use super::backend::BackendPolicy;
use super::grpc_codec::MessageCodec;
use super::limits::ExternalLimits;
use super::redis_cache::{self, RedisKeys};
use super::reply::{ServiceReply, ZeroFields};

/// The format of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFormat {
    /// JSON over HTTP.
    PlainJson,
    /// JSON over gRPC.
    GrpcJson,
    /// Protocol buffers over gRPC.
    Protobuf,
    /// A value in Redis, which belongs to the limit `l` and the key `k`.
    Redis,
}

/// The limits in a reply; `None` when it is not one.
pub fn check_reply(
    format: ReplyFormat,
    bytes: &[u8],
    backends: &BackendPolicy,
) -> Option<ExternalLimits> {
    reply(format, bytes)?
        .check(backends)
        .ok()
        .map(|checked| checked.limits)
}

/// The same after the reply was written to Redis and read again.
pub fn stored_and_read(
    format: ReplyFormat,
    bytes: &[u8],
    backends: &BackendPolicy,
) -> Option<ExternalLimits> {
    let value = redis_cache::encode(&keys(), &reply(format, bytes)?, Nanos::MINUTE)?;
    check_reply(ReplyFormat::Redis, &value, backends)
}

fn reply(format: ReplyFormat, bytes: &[u8]) -> Option<ServiceReply> {
    let message = || Bytes::copy_from_slice(bytes);
    match format {
        ReplyFormat::PlainJson => ServiceReply::from_json(bytes, ZeroFields::Written).ok(),
        ReplyFormat::GrpcJson => MessageCodec::Json.decode(message()).ok(),
        ReplyFormat::Protobuf => MessageCodec::Protobuf.decode(message()).ok(),
        ReplyFormat::Redis => redis_cache::decode(&keys(), bytes).map(|(reply, _)| reply),
    }
}

fn keys() -> RedisKeys {
    RedisKeys::new("p", "l", "k")
}
