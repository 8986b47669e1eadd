//! The service over gRPC: `edgequota.ratelimit.v1.RateLimitService/GetLimits`.
//!
//! All calls share one HTTP/2 connection. A network that drops packets silently would make each of
//! them wait for its full timeout, as TCP gives up only after minutes; so after a few calls in a
//! row without any response the connection is replaced.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut, Bytes};
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderValue, Uri};
use http_body_util::Limited;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use prost::Message;
use sluicegate_config::{GrpcCodec, ServiceAddress, UpstreamHttp};
use sluicegate_core::Nanos;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tower::ServiceExt;

use super::REPLY_MAX;
use super::error::CallError;
use super::lifetime::CacheLifetime;
use super::reply::{ServiceReply, ZeroFields};
use super::request::{LIMIT_HEADER, LimitsRequest};
use crate::http_client::{ServiceConnector, origin};

const GET_LIMITS: &str = "/edgequota.ratelimit.v1.RateLimitService/GetLimits";
/// The bytes before each gRPC message: a flag and a length.
const FRAME_HEAD: usize = 5;

/// A client of a service that is called over gRPC.
pub(super) struct GrpcService {
    connector: ServiceConnector,
    connection: Mutex<SharedConnection>,
    /// Scheme and authority of every call.
    origin: Uri,
    /// How messages are encoded.
    codec: GrpcCodec,
}

/// The connection that all calls share, and how it is doing.
struct SharedConnection {
    client: Client<ServiceConnector, Body>,
    /// Calls in a row that ended without a response, good or bad.
    unanswered: u32,
    /// Counts connections, so that a late result of a replaced one is not held against this one.
    number: u64,
}

impl GrpcService {
    pub(super) fn new(
        address: &ServiceAddress,
        codec: GrpcCodec,
        timeout: Duration,
    ) -> Result<Self, String> {
        let origin = origin(address)
            .parse()
            .map_err(|_| "url: not a valid address".to_owned())?;
        let connector = ServiceConnector::new(address, UpstreamHttp::Http2, timeout)?;
        let connection = Mutex::new(SharedConnection {
            client: client(&connector),
            unanswered: 0,
            number: 0,
        });
        Ok(Self {
            connector,
            connection,
            origin,
            codec,
        })
    }

    /// The shared connection, replaced first if its last calls got no response, and a guard that
    /// records how this call ends.
    fn connection(&self) -> (Client<ServiceConnector, Body>, CallGuard<'_>) {
        const UNANSWERED_MAX: u32 = 3;
        let mut connection = self
            .connection
            .lock()
            .expect("no holder of this lock panics");
        if connection.unanswered >= UNANSWERED_MAX {
            *connection = SharedConnection {
                client: client(&self.connector),
                unanswered: 0,
                number: connection.number + 1,
            };
        }
        (
            connection.client.clone(),
            CallGuard {
                service: self,
                number: connection.number,
                is_answered: false,
            },
        )
    }

    /// Records whether a call over connection `number` got a response.
    fn record_result(&self, number: u64, is_answered: bool) {
        let mut connection = self
            .connection
            .lock()
            .expect("no holder of this lock panics");
        if connection.number == number {
            connection.unanswered = if is_answered {
                0
            } else {
                connection.unanswered + 1
            };
        }
    }

    /// Makes one call. The deadline is kept by the caller of this function, which drops the future.
    pub(super) async fn call(
        &self,
        request: &LimitsRequest,
        default_ttl: Nanos,
        time_left: Duration,
    ) -> Result<(ServiceReply, CacheLifetime), CallError> {
        let content_type = HeaderValue::from_static(match self.codec {
            GrpcCodec::Protobuf => "application/grpc",
            GrpcCodec::Json => "application/grpc+json",
        });
        let (client, mut guard) = self.connection();
        let bounded = client
            .map_request(move |mut request: http::Request<Body>| {
                request
                    .headers_mut()
                    .insert(CONTENT_TYPE, content_type.clone());
                request
            })
            // Bounds the whole body: a stream of small messages is no way around `REPLY_MAX`.
            .map_response(|response: http::Response<Incoming>| {
                response.map(|body| Limited::new(body, REPLY_MAX + FRAME_HEAD))
            });
        let mut grpc =
            Grpc::with_origin(bounded, self.origin.clone()).max_decoding_message_size(REPLY_MAX);
        let mut message = tonic::Request::new(self.encode_request(request)?);
        message.set_timeout(time_left);
        if let Ok(limit) = MetadataValue::try_from(&request.limit) {
            message.metadata_mut().insert(LIMIT_HEADER, limit);
        }
        let response = grpc
            .unary(message, PathAndQuery::from_static(GET_LIMITS), RawCodec)
            .await;
        guard.is_answered = true;
        let response = response.map_err(call_error)?;
        let reply = self.decode_reply(response.into_inner())?;
        // gRPC has no cache headers, so the time of day is not needed.
        let lifetime = CacheLifetime::from_reply(None, &reply, default_ttl, SystemTime::UNIX_EPOCH);
        Ok((reply, lifetime))
    }

    fn encode_request(&self, request: &LimitsRequest) -> Result<Bytes, CallError> {
        match self.codec {
            GrpcCodec::Protobuf => Ok(GetLimitsRequest::from(request).encode_to_vec().into()),
            GrpcCodec::Json => {
                let text = serde_json::to_vec(request);
                text.map(Bytes::from)
                    .map_err(|_| CallError::Malformed("the request cannot be encoded"))
            }
        }
    }

    fn decode_reply(&self, message: Bytes) -> Result<ServiceReply, CallError> {
        match self.codec {
            GrpcCodec::Protobuf => GetLimitsResponse::decode(message)
                .map(ServiceReply::from)
                .map_err(|_| CallError::Malformed("it is not a GetLimitsResponse")),
            GrpcCodec::Json => {
                ServiceReply::from_json(&message, ZeroFields::Omitted).map_err(CallError::Malformed)
            }
        }
    }
}

/// A client with a connection of its own, made at its first call.
fn client(connector: &ServiceConnector) -> Client<ServiceConnector, Body> {
    /// The largest response header in bytes.
    const HEAD_MAX: u32 = 16 * 1024;
    connector.clone().client(|builder| {
        builder
            .http2_only(true)
            .http2_max_header_list_size(HEAD_MAX);
    })
}

/// A call that runs. Dropped with the call, also when that is aborted at its deadline; then
/// `is_answered` is still false.
struct CallGuard<'a> {
    service: &'a GrpcService,
    number: u64,
    is_answered: bool,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.service.record_result(self.number, self.is_answered);
    }
}

/// The error behind a gRPC status. Statuses that tonic makes itself carry their cause: a connection
/// that failed, or a body over the limit.
fn call_error(status: Status) -> CallError {
    let is_too_long = |error: &(dyn std::error::Error + 'static)| {
        let mut next = Some(error);
        while let Some(error) = next {
            if error.is::<http_body_util::LengthLimitError>() {
                return true;
            }
            next = error.source();
        }
        false
    };
    match (status.code(), std::error::Error::source(&status)) {
        (Code::OutOfRange, _) => CallError::TooLong,
        (_, Some(source)) if is_too_long(source) => CallError::TooLong,
        (Code::Unknown | Code::Unavailable | Code::Internal, Some(source)) => {
            super::http::unreachable(source)
        }
        (code, _) => CallError::Grpc(code),
    }
}

/// Passes messages through as bytes; [`GrpcService`] encodes and decodes them itself, because the
/// codec is chosen by the configuration.
struct RawCodec;

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, room: &mut EncodeBuf<'_>) -> Result<(), Status> {
        room.put(message);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, room: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = room.remaining();
        Ok(Some(room.copy_to_bytes(length)))
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
