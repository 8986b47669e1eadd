//! Servers that answer in odd ways: early, in parts, too much, too little, or something that is no answer.

use std::io::{Read, Write};
use std::net::TcpStream;

use sluicegate_testkit::raw_socket::{self, read_head};
use sluicegate_testkit::{HttpResponse, http_client};

use super::edge::Edge;

/// A proxy in front of a server that hands each connection to `serve`, one after the other.
pub fn server(serve: impl Fn(usize, TcpStream) + Send + 'static) -> Edge {
    Edge::start(raw_socket::serve_connections(serve), Vec::new())
}

/// Answers the first request of a connection with these bytes, and closes it.
pub fn answered_with(answer: &'static str) -> Edge {
    server(move |_, mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(answer.as_bytes());
    })
}

fn get(edge: &Edge) -> HttpResponse {
    http_client::request(edge.address, "GET", "/", &[])
}

#[test]
fn what_comes_before_the_answer_is_not_taken_for_it() {
    let edge = answered_with(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n\
         HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    );
    let answers = get(&edge);
    assert_eq!((answers.status(), answers.raw_body()), (200, "ok"));
}

#[test]
fn something_that_is_no_answer_is_502() {
    for answer in [
        "SSH-2.0-server\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nBad Name: x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nCut: of",
        "",
    ] {
        assert_eq!(get(&answered_with(answer)).status(), 502, "{answer:?}");
    }
}

#[test]
fn a_body_ends_where_the_server_says_or_with_its_connection() {
    let until_end = get(&answered_with("HTTP/1.1 200 OK\r\n\r\nall of it"));
    assert!(until_end.text.contains("all of it"), "{}", until_end.text);
    assert_eq!(
        until_end.header("transfer-encoding"),
        Some("chunked"),
        "the client learns that it is complete"
    );
    let chunked = get(&answered_with(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ));
    assert!(
        chunked.raw_body().contains("abc") && chunked.raw_body().ends_with("0\r\n\r\n"),
        "{}",
        chunked.text
    );
    for none in [
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n",
    ] {
        assert_eq!(get(&answered_with(none)).raw_body(), "", "{none}");
    }
    let head = answered_with("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let head = http_client::request(head.address, "HEAD", "/", &[]);
    assert_eq!(
        (head.header("content-length"), head.raw_body()),
        (Some("5"), "")
    );
}

#[test]
fn an_answer_that_was_cut_off_does_not_look_complete() {
    let length = get(&answered_with(
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    ));
    assert!(length.raw_body().len() < 10, "{}", length.text);
    for chunks in [
        "5\r\nha",
        "2\r\nha\r\n",
        "2\r\nha\r\n0\r\n",
        "x\r\n",
        "2\r\nhalf\r\n0\r\n\r\n",
    ] {
        let edge = server(move |_, mut stream| {
            read_head(&mut stream);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"
            );
        });
        let cut = get(&edge);
        assert!(
            !cut.raw_body().ends_with("0\r\n\r\n"),
            "{chunks:?}: {}",
            cut.text
        );
    }
}

/// A server that will not have a body may say so, and end the connection, before all of it was sent.
#[test]
fn an_early_answer_reaches_a_client_that_still_sends() {
    let edge = server(|_, mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(
            b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!",
        );
    });
    let mut client = raw_socket::connect(edge.address);
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
        .unwrap();
    let answer = read_head(&mut client).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

/// Bytes behind an answer belong to no request: whoever came next would take them for its answer.
#[test]
fn a_connection_with_more_than_the_answer_is_not_used_again() {
    let edge = server(|number, mut stream| {
        read_head(&mut stream);
        let more = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison";
        // In one piece: what comes only after the next request was sent cannot be told from its answer.
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}{more}");
        let _ = stream.write_all(answer.as_bytes());
        // Until the proxy ends it.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    for number in ["0", "1", "2"] {
        assert_eq!(get(&edge).raw_body(), number);
    }
}

#[test]
fn a_connection_that_said_it_would_close_is_not_used_again() {
    for close in [
        "HTTP/1.1 200 OK\r\nConnection: close\r\n",
        "HTTP/1.0 200 OK\r\n",
    ] {
        let edge = server(move |number, mut stream| {
            read_head(&mut stream);
            let _ = write!(stream, "{close}Content-Length: 1\r\n\r\n{number}");
            // It goes on reading: whatever came now would never be answered.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        assert_eq!(
            [get(&edge).raw_body(), get(&edge).raw_body()],
            ["0", "1"],
            "{close}"
        );
    }
}

/// The server may have acted on it before it ended the connection.
#[test]
fn a_request_that_changes_something_is_not_sent_twice() {
    let edge = server(|number, mut stream| {
        read_head(&mut stream);
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}"
        );
        // The second request of a connection is read and never answered.
        read_head(&mut stream);
    });
    assert_eq!(get(&edge).raw_body(), "0");
    assert_eq!(
        http_client::request(edge.address, "POST", "/", &["Content-Length: 0"]).status(),
        502
    );
    assert_eq!(get(&edge).raw_body(), "1");
    let again = get(&edge);
    assert_eq!(
        (again.status(), again.raw_body()),
        (200, "2"),
        "one that changes nothing is"
    );
}
