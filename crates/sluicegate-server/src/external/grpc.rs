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
use super::answer::{Answer, Zeroes};
use super::ask::{Asked, LIMIT_HEADER};
use super::connect::{Connector, origin};
use super::error::CallError;
use super::lifetime::Lifetime;

const GET_LIMITS: &str = "/edgequota.ratelimit.v1.RateLimitService/GetLimits";
/// The flag and the length before a message.
const FRAME_HEAD: usize = 5;

pub(super) struct GrpcService {
    connector: Connector,
    line: Mutex<Line>,
    origin: Uri,
    codec: GrpcCodec,
}

/// The connection that all calls share.
struct Line {
    client: Client<Connector, Body>,
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
        let connector = Connector::new(at, UpstreamHttp::Http2, timeout)?;
        let line = Mutex::new(Line {
            client: client(&connector),
            unanswered: 0,
            number: 0,
        });
        Ok(Self {
            connector,
            line,
            origin,
            codec,
        })
    }

    /// The connection, or another one where nothing comes over it any more: it may be cut without anybody having said so.
    fn line(&self) -> (Client<Connector, Body>, Unanswered<'_>) {
        const UNANSWERED_MAX: u32 = 3;
        let mut line = self.line.lock().expect("no holder of this lock panics");
        if line.unanswered >= UNANSWERED_MAX {
            *line = Line {
                client: client(&self.connector),
                unanswered: 0,
                number: line.number + 1,
            };
        }
        (
            line.client.clone(),
            Unanswered {
                service: self,
                number: line.number,
                is_answered: false,
            },
        )
    }

    fn heard(&self, number: u64, is_answered: bool) {
        let mut line = self.line.lock().expect("no holder of this lock panics");
        if line.number == number {
            line.unanswered = if is_answered { 0 } else { line.unanswered + 1 };
        }
    }

    pub(super) async fn ask(
        &self,
        asked: &Asked,
        default: Nanos,
        within: Duration,
    ) -> Result<(Answer, Lifetime), CallError> {
        let content_type = HeaderValue::from_static(match self.codec {
            GrpcCodec::Protobuf => "application/grpc",
            GrpcCodec::Json => "application/grpc+json",
        });
        let (client, mut unanswered) = self.line();
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
        let mut request = tonic::Request::new(self.written(asked)?);
        request.set_timeout(within);
        if let Ok(limit) = MetadataValue::try_from(&asked.limit) {
            request.metadata_mut().insert(LIMIT_HEADER, limit);
        }
        let response = grpc
            .unary(request, PathAndQuery::from_static(GET_LIMITS), Plain)
            .await;
        unanswered.is_answered = true;
        let response = response.map_err(refused)?;
        let answer = self.read(response.into_inner())?;
        let lifetime = Lifetime::find(None, &answer, default, SystemTime::UNIX_EPOCH);
        Ok((answer, lifetime))
    }

    fn written(&self, asked: &Asked) -> Result<Bytes, CallError> {
        match self.codec {
            GrpcCodec::Protobuf => Ok(GetLimitsRequest::from(asked).encode_to_vec().into()),
            GrpcCodec::Json => {
                let text = serde_json::to_vec(asked);
                text.map(Bytes::from)
                    .map_err(|_| CallError::Malformed("the question cannot be written"))
            }
        }
    }

    fn read(&self, message: Bytes) -> Result<Answer, CallError> {
        match self.codec {
            GrpcCodec::Protobuf => GetLimitsResponse::decode(message)
                .map(Answer::from)
                .map_err(|_| CallError::Malformed("it is no message")),
            GrpcCodec::Json => {
                Answer::from_json(&message, Zeroes::LeftOut).map_err(CallError::Malformed)
            }
        }
    }
}

fn client(connector: &Connector) -> Client<Connector, Body> {
    const HEAD_MAX: u32 = 16 * 1024;
    connector.clone().client(|builder| {
        builder
            .http2_only(true)
            .http2_max_header_list_size(HEAD_MAX);
    })
}

/// A call under way; one that is given up is dropped with it.
struct Unanswered<'a> {
    service: &'a GrpcService,
    number: u64,
    is_answered: bool,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.service.heard(self.number, self.is_answered);
    }
}

/// What went wrong, as far as a status tells.
fn refused(status: Status) -> CallError {
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
            super::http::broken(source)
        }
        (code, _) => CallError::Grpc(code),
    }
}

/// Messages as they are: what is in them is read elsewhere.
struct Plain;

impl Codec for Plain {
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

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, room: &mut EncodeBuf<'_>) -> Result<(), Status> {
        room.put(message);
        Ok(())
    }
}

impl Decoder for Plain {
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

impl From<&Asked> for GetLimitsRequest {
    fn from(asked: &Asked) -> Self {
        let headers = asked
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone()));
        Self {
            key: asked.key.clone(),
            headers: headers.collect(),
            method: asked.method.clone(),
            path: asked.path.clone(),
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

impl From<GetLimitsResponse> for Answer {
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
