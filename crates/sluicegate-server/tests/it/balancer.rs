//! Connections from a balancer that says for whom they are, in the PROXY protocol.

use sluicegate_core::{Limit, Quota};
use sluicegate_testkit::{UpstreamRecorder, raw_socket};

use super::edge::Edge;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
/// The beginning of version 2, then `PROXY`, TCP over IPv4, twelve bytes of addresses.
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c";

fn behind_a_balancer(recorder: &UpstreamRecorder, limits: Vec<Limit>) -> Edge {
    Edge::with(recorder.address, limits, |config| {
        config.proxy.as_mut().unwrap().proxy_protocol_from = vec!["127.0.0.0/8".parse().unwrap()];
    })
}

#[test]
fn the_source_that_a_balancer_names_is_the_caller() {
    let recorder = UpstreamRecorder::start();
    let one_a_day = Limit::per_client("day", Quota::per_day(1).burst(1));
    let edge = behind_a_balancer(&recorder, vec![one_a_day]);
    let status =
        |header: &[u8]| raw_socket::exchange(edge.address, &[header, REQUEST].concat()).status();
    assert_eq!(status(b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 80\r\n"), 200);
    assert_eq!(status(b"PROXY TCP4 192.0.2.1 192.0.2.9 4712 80\r\n"), 429);
    assert_eq!(
        status(&[V2, &[192, 0, 2, 1, 192, 0, 2, 9, 1, 2, 0, 80]].concat()),
        429
    );
    assert_eq!(
        status(&[V2, &[192, 0, 2, 2, 192, 0, 2, 9, 1, 2, 0, 80]].concat()),
        200
    );
    assert_eq!(status(b"PROXY TCP6 2001:db8::1 ::1 4711 80\r\n"), 200);
    assert_eq!(status(b"PROXY UNKNOWN\r\n"), 200);
    assert_eq!(status(b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"), 429);
    let callers: Vec<_> = recorder
        .requests()
        .iter()
        .map(|recorded| recorded.header_values("x-forwarded-for").join("|"))
        .collect();
    assert_eq!(
        callers,
        ["192.0.2.1", "192.0.2.2", "2001:db8::1", "127.0.0.1"]
    );
}

#[test]
fn a_connection_without_a_right_header_ends_unanswered() {
    let recorder = UpstreamRecorder::start();
    let edge = behind_a_balancer(&recorder, Vec::new());
    for header in [
        &b""[..],
        b"PROXY TCP4 192.0.2.1 192.0.2.9 4711\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 80\n",
        b"PROXY TCP4 192.0.2.01 192.0.2.9 4711 80\r\n",
        b"PROXY UDP4 192.0.2.1 192.0.2.9 4711 80\r\n",
        b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 80\r\nPROXY TCP4 192.0.2.1 192.0.2.9 4711 80\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x11\x11\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\0",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
    ] {
        let answers = raw_socket::exchange(edge.address, &[header, REQUEST].concat());
        let is_refused = matches!(answers.statuses()[..], [] | [400]);
        assert!(
            is_refused,
            "{:?}: {answers:?}",
            String::from_utf8_lossy(header)
        );
    }
    assert!(recorder.requests().is_empty());
}

#[test]
fn a_peer_that_is_no_balancer_cannot_name_a_source() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    for header in [
        &b"PROXY TCP4 192.0.2.1 192.0.2.9 4711 80\r\n"[..],
        &[V2, &[0; 12]].concat(),
    ] {
        let answers = raw_socket::exchange(edge.address, &[header, REQUEST].concat());
        assert!(matches!(answers.statuses()[..], [] | [400]), "{answers:?}");
    }
    assert!(recorder.requests().is_empty());
}
