//! The service over gRPC: `edgequota.ratelimit.v1.RateLimitService/GetLimits`.
//!
//! All calls share one HTTP/2 connection. A network that drops packets silently would make each of
//! them wait for its full timeout, as TCP gives up only after minutes; so after a few calls in a
//! row without any response the connection is replaced.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use bytes::{Buf, BufMut, Bytes};
use http::header::CONTENT_TYPE;
use http::uri::PathAndQuery;
use http::{HeaderValue, StatusCode, Uri};
use http_body_util::Limited;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use sluicegate_config::{GrpcCodec, ServiceAddress, UpstreamHttp};
use sluicegate_core::Nanos;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tower::ServiceExt;

use super::REPLY_MAX;
use super::codec_choice::{AfterMisunderstanding, CodecChoice, Understanding};
use super::error::CallError;
use super::grpc_codec::MessageCodec;
use super::lifetime::CacheLifetime;
use super::reply::ServiceReply;
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
    codecs: CodecChoice,
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
            codecs: CodecChoice::new(codec),
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

    /// Makes a call in the codec that the service is known to understand, and another one if it
    /// shows that it does not. The deadline is kept by the caller of this function, which drops the
    /// future.
    pub(super) async fn call(
        &self,
        request: &LimitsRequest,
        default_ttl: Nanos,
        time_left: Duration,
    ) -> Result<(ServiceReply, CacheLifetime), CallError> {
        let (codec, begun) = (self.codecs.codec(), Instant::now());
        let mut called = self.call_in(codec, request, time_left).await;
        match Understanding::of(&called) {
            Understanding::Understood => self.codecs.settle(codec, self.connector.dials()),
            Understanding::Misunderstood => {
                let time_left = time_left.saturating_sub(begun.elapsed());
                called = self.clear_up(codec, called, request, time_left).await;
            }
            Understanding::Unknown => {}
        }
        let reply = called?;
        // gRPC has no cache headers, so the time of day is not needed.
        let lifetime = CacheLifetime::from_reply(None, &reply, default_ttl, SystemTime::UNIX_EPOCH);
        Ok((reply, lifetime))
    }

    /// The result of a call whose message was perhaps not understood: in the other codec where that
    /// is understood and allowed.
    async fn clear_up(
        &self,
        codec: MessageCodec,
        called: Result<ServiceReply, CallError>,
        request: &LimitsRequest,
        time_left: Duration,
    ) -> Result<ServiceReply, CallError> {
        let connection = self.connector.dials();
        match self.codecs.after_misunderstanding(codec, connection) {
            AfterMisunderstanding::Nothing => return called,
            AfterMisunderstanding::OtherIsSpoken => return Err(CallError::OtherCodec(codec)),
            AfterMisunderstanding::TryOther => {}
        }
        let other = codec.other();
        let in_other = self.call_in(other, request, time_left).await;
        let connection = self.connector.dials();
        match Understanding::of(&in_other) {
            Understanding::Understood => self.codecs.settle(other, connection),
            Understanding::Misunderstood => {
                self.codecs.settle(codec, connection);
                return called;
            }
            Understanding::Unknown => return called,
        }
        if self.codecs.is_free() {
            in_other
        } else {
            Err(CallError::OtherCodec(codec))
        }
    }

    /// Makes one call in a codec.
    async fn call_in(
        &self,
        codec: MessageCodec,
        request: &LimitsRequest,
        time_left: Duration,
    ) -> Result<ServiceReply, CallError> {
        let content_type = HeaderValue::from_static(codec.content_type());
        let (client, mut guard) = self.connection();
        let head = Arc::new(OnceLock::new());
        let seen = Arc::clone(&head);
        let bounded = client
            .map_request(move |mut request: http::Request<Body>| {
                request
                    .headers_mut()
                    .insert(CONTENT_TYPE, content_type.clone());
                request
            })
            // Bounds the whole body: a stream of small messages is no way around `REPLY_MAX`.
            .map_response(move |response: http::Response<Incoming>| {
                let _ = seen.set(ResponseHead::of(&response));
                response.map(|body| Limited::new(body, REPLY_MAX + FRAME_HEAD))
            });
        let mut grpc =
            Grpc::with_origin(bounded, self.origin.clone()).max_decoding_message_size(REPLY_MAX);
        let mut message = tonic::Request::new(codec.encode(request)?);
        message.set_timeout(time_left);
        if let Ok(limit) = MetadataValue::try_from(&request.limit) {
            message.metadata_mut().insert(LIMIT_HEADER, limit);
        }
        let response = grpc
            .unary(message, PathAndQuery::from_static(GET_LIMITS), RawCodec)
            .await;
        guard.is_answered = true;
        let head = head.get().copied().unwrap_or_default();
        if head.is_unsupported_type {
            return Err(CallError::Status(UNSUPPORTED.as_u16()));
        }
        let response = response.map_err(call_error)?;
        if head.codec == Some(codec.other()) {
            return Err(CallError::Undecodable(
                "its content type is of the other codec",
            ));
        }
        codec.decode(response.into_inner())
    }
}

const UNSUPPORTED: StatusCode = StatusCode::UNSUPPORTED_MEDIA_TYPE;

/// What the head of a response tells about the codec.
#[derive(Clone, Copy, Debug, Default)]
struct ResponseHead {
    /// The status is 415.
    is_unsupported_type: bool,
    /// The codec that the content type names.
    codec: Option<MessageCodec>,
}

impl ResponseHead {
    fn of<B>(response: &http::Response<B>) -> Self {
        let content_type = response.headers().get(CONTENT_TYPE);
        Self {
            is_unsupported_type: response.status() == UNSUPPORTED,
            codec: content_type.and_then(|value| MessageCodec::of_content_type(value.as_bytes())),
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
