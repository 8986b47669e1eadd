//! Tests of the timeouts of each endpoint, with a paused clock.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use sluicegate_net::Transport;
use sluicegate_testkit::h2_frames::{
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, SETTINGS, field, frame, post_fields,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::endpoint::EndpointProtocol;
use super::test_state::state_with_token;
use super::{DecisionsState, grpc, http};

const CONFIG: &str = "
admin: off
limits:
  - { name: per-ip, key: [client_ip], rate: 1/h, burst: 1 }
";
/// Longer than any endpoint waits.
const AGES: Duration = Duration::from_secs(600);

/// A connection to an endpoint, and the task that serves it.
fn connect<P: EndpointProtocol>(
    protocol: impl FnOnce(&DecisionsState) -> P,
) -> (DuplexStream, JoinHandle<()>) {
    connect_with_token(None, protocol)
}

/// The same where callers must show the token in this file.
fn connect_with_token<P: EndpointProtocol>(
    token: Option<&Path>,
    protocol: impl FnOnce(&DecisionsState) -> P,
) -> (DuplexStream, JoinHandle<()>) {
    let (near, far) = duplex(64 * 1024);
    let (state, ending) = state_with_token(CONFIG, token);
    let protocol = protocol(&state);
    let served = tokio::spawn(async move {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let transport = Transport::Other(Box::new(far));
        protocol.serve(state, transport, peer).await;
        drop(ending);
    });
    (near, served)
}

/// The bytes that come back until the endpoint closes the connection, and the time that it takes.
async fn until_closed(mut near: DuplexStream, served: JoinHandle<()>) -> (String, Duration) {
    let began = Instant::now();
    let mut answer = Vec::new();
    let _ = tokio::time::timeout(AGES, near.read_to_end(&mut answer))
        .await
        .expect("the endpoint closes the connection");
    let took = began.elapsed();
    drop(near);
    served.await.unwrap();
    (String::from_utf8_lossy(&answer).into_owned(), took)
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_head_does_not_come_is_given_up() {
    for said in ["", "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-"] {
        let (mut near, served) = connect(|state| http::HttpProtocol::new(&state.ending));
        near.write_all(said.as_bytes()).await.unwrap();
        let (_, took) = until_closed(near, served).await;
        assert_eq!(took.as_secs(), 60, "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_body_does_not_come_is_answered_and_given_up() {
    let (mut near, served) = connect(|state| http::HttpProtocol::new(&state.ending));
    let head = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"limit\":";
    near.write_all(head.as_bytes()).await.unwrap();
    let (answer, took) = until_closed(near, served).await;
    assert!(
        answer.starts_with("HTTP/1.1 408 ") && answer.contains("the body took too long"),
        "{answer}"
    );
    assert_eq!(took.as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_asks_nothing_is_given_up() {
    // Settings and nothing else, which is a connection as far as HTTP/2 is concerned.
    let (mut near, served) = connect(|_| grpc::EnvoyProtocol::new().unwrap());
    near.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let (_, took) = until_closed(near, served).await;
    assert_eq!(took.as_secs(), 10);
}

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
/// A message without a field, as it stands in a body.
const EMPTY_MESSAGE: &[u8] = &[0; 5];

/// A connection of a gateway, past its settings.
async fn gateway(token: Option<&Path>) -> (DuplexStream, JoinHandle<()>) {
    let (mut near, served) = connect_with_token(token, |_| grpc::EnvoyProtocol::new().unwrap());
    let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    near.write_all(&begin).await.unwrap();
    (near, served)
}

/// The frames of a call; without a message its body does not come.
fn call(stream: u32, path: &str, message: Option<&[u8]>) -> Vec<u8> {
    let fields = [
        post_fields(path),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
    ];
    let mut frames = frame(HEADERS, END_HEADERS, stream, &fields.concat());
    frames
        .extend(message.map_or_else(Vec::new, |message| frame(DATA, END_STREAM, stream, message)));
    frames
}

#[tokio::test(start_paused = true)]
async fn a_grpc_question_whose_message_does_not_come_ends() {
    for (path, part) in [
        (SHOULD_RATE_LIMIT, &b""[..]),
        (SHOULD_RATE_LIMIT, b"\0\0"),
        (HEALTH_CHECK, b"\0\0\0\0"),
    ] {
        let (mut near, _served) = gateway(None).await;
        let began = Instant::now();
        near.write_all(&call(1, path, None)).await.unwrap();
        near.write_all(&frame(DATA, 0, 1, part)).await.unwrap();
        let mut answer = Vec::new();
        while !is_answered(&answer) {
            let read = tokio::time::timeout(AGES, near.read_buf(&mut answer)).await;
            assert!(read.unwrap().unwrap() > 0, "{answer:?}");
        }
        assert_eq!(began.elapsed().as_secs(), 10, "{path}");
    }
}

/// True when these frames have a response that is complete with its header, as errors are.
fn is_answered(mut frames: &[u8]) -> bool {
    while let [high, middle, low, kind, flags, ..] = *frames {
        if kind == HEADERS && flags & END_STREAM != 0 {
            return true;
        }
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        frames = frames.get(9 + length..).unwrap_or_default();
    }
    false
}

#[tokio::test(start_paused = true)]
async fn a_call_without_the_token_makes_no_connection_permanent() {
    let token = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(token.path(), "0123456789abcdef0123456789abcdef").unwrap();
    for path in [
        SHOULD_RATE_LIMIT,
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ] {
        let (mut near, served) = gateway(Some(token.path())).await;
        near.write_all(&call(1, path, Some(EMPTY_MESSAGE)))
            .await
            .unwrap();
        let (_, took) = until_closed(near, served).await;
        assert_eq!(took.as_secs(), 10, "{path}");
    }
    let (mut near, served) = connect_with_token(Some(token.path()), |state| {
        http::HttpProtocol::new(&state.ending)
    });
    let stranger = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    near.write_all(stranger.as_bytes()).await.unwrap();
    let (answer, _) = until_closed(near, served).await;
    assert!(
        answer.starts_with("HTTP/1.1 401 ") && answer.contains("connection: close"),
        "{answer}"
    );
}

/// Probes come every ten seconds to every minute. A minute after the last, this gateway does not
/// answer the ping that asks for a sign of life; `connection_use.rs` has the time of one that does.
#[tokio::test(start_paused = true)]
async fn health_checks_keep_a_connection_only_while_they_come() {
    let (mut near, served) = gateway(None).await;
    for number in 0..5 {
        near.write_all(&call(2 * number + 1, HEALTH_CHECK, Some(EMPTY_MESSAGE)))
            .await
            .unwrap();
        // bounded wait: the clock is paused
        tokio::time::sleep(Duration::from_secs(45)).await;
        assert!(!served.is_finished(), "check {number}");
    }
    until_closed(near, served).await;
}

/// One that hangs answers no ping.
#[tokio::test(start_paused = true)]
async fn a_gateway_that_gives_no_sign_of_life_is_given_up() {
    let (mut near, served) = gateway(None).await;
    near.write_all(&call(1, SHOULD_RATE_LIMIT, Some(EMPTY_MESSAGE)))
        .await
        .unwrap();
    let (_, took) = until_closed(near, served).await;
    assert!((70..80).contains(&took.as_secs()), "{took:?}");

    let (mut near, served) = gateway(None).await;
    near.write_all(&call(1, SHOULD_RATE_LIMIT, Some(EMPTY_MESSAGE)))
        .await
        .unwrap();
    let began = Instant::now();
    let (mut frames, mut pings) = (Vec::new(), 0);
    while pings < 5 {
        let read = tokio::time::timeout(AGES, near.read_buf(&mut frames)).await;
        assert!(read.unwrap().unwrap() > 0, "closed after {pings} pings");
        while let Some((kind, payload)) = take_frame(&mut frames) {
            if kind == PING {
                pings += 1;
                near.write_all(&frame(PING, ACK, 0, &payload))
                    .await
                    .unwrap();
            }
        }
    }
    assert!(began.elapsed() > 4 * Duration::from_secs(60));
    assert!(!served.is_finished());
}

/// The first of these frames: its kind and its payload.
fn take_frame(frames: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let [high, middle, low, kind, ..] = frames[..] else {
        return None;
    };
    let length = u32::from_be_bytes([0, high, middle, low]) as usize;
    let payload = frames.get(9..9 + length)?.to_vec();
    frames.drain(..9 + length);
    Some((kind, payload))
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_has_asked_may_stay() {
    let (mut near, served) = gateway(None).await;
    near.write_all(&call(1, SHOULD_RATE_LIMIT, Some(EMPTY_MESSAGE)))
        .await
        .unwrap();
    // Shorter than the pause after which it is asked for a sign of life.
    // bounded wait: the clock is paused
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert!(!served.is_finished());
    drop(near);
    served.await.unwrap();
}
