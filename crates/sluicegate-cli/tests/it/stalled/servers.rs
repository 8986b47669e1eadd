//! Servers that stop in the middle of their answer.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use sluicegate_testkit::eventually;
use sluicegate_testkit::h2_frames::{
    DATA, END_HEADERS, END_STREAM, H2Connection, HEADERS, frame, get_fields,
};
use sluicegate_testkit::raw_socket::{exchange_on, read_head};

use super::{CountedServer, STALLED_SERVER};
use crate::slow_clients::SLOW;

const PATIENT: &str = "stalled_server: 1s";
const STATUS_200: &[u8] = &[0x88];

/// A server that stops in each way in which a body can be framed.
fn stopping_servers() -> Vec<(&'static str, CountedServer)> {
    let http1 = |response: &'static str| {
        CountedServer::http1(move |stream| {
            let _ = stream.write_all(response.as_bytes());
        })
    };
    vec![
        (
            "with a length",
            http1("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun"),
        ),
        (
            "in chunks",
            http1("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n"),
        ),
        (
            "within a chunk",
            http1("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nbegun"),
        ),
        (
            "until the end of the connection",
            http1("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbegun"),
        ),
        (
            "over HTTP/2",
            CountedServer::http2(|kind, number, stream| {
                if kind == HEADERS {
                    let head = frame(HEADERS, END_HEADERS, number, STATUS_200);
                    let body = frame(DATA, 0, number, b"begun");
                    let _ = stream.write_all(&[head, body].concat());
                }
            }),
        ),
    ]
}

#[test]
fn a_response_whose_server_stops_is_broken_off_for_clients_of_http1() {
    for (how, server) in stopping_servers() {
        let sluicegate = server.proxied(PATIENT);
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let response = exchange_on(sluicegate.connect(), request);
        assert!(response.contains("begun"), "{how}: {response}");
        let is_complete = response.contains("\r\n0\r\n") || response.body().len() >= 100;
        assert!(!is_complete, "{how}: {response}");
        assert_eq!(sluicegate.metric(STALLED_SERVER), 1, "{how}");
        assert_eq!(sluicegate.metric(SLOW), 0, "{how}");
        if how != "over HTTP/2" {
            server.wait_for_open(0);
        }
    }
}

#[test]
fn a_response_whose_server_stops_is_reset_for_clients_of_http2_and_others_go_on() {
    for (how, server) in stopping_servers() {
        let sluicegate = server.proxied(PATIENT);
        let mut connection = H2Connection::start(sluicegate.proxy, &[]);
        let stream = connection.next_stream();
        let flags = END_HEADERS | END_STREAM;
        connection.send(&frame(HEADERS, flags, stream, &get_fields("/")));
        eventually(how, || {
            connection.received().reset_streams.contains(&stream)
        });
        let received = connection.received();
        assert!(!received.ended_streams.contains(&stream), "{how}");
        drop(received);
        assert_eq!(sluicegate.metric(STALLED_SERVER), 1, "{how}");
        assert_eq!(connection.get("/next"), 200, "{how}");
        drop(connection);
        if how != "over HTTP/2" {
            server.wait_for_open(0);
        }
    }
}

/// For a client that knows the end of a response by that of the connection, an end like any other would be a lie.
#[test]
fn a_client_of_http10_sees_a_reset_when_the_server_stops() {
    for (how, server) in stopping_servers() {
        let sluicegate = server.proxied(PATIENT);
        let mut stream = sluicegate.connect();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let head = read_head(&mut stream).unwrap();
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        let has_length = head.to_ascii_lowercase().contains("content-length");
        assert!(ended.is_err() || has_length, "{how}: {head}{rest:?}");
    }
}

/// The time is that between two parts, not that of the response.
#[test]
fn a_server_may_take_its_time_as_long_as_something_comes() {
    let server = CountedServer::http1(|stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
        for _ in 0..10 {
            // bounded wait: ten parts take twice as long as a server may be silent
            thread::sleep(Duration::from_millis(400));
            let _ = stream.write_all(b"x");
        }
    });
    let sluicegate = server.proxied("stalled_server: 2s");
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    let response = exchange_on(sluicegate.connect(), request);
    assert_eq!(response.body(), "xxxxxxxxxx");
    assert_eq!(sluicegate.metric(STALLED_SERVER), 0);
}
