//! Requests and responses on their way through, unchanged.

use std::io::Write;

use sluicegate_testkit::UpstreamRecorder;
use sluicegate_testkit::raw_socket::read_response;

use super::running::Sluicegate;

#[test]
fn a_request_arrives_as_it_was_sent_and_the_answer_too() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = Sluicegate::in_front_of(&upstream.url());
    let request =
        b"POST /a/b?c=d HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\nConnection: close\r\nX-Own: 1\r\n\r\nhello";
    let answer = sluicegate.exchange(request);
    assert_eq!(answer.status(), 200, "{answer}");
    assert_eq!(answer.body(), "ok", "{answer}");
    let recorded = upstream.only_request();
    assert_eq!(
        (recorded.method.as_str(), recorded.target.as_str()),
        ("POST", "/a/b?c=d")
    );
    assert_eq!(recorded.body, b"hello");
    assert_eq!(recorded.header("x-own"), Some("1"));
    assert_eq!(recorded.header("host"), Some("a.example"));
}

#[test]
fn connections_are_used_again_on_both_sides() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = Sluicegate::in_front_of(&upstream.url());
    let mut stream = sluicegate.connect();
    for _ in 0..50 {
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
            .unwrap();
        assert_eq!(read_response(&mut stream).body(), "ok");
    }
    assert_eq!(upstream.count(), 50);
}
