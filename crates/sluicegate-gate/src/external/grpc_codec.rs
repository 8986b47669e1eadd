//! The two codecs of the service over gRPC: the same messages as protocol buffers and as JSON.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use prost::Message;

use super::error::CallError;
use super::reply::{ServiceReply, ZeroFields};
use super::request::LimitsRequest;

/// An encoding of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageCodec {
    Protobuf,
    Json,
}

impl MessageCodec {
    /// The codec that this one is not.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Protobuf => Self::Json,
            Self::Json => Self::Protobuf,
        }
    }

    /// The word for it in the configuration.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Protobuf => "protobuf",
            Self::Json => "json",
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/grpc",
            Self::Json => "application/grpc+json",
        }
    }

    /// The codec that a content type names. `application/grpc` alone names none: servers write it
    /// whatever they speak.
    pub(super) fn of_content_type(text: &[u8]) -> Option<Self> {
        let named = [
            (&b"application/grpc+proto"[..], Self::Protobuf),
            (b"application/grpc+json", Self::Json),
        ];
        let text = text.split(|byte| *byte == b';').next()?.trim_ascii();
        let (_, codec) = named
            .into_iter()
            .find(|(name, _)| text.eq_ignore_ascii_case(name))?;
        Some(codec)
    }

    pub(super) fn encode(self, request: &LimitsRequest) -> Result<Bytes, CallError> {
        match self {
            Self::Protobuf => Ok(GetLimitsRequest::from(request).encode_to_vec().into()),
            Self::Json => {
                let text = serde_json::to_vec(request);
                text.map(Bytes::from)
                    .map_err(|_| CallError::Malformed("the request cannot be encoded"))
            }
        }
    }

    pub(super) fn decode(self, message: Bytes) -> Result<ServiceReply, CallError> {
        match self {
            Self::Protobuf => GetLimitsResponse::decode(message)
                .map(ServiceReply::from)
                .map_err(|_| CallError::Undecodable("it is not a GetLimitsResponse")),
            Self::Json if message.trim_ascii_start().first() == Some(&b'{') => {
                ServiceReply::from_json(&message, ZeroFields::Omitted).map_err(CallError::Malformed)
            }
            Self::Json => Err(CallError::Undecodable("it is not a JSON object")),
        }
    }
}

impl fmt::Display for MessageCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Protobuf => "protobuf",
            Self::Json => "JSON",
        })
    }
}

/// The request message; its tags are those of the published `.proto` file.
#[derive(Clone, PartialEq, Message)]
struct GetLimitsRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(map = "string, string", tag = "2")]
    headers: HashMap<String, String>,
    #[prost(string, tag = "3")]
    method: String,
    #[prost(string, tag = "4")]
    path: String,
    #[prost(string, repeated, tag = "5")]
    key_parts: Vec<String>,
}

impl From<&LimitsRequest> for GetLimitsRequest {
    fn from(request: &LimitsRequest) -> Self {
        let headers = request
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        Self {
            key: request.key.clone(),
            headers: headers.collect(),
            method: request.method.clone(),
            path: request.path.clone(),
            key_parts: request.key_parts.clone(),
        }
    }
}

/// The response message; see [`ServiceReply`] for the meaning of its fields.
#[derive(Clone, PartialEq, Message)]
struct GetLimitsResponse {
    #[prost(int64, tag = "1")]
    average: i64,
    #[prost(int64, tag = "2")]
    burst: i64,
    #[prost(string, tag = "3")]
    period: String,
    #[prost(int64, optional, tag = "4")]
    cache_max_age_seconds: Option<i64>,
    #[prost(bool, tag = "5")]
    cache_no_store: bool,
    #[prost(string, tag = "6")]
    tenant_key: String,
    #[prost(int32, tag = "7")]
    failure_policy: i32,
    #[prost(int32, tag = "8")]
    failure_code: i32,
    #[prost(string, tag = "9")]
    backend_url: String,
    #[prost(string, optional, tag = "10")]
    request_timeout: Option<String>,
    #[prost(int32, tag = "11")]
    backend_protocol: i32,
}

impl From<GetLimitsResponse> for ServiceReply {
    fn from(message: GetLimitsResponse) -> Self {
        Self {
            average: message.average,
            burst: message.burst,
            period: message.period,
            tenant_key: message.tenant_key,
            failure_policy: message.failure_policy,
            failure_code: message.failure_code,
            backend_url: message.backend_url,
            backend_protocol: message.backend_protocol,
            request_timeout: message.request_timeout.unwrap_or_default(),
            max_age: message.cache_max_age_seconds,
            no_store: message.cache_no_store,
            unreadable: Vec::new(),
        }
    }
}
