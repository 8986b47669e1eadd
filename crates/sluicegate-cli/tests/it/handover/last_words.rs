//! Answers after which a connection closes, to clients that have not stopped sending.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use sluicegate_testkit::h2_frames::{DATA, GOAWAY, PREFACE, SETTINGS, frame};
use sluicegate_testkit::raw_socket;

use crate::running::Sluicegate;

const CONFIG: &str = "
proxy: { listen: '127.0.0.1:0', max_body: 8MiB }
admin: { listen: '127.0.0.1:0' }
decisions: { http: '127.0.0.1:0', grpc: '127.0.0.1:0', resp: '127.0.0.1:0' }
limits:
  - { name: closed, key: [client_ip], rate: 1/h, burst: 1, match: { path: /spent } }
";

/// Bytes that a client sends although it could have its answer.
const MORE: usize = 4 << 20;

/// Sends `first`, and a moment later megabytes more; returns what comes back until the server closes.
/// A reset anywhere would take the answer back.
fn say(address: SocketAddr, first: &[u8]) -> Vec<u8> {
    let mut stream = raw_socket::connect(address);
    stream.write_all(first).unwrap();
    // bounded wait: the server has answered by now, or has these bytes to read as well
    thread::sleep(Duration::from_millis(100));
    let sending = send_more(stream.try_clone().unwrap());
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    read.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&answer)));
    sending.join().unwrap();
    answer
}

fn send_more(mut stream: TcpStream) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let part = [b'x'; 64 * 1024];
        for sent in (0..MORE).step_by(part.len()) {
            stream
                .write_all(&part)
                .unwrap_or_else(|error| panic!("{error} after {sent} bytes"));
        }
        stream.shutdown(Shutdown::Write).unwrap();
    })
}

#[test]
fn the_last_answer_arrives_whatever_the_client_still_sends() {
    let sluicegate = Sluicegate::start(CONFIG);
    let (admin, http, resp) = (
        sluicegate.admin.unwrap(),
        sluicegate.decisions.unwrap(),
        sluicegate.resp.unwrap(),
    );
    assert_eq!(sluicegate.get("/spent", &[]).status(), 200);
    let post = |path: &str, host: &str| {
        let length = if path == "/large" { 3 * MORE } else { MORE };
        format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n")
    };
    let chunked =
        "POST /a HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n";
    let long = format!("GET /{} HTTP/1.1\r\n", "a".repeat(20_000));
    let many = format!(
        "GET / HTTP/1.1\r\nHost: a.example\r\n{}",
        "A: b\r\n".repeat(5_000)
    );
    let two = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
    for (address, first, expected) in [
        // Not HTTP, too long, too many, malformed, ambiguous, too large, limited.
        (
            sluicegate.proxy,
            "hello\r\n\r\n".to_owned(),
            "HTTP/1.1 400 ",
        ),
        (sluicegate.proxy, long, "HTTP/1.1 431 "),
        (sluicegate.proxy, many, "HTTP/1.1 431 "),
        (sluicegate.proxy, chunked.to_owned(), "HTTP/1.1 400 "),
        (sluicegate.proxy, two.to_owned(), "HTTP/1.1 400 "),
        (
            sluicegate.proxy,
            post("/large", "a.example"),
            "HTTP/1.1 413 ",
        ),
        (
            sluicegate.proxy,
            post("/spent", "a.example"),
            "HTTP/1.1 429 ",
        ),
        (http, "hello\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        (http, post("/v1/check", "a"), "HTTP/1.1 4"),
        (http, post("/nothing", "a"), "HTTP/1.1 404 "),
        (admin, post("/v1/reload", "elsewhere.example"), "HTTP/1.1 4"),
        (admin, post("/nothing", &admin.to_string()), "HTTP/1.1 4"),
        (admin, "hello\r\n\r\n".to_owned(), "HTTP/1.1 400 "),
        (resp, "HELLO WORLD AND MORE\r\n".to_owned(), "-"),
        (resp, "*1000000000\r\n".to_owned(), "-"),
        (resp, "QUIT\r\n".to_owned(), "+OK\r\n"),
    ] {
        let answer = say(address, first.as_bytes());
        let answer = String::from_utf8_lossy(&answer);
        let head = &first[..first.len().min(60)];
        assert!(answer.starts_with(expected), "{head:?}: {answer}");
    }
}

/// Over HTTP/2 the last words are GOAWAY, with the reason.
#[test]
fn the_last_frame_arrives_whatever_the_client_still_sends() {
    let sluicegate = Sluicegate::start(CONFIG);
    for address in [sluicegate.proxy, sluicegate.grpc.unwrap()] {
        // Data on no stream is an error of the connection.
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        let first = [begin, frame(DATA, 0, 0, b"nobody's")].concat();
        let answer = say(address, &first);
        let (mut rest, mut kinds) = (&answer[..], Vec::new());
        while let [high, middle, low, kind, _, _, _, _, _, payload @ ..] = rest {
            kinds.push(*kind);
            let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
            rest = payload.get(length..).expect("a frame was cut off");
        }
        assert!(
            rest.is_empty() && kinds.last() == Some(&GOAWAY),
            "{kinds:?}"
        );
    }
}
