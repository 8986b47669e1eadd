//! The codec of a gRPC service is found out, or its operator is told to write another one.

use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluicegate_config::GrpcCodec;
use sluicegate_gate::external::{External, ResolvedLimits};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tonic::Status;

use super::grpc::{GOLD, Manner, Questions, answer, gold, over_grpc};
use super::{ask, external, told};

const PROTOBUF: &str = "application/grpc";
const JSON: &str = "application/grpc+json";

/// A service that notes the content type of each call, and may change its manner.
struct Service {
    port: u16,
    state: Arc<State>,
}

struct State {
    manner: Mutex<Manner>,
    /// Answer other content types than this one with status 415.
    only: Option<&'static str>,
    called_in: Mutex<Vec<String>>,
    connections: Mutex<Vec<AbortHandle>>,
}

impl Service {
    async fn start(manner: Manner, only: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            manner: Mutex::new(manner),
            only,
            called_in: Mutex::default(),
            connections: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                let answering = service_fn(move |request| respond(request, Arc::clone(&state)));
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let served = http.serve_connection(TokioIo::new(stream), answering);
                let connection = tokio::spawn(async move { drop(served.await) });
                let mut connections = shared.connections.lock().unwrap();
                connections.push(connection.abort_handle());
            }
        });
        Self { port, state }
    }

    /// The content types of the calls since the last time.
    fn called_in(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.called_in.lock().unwrap())
    }

    /// What another program at the same address would do: other connections, another manner.
    fn replace(&self, manner: Manner) {
        *self.state.manner.lock().unwrap() = manner;
        for connection in self.state.connections.lock().unwrap().drain(..) {
            connection.abort();
        }
    }
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<tonic::body::Body>, std::convert::Infallible> {
    let content_type = request.headers()["content-type"]
        .to_str()
        .unwrap()
        .to_owned();
    state.called_in.lock().unwrap().push(content_type.clone());
    if state.only.is_some_and(|only| only != content_type) {
        let mut refusal = Response::new(tonic::body::Body::empty());
        *refusal.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Ok(refusal);
    }
    let manner = state.manner.lock().unwrap().clone();
    answer(request, manner, Questions::default()).await
}

fn protobuf() -> Manner {
    Manner::Protobuf(Ok(gold()))
}

fn json() -> Manner {
    Manner::Json(GOLD.to_owned())
}

/// The answers about some callers, one after the other.
async fn ask_for(external: &External, callers: [&str; 3]) -> [Option<(u64, bool)>; 3] {
    let mut answers = [None; 3];
    for (answer, caller) in answers.iter_mut().zip(callers) {
        *answer = told(&ask(external, caller).await);
    }
    answers
}

const GOLD_FOR_ALL: [Option<(u64, bool)>; 3] = [Some((20, false)); 3];

#[tokio::test]
async fn the_codec_is_found_out_at_the_first_call_and_kept() {
    for (manner, only, calls) in [
        (protobuf(), None, vec![PROTOBUF; 3]),
        (json(), None, vec![PROTOBUF, JSON, JSON, JSON]),
        (json(), Some(JSON), vec![PROTOBUF, JSON, JSON, JSON]),
    ] {
        let service = Service::start(manner, only).await;
        let external = external(&over_grpc(service.port, GrpcCodec::Auto));
        assert_eq!(ask_for(&external, ["a", "b", "c"]).await, GOLD_FOR_ALL);
        assert_eq!(service.called_in(), calls);
        assert_eq!(external.counts().errors, 0);
    }
}

#[tokio::test]
async fn a_service_that_changes_its_codec_is_understood_again() {
    let service = Service::start(protobuf(), None).await;
    let external = external(&over_grpc(service.port, GrpcCodec::Auto));
    assert_eq!(ask_for(&external, ["a", "b", "c"]).await, GOLD_FOR_ALL);
    service.replace(json());
    service.called_in();
    // The call that finds the old connection cut may fail.
    let _ = ask(&external, "cut").await;
    assert_eq!(ask_for(&external, ["d", "e", "f"]).await, GOLD_FOR_ALL);
    let calls = service.called_in();
    assert_eq!(calls.last().map(String::as_str), Some(JSON));
    let in_protobuf = calls.iter().filter(|called| *called == PROTOBUF).count();
    assert_eq!(in_protobuf, 1, "{calls:?}");
}

#[tokio::test]
async fn errors_of_another_kind_do_not_double_the_calls() {
    let wrong = Manner::Protobuf(Err(Status::internal("no database")));
    let service = Service::start(wrong, None).await;
    let external = external(&over_grpc(service.port, GrpcCodec::Auto));
    assert_eq!(ask_for(&external, ["a", "b", "c"]).await, [None; 3]);
    assert_eq!(service.called_in(), [PROTOBUF, JSON, PROTOBUF, PROTOBUF]);
    assert_eq!(external.counts().errors, 3);
    for status in [Status::unavailable("later"), Status::not_found("nobody")] {
        let service = Service::start(Manner::Protobuf(Err(status)), None).await;
        let external = super::external(&over_grpc(service.port, GrpcCodec::Auto));
        assert_eq!(ask_for(&external, ["a", "b", "c"]).await, [None; 3]);
        assert_eq!(service.called_in(), [PROTOBUF; 3]);
    }
}

/// The replies of the other codec are not used: the operator has written which one counts.
#[tokio::test]
async fn a_configured_codec_is_kept_and_the_other_is_tried_once_for_the_log() {
    for (codec, manner, [own, other]) in [
        (GrpcCodec::Protobuf, json(), [PROTOBUF, JSON]),
        (GrpcCodec::Json, protobuf(), [JSON, PROTOBUF]),
    ] {
        let service = Service::start(manner, None).await;
        let external = external(&over_grpc(service.port, codec));
        for caller in ["a", "b", "c"] {
            assert_eq!(ask(&external, caller).await, ResolvedLimits::Configured);
        }
        assert_eq!(service.called_in(), [own, other, own, own]);
        assert_eq!(external.counts().errors, 3);
    }
}

#[tokio::test]
async fn calls_at_the_same_time_all_find_out() {
    let service = Service::start(json(), None).await;
    let external = external(&over_grpc(service.port, GrpcCodec::Auto));
    let callers: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let asked = callers.iter().map(|caller| ask(&external, caller));
    let answers = futures_util::future::join_all(asked).await;
    for answer in &answers {
        assert_eq!(told(answer), Some((20, false)));
    }
}
