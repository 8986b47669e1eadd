//! Clients that stop in the middle of a body to which the answer has begun. Before it begins, `slow_clients.rs` has the tests.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sluicegate_testkit::eventually;
use sluicegate_testkit::h2_frames::{
    DATA, END_HEADERS, H2Connection, HEADERS, RST_STREAM, field, frame, post_fields,
};
use sluicegate_testkit::raw_socket::{read_head, read_to_end};

use super::{CountedServer, STALLED_SERVER, wait_for_slow};
use crate::running::Sluicegate;

const PATIENT: &str = "stalled_client: 1s";
const STATUS_200: &[u8] = &[0x88];

/// Answers at once, and then waits for the rest of the body.
fn early_server() -> CountedServer {
    CountedServer::http1(|stream| {
        let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        let _ = stream.write_all(head);
    })
}

/// The same in HTTP/2. The number counts the streams that were reset.
fn early_server_http2(
    then: impl Fn(u32, &mut TcpStream) + Clone + Send + 'static,
) -> (CountedServer, Arc<AtomicUsize>) {
    let resets = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&resets);
    let server = CountedServer::http2(move |kind, number, stream| match kind {
        HEADERS => {
            let head = frame(HEADERS, END_HEADERS, number, STATUS_200);
            let _ = stream.write_all(&[head, frame(DATA, 0, number, b"first")].concat());
            then(number, stream);
        }
        RST_STREAM => {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        _ => {}
    });
    (server, resets)
}

/// A POST over HTTP/2 whose body begins and does not go on.
fn stop_over_http2(sluicegate: &Sluicegate, fields: &[u8]) -> (H2Connection, u32) {
    let mut connection = H2Connection::start(sluicegate.proxy, &[]);
    let stream = connection.next_stream();
    let fields = [&post_fields("/talk"), fields].concat();
    connection.send(&frame(HEADERS, END_HEADERS, stream, &fields));
    connection.send(&frame(DATA, 0, stream, b"some"));
    eventually("the answer begins", || {
        connection.received().body_bytes.get(&stream) == Some(&5)
    });
    (connection, stream)
}

#[track_caller]
fn wait_for_reset(connection: &H2Connection, stream: u32) {
    eventually("the stream is reset", || {
        connection.received().reset_streams.contains(&stream)
    });
    assert!(!connection.received().ended_streams.contains(&stream));
}

#[test]
fn a_body_over_http1_that_stops_breaks_the_response_off_and_frees_the_server() {
    for framing in [
        "Content-Length: 1000\r\n\r\nsome",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
        "Transfer-Encoding: chunked\r\n\r\n40\r\nsome",
    ] {
        let server = early_server();
        let sluicegate = server.proxied(PATIENT);
        let mut stream = sluicegate.connect();
        let request = format!("POST /talk HTTP/1.1\r\nHost: a.example\r\n{framing}");
        stream.write_all(request.as_bytes()).unwrap();
        assert!(
            read_head(&mut stream).unwrap().contains(" 200 "),
            "{framing}"
        );
        let rest = read_to_end(stream);
        assert!(
            rest.contains("first") && !rest.contains("\r\n0\r\n"),
            "{rest}"
        );
        wait_for_slow(&sluicegate, 1);
        assert_eq!(sluicegate.metric(STALLED_SERVER), 0);
        server.wait_for_open(0);
    }
}

#[test]
fn a_body_over_http2_that_stops_is_reset_and_frees_the_server() {
    let server = early_server();
    let sluicegate = server.proxied(PATIENT);
    let (connection, stream) = stop_over_http2(&sluicegate, &[]);
    wait_for_reset(&connection, stream);
    wait_for_slow(&sluicegate, 1);
    server.wait_for_open(0);
}

#[test]
fn a_body_that_stops_is_reset_at_a_server_of_http2_too() {
    let (server, resets) = early_server_http2(|_, _| {});
    let sluicegate = server.proxied(PATIENT);
    let (connection, stream) = stop_over_http2(&sluicegate, &[]);
    wait_for_reset(&connection, stream);
    wait_for_slow(&sluicegate, 1);
    eventually("the server is told", || resets.load(Ordering::SeqCst) == 1);
}

/// A call may be silent for as long as the server speaks, and not for ever when both are silent.
#[test]
fn a_grpc_call_may_pause_while_the_server_speaks_and_ends_when_both_are_silent() {
    const MESSAGES: usize = 10;
    let (server, resets) = early_server_http2(|number, stream| {
        for _ in 0..MESSAGES {
            // bounded wait: a message every 300 ms, for three times as long as a client may stop
            thread::sleep(Duration::from_millis(300));
            let _ = stream.write_all(&frame(DATA, 0, number, b"more"));
        }
    });
    let sluicegate = server.proxied(PATIENT);
    let (connection, stream) =
        stop_over_http2(&sluicegate, &field("content-type", "application/grpc"));
    eventually("every message comes", || {
        connection.received().body_bytes[&stream] == 5 + 4 * MESSAGES
    });
    assert!(connection.received().reset_streams.is_empty());
    wait_for_reset(&connection, stream);
    eventually("the server is told", || resets.load(Ordering::SeqCst) == 1);
}
