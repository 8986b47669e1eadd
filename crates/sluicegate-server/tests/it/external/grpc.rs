//! Questions by gRPC, in both codecs, with a service of tonic's and with one that misbehaves.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use sluicegate_config::{ExternalService, ExternalSettings, GrpcCodec, ServiceAddress};
use sluicegate_core::{FailureStatus, Nanos, Quota};
use sluicegate_gate::external::{BackendHttp, OptionalField, ResolvedLimits, TenantPolicy};
use sluicegate_testkit::TlsFiles;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::ProstCodec;

use super::service::unruly;
use super::{ask, asks, at, external, settings, told};

const PATH: &str = "/edgequota.ratelimit.v1.RateLimitService/GetLimits";

// The messages once more, as the other side has them: with ours, a wrong number of a field would be
// wrong on both sides and nobody would notice.

#[derive(Clone, PartialEq, Message)]
pub(super) struct LimitsRequest {
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

#[derive(Clone, PartialEq, Message)]
pub(super) struct LimitsResponse {
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

pub(super) fn gold() -> LimitsResponse {
    LimitsResponse {
        average: 100,
        burst: 20,
        period: "1m".to_owned(),
        tenant_key: "acme".to_owned(),
        failure_policy: 2,
        failure_code: 418,
        backend_url: "https://gold.example".to_owned(),
        request_timeout: Some("3s".to_owned()),
        backend_protocol: 2,
        ..LimitsResponse::default()
    }
}

pub(super) const GOLD: &str = r#"{"average": "100", "burst": 20, "period": "1m", "tenantKey": "acme",
    "failurePolicy": "FAILURE_POLICY_FAIL_CLOSED", "failureCode": 418, "backendUrl": "https://gold.example",
    "requestTimeout": "3s", "backendProtocol": "BACKEND_PROTOCOL_H2"}"#;

/// JSON on the service's side: questions as they are, answers as they are.
#[derive(Clone, Copy)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, room: &mut EncodeBuf<'_>) -> Result<(), Status> {
        room.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, room: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(room.copy_to_bytes(room.remaining())))
    }
}

/// The service's reaction to a question.
#[derive(Clone)]
pub(super) enum Manner {
    Protobuf(Result<LimitsResponse, Status>),
    /// What is no JSON is answered as services answer what they cannot decode.
    Json(String),
    /// These frames, without end.
    Endless(Vec<u8>),
}

pub(super) type Questions = Arc<Mutex<Vec<(HeaderMap, LimitsRequest)>>>;

async fn start(manner: Manner, tls: Option<TlsAcceptor>) -> (u16, Questions) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let questions = Questions::default();
    let seen = Arc::clone(&questions);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (manner, seen, tls) = (manner.clone(), Arc::clone(&seen), tls.clone());
            tokio::spawn(async move {
                let answering =
                    service_fn(move |request| answer(request, manner.clone(), Arc::clone(&seen)));
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let _ = match tls {
                    None => http.serve_connection(TokioIo::new(stream), answering).await,
                    Some(tls) => match tls.accept(stream).await {
                        Ok(stream) => http.serve_connection(TokioIo::new(stream), answering).await,
                        Err(_) => Ok(()),
                    },
                };
            });
        }
    });
    (port, questions)
}

pub(super) async fn answer(
    request: Request<Incoming>,
    manner: Manner,
    seen: Questions,
) -> Result<Response<tonic::body::Body>, Infallible> {
    assert_eq!(request.uri().path(), PATH);
    let head = request.headers().clone();
    let content_type = head["content-type"].clone();
    let mut response = match manner {
        Manner::Protobuf(answer) => {
            let respond = tower::service_fn(move |request: tonic::Request<LimitsRequest>| {
                seen.lock()
                    .unwrap()
                    .push((head.clone(), request.into_inner()));
                std::future::ready(answer.clone().map(tonic::Response::new))
            });
            tonic::server::Grpc::new(ProstCodec::<LimitsResponse, LimitsRequest>::default())
                .unary(respond, request)
                .await
        }
        Manner::Json(text) => {
            let respond = tower::service_fn(move |request: tonic::Request<Bytes>| {
                let asked = serde_json::from_slice::<serde_json::Value>(request.get_ref());
                let Ok(asked) = asked else {
                    return std::future::ready(Err(Status::internal("cannot decode the message")));
                };
                let text_of = |name: &str| asked[name].as_str().unwrap().to_owned();
                let headers = asked["headers"].as_object().unwrap().iter();
                let asked = LimitsRequest {
                    key: text_of("key"),
                    headers: headers
                        .map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()))
                        .collect(),
                    method: text_of("method"),
                    path: text_of("path"),
                    key_parts: vec![asked["key_parts"][0].as_str().unwrap().to_owned()],
                };
                seen.lock().unwrap().push((head.clone(), asked));
                std::future::ready(Ok(tonic::Response::new(text.clone())))
            });
            tonic::server::Grpc::new(Text).unary(respond, request).await
        }
        Manner::Endless(frame) => {
            let frames = futures_util::stream::repeat_with(move || {
                Ok::<_, Infallible>(Frame::data(Bytes::from(frame.clone())))
            });
            let body = http_body_util::StreamBody::new(frames).map_err(|never| match never {});
            Response::new(tonic::body::Body::new(body))
        }
    };
    response.headers_mut().insert("content-type", content_type);
    Ok(response)
}

pub(super) fn over_grpc(port: u16, codec: GrpcCodec) -> ExternalSettings {
    settings(ExternalService::Grpc {
        at: at(port),
        codec,
    })
}

/// The service gets key, method, path and the headers that are no secret; every field of its answer counts.
#[tokio::test]
async fn a_question_and_its_answer_in_both_codecs() {
    for (codec, manner, content_type) in [
        (
            GrpcCodec::Protobuf,
            Manner::Protobuf(Ok(gold())),
            "application/grpc",
        ),
        (
            GrpcCodec::Json,
            Manner::Json(GOLD.to_owned()),
            "application/grpc+json",
        ),
    ] {
        let (port, questions) = start(manner, None).await;
        let external = external(&over_grpc(port, codec));
        let mut headers = HeaderMap::new();
        headers.insert("x-plan", HeaderValue::from_static("gold"));
        headers.insert("x-api-key", HeaderValue::from_static("hunter2"));
        let ResolvedLimits::External(told) = external.resolve(asks("tenant-7", &headers)).await
        else {
            panic!("nothing was told: {:?}", external.counts())
        };
        assert_eq!(
            told.quota,
            Some(Quota::new(100, Nanos::MINUTE, 20).unwrap())
        );
        assert_eq!(told.tenant.as_deref(), Some("acme"));
        assert_eq!(told.on_failure, Some(TenantPolicy::Closed));
        assert_eq!(told.failure_status, FailureStatus::new(418).ok());
        assert_eq!(
            told.backend.as_ref().map(|backend| backend.http),
            Some(BackendHttp::Http2)
        );
        assert_eq!(told.request_timeout, Some(Nanos::from_secs(3)));
        let (head, asked) = questions.lock().unwrap().pop().unwrap();
        assert_eq!(head["content-type"], content_type);
        assert_eq!(head["x-sluicegate-limit"], "tenant");
        assert!(head.contains_key("grpc-timeout"));
        let expected = LimitsRequest {
            key: "tenant-7".to_owned(),
            headers: HashMap::from([("x-plan".to_owned(), "gold".to_owned())]),
            method: "POST".to_owned(),
            path: "/orders".to_owned(),
            key_parts: vec!["tenant-7".to_owned()],
        };
        assert_eq!(asked, expected);
    }
}

/// A zero is not written in protocol buffers, nor in their JSON.
#[tokio::test]
async fn an_empty_answer_is_unlimited() {
    for (codec, manner) in [
        (
            GrpcCodec::Protobuf,
            Manner::Protobuf(Ok(LimitsResponse::default())),
        ),
        (GrpcCodec::Json, Manner::Json("{}".to_owned())),
    ] {
        let (port, _) = start(manner, None).await;
        assert_eq!(
            told(&ask(&external(&over_grpc(port, codec)), "a").await),
            Some((0, false))
        );
    }
}

#[tokio::test]
async fn over_tls_the_certificate_is_verified() {
    let files = TlsFiles::generate();
    let mut config = (*super::http::server_config(&files)).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (port, _) = start(
        Manner::Protobuf(Ok(gold())),
        Some(TlsAcceptor::from(Arc::new(config))),
    )
    .await;
    for (ca_file, expected) in [(Some(files.authority()), Some((20, false))), (None, None)] {
        let at = ServiceAddress {
            tls: true,
            host: "localhost".to_owned(),
            ca_file,
            ..at(port)
        };
        let external = external(&settings(ExternalService::Grpc {
            at,
            codec: GrpcCodec::Protobuf,
        }));
        assert_eq!(told(&ask(&external, "a").await), expected);
    }
}

/// All calls share one connection: where it is cut without a word, another one is made.
#[tokio::test]
async fn a_connection_that_nothing_comes_over_is_given_up() {
    let (port, _) = start(Manner::Protobuf(Ok(gold())), None).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.unwrap();
        // Everything is taken, and nothing comes back.
        let swallowing =
            tokio::spawn(async move { tokio::io::copy(&mut first, &mut tokio::io::sink()).await });
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut service = tokio::net::TcpStream::connect(("127.0.0.1", port))
                    .await
                    .unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut service).await;
            });
        }
        drop(swallowing);
    });
    let mut settings = over_grpc(silent, GrpcCodec::Protobuf);
    settings.timeout = Nanos::from_millis(300);
    let impatient = external(&settings);
    for number in 0..3 {
        assert_eq!(
            ask(&impatient, &number.to_string()).await,
            ResolvedLimits::Configured
        );
    }
    let mut answers = Vec::new();
    // A machine that is busy may need more than the short timeout.
    for number in 3..10 {
        answers.push(told(&ask(&impatient, &number.to_string()).await));
    }
    assert!(answers.contains(&Some((20, false))), "{answers:?}");
}

/// Values that are not valid, errors of gRPC, another codec, and messages that are too deep or too long.
#[tokio::test]
async fn answers_that_make_no_sense_are_errors() {
    let long = "a".repeat(64 * 1024);
    let with = |change: &dyn Fn(&mut LimitsResponse)| {
        let mut answer = gold();
        change(&mut answer);
        (GrpcCodec::Protobuf, Manner::Protobuf(Ok(answer)))
    };
    let json = |text: &str| (GrpcCodec::Json, Manner::Json(text.to_owned()));
    let deep = format!("{{\"x\": {}1{}}}", "[".repeat(20_000), "]".repeat(20_000));
    for (codec, manner) in [
        with(&|answer| answer.average = -1),
        with(&|answer| answer.burst = i64::MIN),
        with(&|answer| (answer.average, answer.period) = (i64::MAX, "1ns".to_owned())),
        with(&|answer| answer.period = "a while".to_owned()),
        with(&|answer| answer.tenant_key = "a\r\nb".to_owned()),
        with(&|answer| answer.tenant_key = "a".repeat(64 * 1024)),
        (
            GrpcCodec::Protobuf,
            Manner::Protobuf(Err(Status::not_found("nobody"))),
        ),
        (
            GrpcCodec::Protobuf,
            Manner::Protobuf(Err(Status::unavailable("later"))),
        ),
        (GrpcCodec::Protobuf, Manner::Json(GOLD.to_owned())),
        json("hello"),
        json("[]"),
        json(r#"{"average": -1}"#),
        json(&deep),
        json(&format!(r#"{{"average": 1, "x": "{long}"}}"#)),
    ] {
        let (port, _) = start(manner, None).await;
        let external = external(&over_grpc(port, codec));
        assert_eq!(ask(&external, "a").await, ResolvedLimits::Configured);
        assert_eq!(external.counts().errors, 1);
    }
}

/// An enum value of a later version, or a status that is none, costs that field and nothing else.
#[tokio::test]
async fn unknown_choices_over_grpc_are_ignored_alone() {
    let mut answer = gold();
    (answer.failure_policy, answer.failure_code) = (9, 200);
    let (port, _) = start(Manner::Protobuf(Ok(answer)), None).await;
    let external = external(&over_grpc(port, GrpcCodec::Protobuf));
    let ResolvedLimits::External(told) = ask(&external, "a").await else {
        panic!("nothing was told: {:?}", external.counts())
    };
    assert_eq!((told.on_failure, told.failure_status), (None, None));
    assert_eq!(told.tenant.as_deref(), Some("acme"));
    let counts = external.counts();
    let ignored = [OptionalField::FailurePolicy, OptionalField::FailureCode];
    assert_eq!(ignored.map(|field| counts.ignored(field)), [1, 1]);
    assert_eq!(counts.errors, 0);
}

/// A message is read up to its bound, and compressed ones are not unpacked.
#[tokio::test]
async fn endless_messages_packed_ones_and_what_is_no_grpc_are_errors_in_time() {
    // An answer that may pass, again and again; one that is packed; one that says it is 4 GiB long.
    let mut again = vec![0, 0, 0, 0, 2];
    again.extend_from_slice(&[8, 1]);
    let packed = [&[1, 0, 0, 4, 0][..], &[0x1f; 1_024]].concat();
    let huge = [&[0, 255, 255, 255, 255][..], &[0; 1_024]].concat();
    for frame in [again, packed, huge] {
        let (port, _) = start(Manner::Endless(frame), None).await;
        let mut settings = over_grpc(port, GrpcCodec::Protobuf);
        settings.timeout = Nanos::from_secs(10);
        let external = external(&settings);
        let begun = Instant::now();
        assert_eq!(ask(&external, "a").await, ResolvedLimits::Configured);
        assert!(
            begun.elapsed() < Duration::from_secs(8),
            "{:?}",
            begun.elapsed()
        );
        assert_eq!(external.counts().errors, 1);
    }
    let port = unruly(|stream| {
        drop(std::io::Write::write_all(
            stream,
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        ))
    });
    assert_eq!(
        ask(&external(&over_grpc(port, GrpcCodec::Protobuf)), "a").await,
        ResolvedLimits::Configured
    );
}
