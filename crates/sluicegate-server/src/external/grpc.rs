//! The service, asked by gRPC: `edgequota.ratelimit.v1.RateLimitService/GetLimits`.

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
use super::connector::{ServiceConnector, origin};
use super::error::CallError;
use super::lifetime::CacheLifetime;
use super::reply::{ServiceReply, ZeroFields};
use super::request::{LIMIT_HEADER, LimitsRequest};

const GET_LIMITS: &str = "/edgequota.ratelimit.v1.RateLimitService/GetLimits";
/// The flag and the length before a message.
const FRAME_HEAD: usize = 5;

pub(super) struct GrpcService {
    connector: ServiceConnector,
    connection: Mutex<SharedConnection>,
    origin: Uri,
    codec: GrpcCodec,
}

/// The connection that all calls share.
struct SharedConnection {
    client: Client<ServiceConnector, Body>,
    /// Calls in a row over it that were given up before anything came.
    unanswered: u32,
    /// Which connection it is: what is heard of an older one says nothing about this one.
    number: u64,
}

impl GrpcService {
    pub(super) fn new(
        at: &ServiceAddress,
        codec: GrpcCodec,
        timeout: Duration,
    ) -> Result<Self, String> {
        let origin = origin(at)
            .parse()
            .map_err(|_| "it cannot be asked for".to_owned())?;
        let connector = ServiceConnector::new(at, UpstreamHttp::Http2, timeout)?;
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

    /// The connection, or another one where nothing comes over it any more: it may be cut without anybody having said so.
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

    pub(super) async fn ask(
        &self,
        request: &LimitsRequest,
        default: Nanos,
        within: Duration,
    ) -> Result<(ServiceReply, CacheLifetime), CallError> {
        let content_type = HeaderValue::from_static(match self.codec {
            GrpcCodec::Protobuf => "application/grpc",
            GrpcCodec::Json => "application/grpc+json",
        });
        let (client, mut unanswered) = self.connection();
        let bounded = client
            .map_request(move |mut request: http::Request<Body>| {
                request
                    .headers_mut()
                    .insert(CONTENT_TYPE, content_type.clone());
                request
            })
            // However many messages there are, they have room for one.
            .map_response(|response: http::Response<Incoming>| {
                response.map(|body| Limited::new(body, REPLY_MAX + FRAME_HEAD))
            });
        let mut grpc =
            Grpc::with_origin(bounded, self.origin.clone()).max_decoding_message_size(REPLY_MAX);
        let mut message = tonic::Request::new(self.encode_request(request)?);
        message.set_timeout(within);
        if let Ok(limit) = MetadataValue::try_from(&request.limit) {
            message.metadata_mut().insert(LIMIT_HEADER, limit);
        }
        let response = grpc
            .unary(message, PathAndQuery::from_static(GET_LIMITS), RawCodec)
            .await;
        unanswered.is_answered = true;
        let response = response.map_err(call_error)?;
        let reply = self.decode_reply(response.into_inner())?;
        let lifetime = CacheLifetime::from_reply(None, &reply, default, SystemTime::UNIX_EPOCH);
        Ok((reply, lifetime))
    }

    fn encode_request(&self, request: &LimitsRequest) -> Result<Bytes, CallError> {
        match self.codec {
            GrpcCodec::Protobuf => Ok(GetLimitsRequest::from(request).encode_to_vec().into()),
            GrpcCodec::Json => {
                let text = serde_json::to_vec(request);
                text.map(Bytes::from)
                    .map_err(|_| CallError::Malformed("the question cannot be written"))
            }
        }
    }

    fn decode_reply(&self, message: Bytes) -> Result<ServiceReply, CallError> {
        match self.codec {
            GrpcCodec::Protobuf => GetLimitsResponse::decode(message)
                .map(ServiceReply::from)
                .map_err(|_| CallError::Malformed("it is no message")),
            GrpcCodec::Json => {
                ServiceReply::from_json(&message, ZeroFields::Omitted).map_err(CallError::Malformed)
            }
        }
    }
}

fn client(connector: &ServiceConnector) -> Client<ServiceConnector, Body> {
    const HEAD_MAX: u32 = 16 * 1024;
    connector.clone().client(|builder| {
        builder
            .http2_only(true)
            .http2_max_header_list_size(HEAD_MAX);
    })
}

/// A call under way; one that is given up is dropped with it.
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

/// What went wrong, as far as a status tells.
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

/// Messages as they are: what is in them is read elsewhere.
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
        }
    }
}
