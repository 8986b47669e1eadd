//! The end of a request: before an upgrade, after a refusal, for callers of gRPC; and requests that
//! may go nowhere at all.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use sluicegate_config as config;
use sluicegate_core::{FailurePolicy, Nanos};
use sluicegate_testkit::h2_frames::{self, StreamEnd};
use sluicegate_testkit::raw_socket::{closed_address, read_head};
use sluicegate_testkit::{STEP_TIMEOUT, UpstreamRecorder, http_client, raw_socket};

use super::edge::{Edge, one_a_day};

/// Nobody speaks another protocol before both sides have agreed.
#[test]
fn bytes_after_an_upgrade_wait_until_the_server_has_agreed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let edge = Edge::start(listener.local_addr().unwrap(), Vec::new());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = read_head(&mut stream).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let early = stream.read(&mut [0; 64]).map_err(|error| error.kind());
        stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
        stream
            .write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n",
            )
            .unwrap();
        let mut later = [0; 5];
        stream.read_exact(&mut later).unwrap();
        stream.write_all(&later).unwrap();
        (head, early, later)
    });
    let mut client = raw_socket::connect(edge.address);
    let request =
        b"GET /up HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly";
    client.write_all(request).unwrap();
    let answer = read_head(&mut client).unwrap();
    let mut echoed = [0; 5];
    client.read_exact(&mut echoed).unwrap();
    let (head, early, later) = server.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert!(
        head.to_lowercase().contains("\r\nconnection: upgrade\r\n"),
        "{head}"
    );
    assert_eq!(
        early,
        Err(std::io::ErrorKind::WouldBlock),
        "bytes came before 101"
    );
    assert_eq!((&later, &echoed), (b"early", b"early"));
}

/// Without the server's agreement the bytes behind are the next request of HTTP.
#[test]
fn a_request_behind_an_upgrade_that_nobody_granted_is_counted_like_any_other() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, one_a_day());
    let upgrade =
        "GET /up HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let next = "GET /next HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let answers = raw_socket::exchange(edge.address, [upgrade, next].concat().as_bytes());
    assert_eq!(answers.statuses(), [200, 429]);
    assert_eq!(recorder.requests().len(), 1);
}

/// Protocols that carry requests would lead around every limit.
#[test]
fn upgrades_to_another_http_are_not_passed_on() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    for protocol in ["h2c", "HTTP/2.0", "TLS/1.3", "websocket, h2c"] {
        let lines = [
            "Connection: Upgrade, HTTP2-Settings",
            &format!("Upgrade: {protocol}"),
            "HTTP2-Settings: AAMAAABkAAQAAP__",
        ];
        assert_eq!(
            http_client::request(edge.address, "GET", "/", &lines).status(),
            200,
            "{protocol}"
        );
        let recorded = recorder.requests().pop().unwrap();
        assert!(
            recorded.header_values("upgrade").is_empty()
                && recorded.header_values("http2-settings").is_empty(),
            "{}",
            recorded.head
        );
    }
}

/// Bodies of every length, sent in every way.
#[test]
fn the_body_of_a_refused_request_never_becomes_a_request() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, one_a_day());
    assert_eq!(
        http_client::request(edge.address, "GET", "/first", &[]).status(),
        200
    );
    let inner = "GET /inner HTTP/1.1\r\nHost: a.example\r\n\r\n";
    for copies in [1, 100, 10_000] {
        let body = inner.repeat(copies);
        let head = "POST / HTTP/1.1\r\nHost: a.example\r\n";
        let sized = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let chunked = format!(
            "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            body.len()
        );
        let waiting = format!(
            "{head}Expect: 100-continue\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        for request in [sized, chunked, waiting] {
            let last = "GET /last HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
            let statuses =
                raw_socket::exchange(edge.address, [&request, last].concat().as_bytes()).statuses();
            // One for the request, and one for the last if the body was read to its end.
            assert!(
                matches!(statuses[..], [429] | [429, 429]),
                "{copies} copies: {statuses:?}"
            );
        }
    }
    assert_eq!(recorder.requests().len(), 1);
}

/// A small body is read to its end, and the connection goes on with what really follows it.
#[test]
fn a_connection_goes_on_after_a_refusal_where_the_body_ended() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, one_a_day());
    assert_eq!(
        http_client::request(edge.address, "GET", "/first", &[]).status(),
        200
    );
    let body = "GET /inner HTTP/1.1\r\n\r\n";
    let post = format!(
        "POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(
        raw_socket::exchange(edge.address, post.repeat(3).as_bytes()).statuses(),
        [429, 429, 429]
    );
}

/// HTTP libraries expect no body in a GET and leave it out unless they are told.
#[test]
fn a_body_in_chunks_arrives_whatever_the_method() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    for method in ["GET", "HEAD", "DELETE", "OPTIONS", "POST", "PURGE"] {
        let head = format!(
            "{method} / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let answers = raw_socket::exchange(
            edge.address,
            [&head, "5\r\nhello\r\n0\r\n\r\n"].concat().as_bytes(),
        );
        assert_eq!(answers.status(), 200, "{method}");
        let fields = [
            (":method", method),
            (":scheme", "http"),
            (":authority", "a.example"),
            (":path", "/"),
        ];
        let fields =
            fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        let outcome = h2_frames::exchange(edge.address, &fields, Some(b"hello"));
        assert!(
            matches!(outcome, StreamEnd::Response { status: 200, .. }),
            "{method}: {outcome:?}"
        );
        let recorded = recorder.requests();
        let [.., in_chunks, in_frames] = &recorded[..] else {
            panic!("{recorded:?}")
        };
        assert_eq!(
            (&in_chunks.body[..], &in_frames.body[..]),
            (&b"hello"[..], &b"hello"[..]),
            "{method}"
        );
    }
}

/// Each bound has its own status, and a request that just fits passes.
#[test]
fn requests_over_the_bounds_are_refused() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::with(recorder.address, Vec::new(), |config| {
        let bounds = config::Bounds {
            header_bytes: 16 << 10,
            headers: 20,
            target_bytes: 1 << 10,
            body_bytes: Some(100),
        };
        config.proxy.as_mut().unwrap().bounds = bounds;
    });
    let status = |target: &str, lines: &[&str]| {
        http_client::request(edge.address, "GET", target, lines).status()
    };
    assert_eq!(
        status(&format!("/{}", "x".repeat(1023)), &["X: y"; 18]),
        200
    );
    assert_eq!(status(&format!("/{}", "x".repeat(1024)), &[]), 414);
    assert_eq!(status("/", &["X: y"; 19]), 431);
    assert_eq!(status("/", &[&format!("X: {}", "y".repeat(16 << 10))]), 431);
    assert_eq!(status("/", &["Content-Length: 101"]), 413);
    assert_eq!(recorder.requests().len(), 1);
}

/// Neither a tunnel, nor an echo of credentials, nor a way to another host.
#[test]
fn connect_trace_and_other_hosts_are_refused() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    let status = |method: &str, target: &str| {
        http_client::request(edge.address, method, target, &[]).status()
    };
    let refused = http_client::request(edge.address, "CONNECT", "a.example:443", &[]);
    assert_eq!(
        (refused.status(), refused.header("allow")),
        (405, Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"))
    );
    assert_eq!(status("CONNECT", "127.0.0.1:22"), 405);
    assert_eq!(status("TRACE", "/"), 405);
    assert_eq!(status("GET", "http://b.example/"), 400);
    assert_eq!(status("GET", "http://a.example.b.example/"), 400);
    assert_eq!(status("GET", "https://a.example:8443/"), 400);
    assert!(recorder.requests().is_empty());
}

const GRPC: [&str; 2] = ["Content-Type: application/grpc", "TE: trailers"];

/// A refusal is a response with status 200 and a status of gRPC, in both versions of HTTP.
#[test]
fn callers_of_grpc_are_told_in_their_words() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, one_a_day());
    assert_eq!(
        http_client::request(edge.address, "POST", "/s/m", &GRPC).status(),
        200
    );
    let answers = http_client::request(edge.address, "POST", "/s/m", &GRPC);
    assert_eq!(
        (answers.status(), answers.header("grpc-status")),
        (200, Some("8"))
    );
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", "/s/m"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    let fields = fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!(
        h2_frames::exchange(edge.address, &fields, None),
        StreamEnd::Response {
            status: 200,
            is_head_only: true
        }
    );
    assert_eq!(recorder.requests().len(), 1);
}

/// `14` is UNAVAILABLE.
#[test]
fn callers_of_grpc_are_told_when_the_store_is_away() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::with(recorder.address, one_a_day(), |config| {
        config.store = config::Store {
            on_failure: FailurePolicy::default(),
            kind: redis_at(closed_address()),
        };
    });
    let answers = http_client::request(edge.address, "POST", "/s/m", &GRPC);
    assert_eq!(
        (answers.status(), answers.header("grpc-status")),
        (200, Some("14"))
    );
    assert!(recorder.requests().is_empty());
}

fn redis_at(address: SocketAddr) -> config::StoreKind {
    config::StoreKind::Redis(Box::new(config::Redis {
        mode: config::RedisMode::Standalone,
        endpoints: vec![address.to_string()],
        username: None,
        password: None,
        database: 0,
        tls: None,
        deadline: Nanos::from_millis(50),
        connect_timeout: Nanos::from_millis(500),
        recovery_base: Nanos::from_millis(50),
        recovery_cap: Nanos::from_secs(1),
        key_prefix: "sluicegate".to_owned(),
        key_layout: config::KeyLayout::default(),
        clock: config::RedisClock::default(),
    }))
}
