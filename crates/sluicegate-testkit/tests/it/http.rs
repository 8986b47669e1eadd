//! The HTTP client, the recorder and the frames, against each other.

use sluicegate_testkit::h2_frames::{self, H2Connection, PING, StreamEnd, frame};
use sluicegate_testkit::{
    HttpRequest, UpstreamProtocol, UpstreamRecorder, UpstreamResponse, eventually, raw_socket,
};

fn send(request: &HttpRequest, upstream: &UpstreamRecorder) -> sluicegate_testkit::HttpResponse {
    if upstream.url().starts_with("h2c:") {
        request.send_http2(upstream.address)
    } else {
        request.send(upstream.address)
    }
}

#[test]
fn requests_and_responses_are_carried_whole_in_both_versions() {
    for protocol in UpstreamProtocol::ALL {
        let upstream = UpstreamRecorder::answering_with(protocol, |request| {
            UpstreamResponse::ok(request.body.clone())
                .header("x-own", "first")
                .header("x-own", "second")
                .trailer("x-sum", "5")
        });
        let request = HttpRequest::post("/a?b", "hello")
            .host("b.example")
            .headers(&["X-Tenant-Id: acme", "Trailer: X-Mark"])
            .trailer("X-Mark: 3");
        let response = send(&request, &upstream);
        assert_eq!((response.status(), response.body()), (200, "hello"));
        assert_eq!(response.header_values("X-Own"), ["first", "second"]);
        assert_eq!(response.trailer("x-sum"), Some("5"));
        let recorded = upstream.only_request();
        assert_eq!(recorded.method, "POST");
        assert_eq!((recorded.target.as_str(), recorded.path()), ("/a?b", "/a"));
        assert_eq!(recorded.header("x-tenant-id"), Some("acme"));
        assert_eq!(recorded.trailer("x-mark"), Some("3"));
        assert_eq!(
            (&recorded.body[..], recorded.is_complete),
            (&b"hello"[..], true)
        );
        let host = recorded.header("host").map(str::to_owned);
        assert_eq!(recorded.authority.or(host).as_deref(), Some("b.example"));
    }
}

#[test]
fn a_large_body_is_carried_whole_in_both_versions() {
    for protocol in UpstreamProtocol::ALL {
        let large = vec![7; 3 << 20];
        let upstream = UpstreamRecorder::answering_with(protocol, |request| {
            UpstreamResponse::ok(request.body.clone())
        });
        let response = send(&HttpRequest::post("/", large.clone()), &upstream);
        assert_eq!(response.body_bytes(), large, "{protocol:?}");
    }
}

#[test]
fn nobody_who_listens_is_status_zero() {
    let nobody = raw_socket::closed_address();
    assert_eq!(HttpRequest::get("/").send(nobody).status(), 0);
    assert_eq!(HttpRequest::get("/").send_http2(nobody).status(), 0);
}

#[test]
fn the_recorder_names_the_fault_of_a_request_and_does_not_answer_it() {
    let upstream = UpstreamRecorder::start();
    for (request, fault) in [
        ("GET / HTTP/1.1\r\n\r\n", "0 hosts, 0 lengths, 0 codings"),
        ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", "request line"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n",
            "line \"A : b\"",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
            "line",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "1 hosts, 1 lengths, 1 codings",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
            "chunk size \"0x1\"",
        ),
    ] {
        let response = raw_socket::exchange(upstream.address, request.as_bytes());
        assert!(response.is_empty(), "{request:?}: {response}");
        let recorded = upstream.requests().pop().unwrap();
        let found = recorded.fault.unwrap_or_default();
        assert!(found.starts_with(fault), "{request:?}: {found:?}");
    }
}

#[test]
fn a_request_that_breaks_off_is_recorded_as_incomplete() {
    let upstream = UpstreamRecorder::start();
    let mut stream = raw_socket::connect(upstream.address);
    let part = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel";
    std::io::Write::write_all(&mut stream, part).unwrap();
    drop(stream);
    eventually("its head has come", || upstream.count() == 1);
    let recorded = upstream.only_request();
    assert_eq!((recorded.is_complete, recorded.fault), (false, None));
}

#[test]
fn a_connection_may_carry_several_requests() {
    let upstream = UpstreamRecorder::start();
    let mut stream = raw_socket::connect(upstream.address);
    for _ in 0..3 {
        let request = HttpRequest::get("/").keep_open();
        std::io::Write::write_all(&mut stream, &request.to_http1()).unwrap();
        assert_eq!(raw_socket::read_response(&mut stream).body(), "ok");
    }
    assert_eq!(upstream.count(), 3);
}

#[test]
fn frames_written_by_hand_are_answered() {
    let upstream = UpstreamRecorder::start_with(UpstreamProtocol::Http2);
    let mut connection = H2Connection::start(upstream.address, &[]);
    assert_eq!((connection.get("/a"), connection.get("/b")), (200, 200));
    assert!(connection.send(&frame(PING, 0, 0, &[0; 8])));
    // A PING has eight bytes; another length is an error of the connection.
    connection.send(&frame(PING, 0, 0, &[]));
    connection.wait_for_end();

    let good = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", "/c"),
    ];
    let mut fields: Vec<h2_frames::Field> = good
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
    let end = h2_frames::exchange(upstream.address, &fields, None);
    assert!(
        matches!(end, StreamEnd::Response { status: 200, .. }),
        "{end:?}"
    );
    fields.push(("Upper".into(), "x".into()));
    let end = h2_frames::exchange(upstream.address, &fields, None);
    assert!(
        !matches!(end, StreamEnd::Response { status: 200, .. }),
        "{end:?}"
    );
    let targets: Vec<_> = upstream
        .requests()
        .into_iter()
        .map(|request| request.target)
        .collect();
    assert_eq!(targets, ["/a", "/b", "/c"]);
}
