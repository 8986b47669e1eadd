//! HTTP/1 clients of every habit: several requests in one packet, a request byte by byte, old
//! versions, clients that wait for 100 and clients that go away.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use sluicegate_testkit::raw_socket::{self, read_head};
use sluicegate_testkit::{STEP_TIMEOUT, UpstreamRecorder, http_client};
use socket2::{Domain, Socket, Type};

use super::edge::{Edge, one_a_day};
use super::servers::{answered_with, server};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn requests_in_one_packet_are_answered_one_after_the_other() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    let get =
        |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{more}\r\n");
    let post = "POST /b HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello".to_owned();
    let requests = [
        get("/a", ""),
        post,
        get("/c", "Connection: close\r\n"),
        get("/never", ""),
    ]
    .concat();
    assert_eq!(
        raw_socket::exchange(edge.address, requests.as_bytes()).statuses(),
        [200, 200, 200]
    );
    let recorded = recorder.requests();
    assert_eq!(
        recorded
            .iter()
            .map(|request| &request.target)
            .collect::<Vec<_>>(),
        ["/a", "/b", "/c"]
    );
    assert_eq!(recorded[1].body, b"hello");
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    let text = b"POST /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n\
                 5\r\nhello\r\n0\r\n\r\n";
    let mut stream = raw_socket::connect(edge.address);
    text.iter()
        .for_each(|byte| stream.write_all(&[*byte]).unwrap());
    assert_eq!(raw_socket::read_to_end(stream).status(), 200);
    assert_eq!(recorder.requests()[0].body, b"hello");
}

/// RFC 9110, section 10.1.1.
#[test]
fn a_client_that_waits_for_a_word_gets_it_unless_it_need_not_send() {
    let edge = Edge::start(UpstreamRecorder::start().address, one_a_day());
    let head =
        b"PUT / HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    let mut stream = raw_socket::connect(edge.address);
    stream.write_all(head).unwrap();
    assert_eq!(
        read_head(&mut stream).as_deref(),
        Some("HTTP/1.1 100 Continue\r\n\r\n")
    );
    stream.write_all(b"hello").unwrap();
    assert!(
        read_head(&mut stream)
            .unwrap()
            .starts_with("HTTP/1.1 200 OK\r\n")
    );

    let refused = raw_socket::exchange(edge.address, head);
    assert_eq!(
        (refused.status(), refused.header("connection")),
        (429, Some("close"))
    );
    assert!(!refused.text.contains("100 Continue"), "{}", refused.text);

    let nobody = Edge::start(raw_socket::closed_address(), Vec::new());
    let failed = raw_socket::exchange(nobody.address, head);
    assert_eq!(
        (failed.status(), failed.header("connection")),
        (502, Some("close")),
        "what follows is no request"
    );
}

/// A server may answer before it has read a body. What is left of that body is never taken for a request.
#[test]
fn the_rest_of_a_body_that_nobody_wanted_is_no_request() {
    let (told, heard) = mpsc::channel();
    let edge = server(move |_, mut stream| {
        while let Some(head) = read_head(&mut stream) {
            told.send(head).unwrap();
            stream.write_all(OK).unwrap();
        }
    });
    let mut stream = raw_socket::connect(edge.address);
    stream
        .write_all(b"POST /a HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000\r\n\r\nabc")
        .unwrap();
    assert!(
        read_head(&mut stream)
            .unwrap()
            .starts_with("HTTP/1.1 200 OK\r\n")
    );
    let _ = stream.write_all(b"GET /inner HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let rest = raw_socket::read_to_end(stream);
    assert_eq!(rest.text, "ok", "one answer, and the end");
    assert!(
        heard
            .recv_timeout(STEP_TIMEOUT)
            .unwrap()
            .starts_with("POST /a ")
    );
    assert!(heard.try_iter().all(|head| !head.contains("/inner")));
}

/// The system takes back what was sent on a connection that is closed while something on it is unread.
#[test]
fn an_early_answer_is_not_lost_because_the_body_was_not_read() {
    const LENGTH: usize = 40_000;
    let edge = server(|_, mut stream| {
        read_head(&mut stream);
        let head = format!("HTTP/1.1 413 Too Large\r\nContent-Length: {LENGTH}\r\n\r\n");
        stream
            .write_all(&[head.as_bytes(), &[b'x'; LENGTH]].concat())
            .unwrap();
    });
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // Most of the answer has no room at the client, and waits at the proxy's end of the connection.
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&edge.address.into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(STEP_TIMEOUT)).unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\nabc")
        .unwrap();
    let mut first = [0];
    stream.read_exact(&mut first).unwrap();
    let _ = stream.write_all(&[b'y'; 1_000]);
    // bounded wait: whoever would end the connection now has time to
    thread::sleep(Duration::from_millis(200));
    let answer = raw_socket::read_to_end(stream);
    assert!(
        answer.text.len() > LENGTH,
        "{} bytes came",
        answer.text.len()
    );
}

#[test]
fn old_clients_get_what_they_understand() {
    let chunked =
        answered_with("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    let answer = raw_socket::exchange(
        chunked.address,
        b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    );
    assert_eq!(
        (answer.status(), answer.raw_body()),
        (200, "abc"),
        "without chunks, to the end of the connection"
    );
    assert_eq!(answer.header("transfer-encoding"), None);

    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    let once = "GET / HTTP/1.0\r\n\r\n";
    assert_eq!(
        raw_socket::exchange(edge.address, once.repeat(2).as_bytes()).statuses(),
        [200]
    );
    let kept = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let answers = raw_socket::exchange(edge.address, [kept, once].concat().as_bytes());
    assert_eq!(
        (answers.statuses(), answers.header("connection")),
        (vec![200, 200], Some("keep-alive"))
    );
}

#[test]
fn an_answer_without_a_body_is_followed_by_the_next() {
    for (method, answer, length) in [
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            Some("5"),
        ),
        (
            "HEAD",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            None,
        ),
        (
            "GET",
            "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
            None,
        ),
        (
            "GET",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
            Some("5"),
        ),
        (
            "GET",
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            Some("0"),
        ),
    ] {
        let edge = server(move |_, mut stream| {
            while read_head(&mut stream).is_some() {
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let request = |more: &str| format!("{method} / HTTP/1.1\r\nHost: a.example\r\n{more}\r\n");
        let both = [request(""), request("Connection: close\r\n")].concat();
        let answers = raw_socket::exchange(edge.address, both.as_bytes());
        assert_eq!(
            answers.statuses().len(),
            2,
            "{method} {answer:?}: {}",
            answers.text
        );
        assert_eq!(
            answers.header("content-length"),
            length,
            "{method} {answer:?}"
        );
        assert_eq!(
            answers.header("transfer-encoding"),
            None,
            "{method} {answer:?}"
        );
    }
}

/// The server need not go on with an answer that nobody reads.
#[test]
fn a_request_whose_client_has_gone_is_given_up() {
    for request in [
        "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc",
    ] {
        let (told, heard) = mpsc::channel();
        let edge = server(move |_, mut stream| {
            read_head(&mut stream);
            told.send("asked").unwrap();
            let mut rest = Vec::new();
            // The proxy ends its connection to us, cleanly or not.
            let _ = stream.read_to_end(&mut rest);
            told.send("given up").unwrap();
        });
        let mut stream = raw_socket::connect(edge.address);
        stream.write_all(request.as_bytes()).unwrap();
        assert_eq!(heard.recv_timeout(STEP_TIMEOUT), Ok("asked"));
        drop(stream);
        // Long before the server's own time is over.
        assert_eq!(
            heard.recv_timeout(Duration::from_secs(6)),
            Ok("given up"),
            "{request:?}"
        );
    }
}

#[test]
fn what_is_no_request_is_told_why() {
    let edge = Edge::start(UpstreamRecorder::start().address, Vec::new());
    for (request, status, words) in [
        (
            "\u{16}\u{3}\u{1}hello\r\n\r\n",
            400,
            "the first line is none of a request",
        ),
        (
            "GET / HTTP/3.0\r\n\r\n",
            400,
            "the version is neither HTTP/1.1 nor HTTP/1.0",
        ),
        (
            "GET / HTTP/1.1\r\nA : b\r\n\r\n",
            400,
            "the name of a header is none",
        ),
    ] {
        let answer = raw_socket::exchange(edge.address, request.as_bytes());
        assert_eq!(
            (
                answer.status(),
                answer.raw_body(),
                answer.header("connection")
            ),
            (status, words, Some("close"))
        );
    }
    let long = raw_socket::exchange(
        edge.address,
        format!("GET /{}", "x".repeat(100_000)).as_bytes(),
    );
    assert_eq!(
        (long.status(), long.raw_body()),
        (414, "the target is too long")
    );
    let large = raw_socket::exchange(
        edge.address,
        format!("GET / HTTP/1.1\r\na: {}", "x".repeat(100_000)).as_bytes(),
    );
    assert_eq!(
        (large.status(), large.raw_body()),
        (431, "the head is too large")
    );
}

#[test]
fn every_answer_has_one_date() {
    let dates = |answer: &'static str| {
        let answer = http_client::request(answered_with(answer).address, "GET", "/", &[]);
        let lines = answer
            .text
            .split("\r\n")
            .filter(|line| line.to_ascii_lowercase().starts_with("date:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let ours = dates(str::from_utf8(OK).unwrap());
    assert!(ours.len() == 1 && ours[0].ends_with(" GMT"), "{ours:?}");
    let theirs = dates(
        "HTTP/1.1 200 OK\r\nDate: Mon, 16 Nov 2026 04:10:20 GMT\r\nContent-Length: 0\r\n\r\n",
    );
    assert_eq!(theirs, ["Date: Mon, 16 Nov 2026 04:10:20 GMT"]);
}
