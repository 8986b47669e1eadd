//! Tests of the timeouts of each endpoint, with a paused clock.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_net::Transport;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::endpoint::EndpointProtocol;
use super::test_state::state_of;
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
    let (near, far) = duplex(64 * 1024);
    let (state, ending) = state_of(CONFIG);
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
