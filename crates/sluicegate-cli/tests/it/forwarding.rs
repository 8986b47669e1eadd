//! Requests on their way through (G4).

use std::io::{Read, Write};

use super::running::{Sluicegate, status};
use super::upstream::Upstream;

#[test]
fn a_request_arrives_as_it_was_sent_and_the_answer_too() {
    let upstream = Upstream::start();
    let sluicegate = Sluicegate::in_front_of(&upstream.url());
    let request =
        b"POST /a/b?c=d HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nConnection: close\r\nX-Own: 1\r\n\r\nhello";
    let answer = sluicegate.exchange(request);
    assert_eq!(status(&answer), 200, "{answer}");
    assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    let seen = upstream.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (
            seen[0].head.method.as_str(),
            seen[0].head.uri.to_string().as_str()
        ),
        ("POST", "/a/b?c=d")
    );
    assert_eq!(
        (
            seen[0].body.as_ref(),
            seen[0].head.headers["x-own"].as_bytes()
        ),
        (&b"hello"[..], &b"1"[..])
    );
    assert_eq!(seen[0].head.headers["host"], "a.example");
}

#[test]
fn connections_are_used_again_on_both_sides() {
    let upstream = Upstream::start();
    let sluicegate = Sluicegate::in_front_of(&upstream.url());
    let mut stream = sluicegate.connect();
    for _ in 0..50 {
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\nok") {
            let mut byte = [0; 1024];
            let read = stream.read(&mut byte).unwrap();
            assert!(read > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&byte[..read]);
        }
    }
    assert_eq!(upstream.count(), 50);
}
