//! Trailers, both ways and between versions.

use sluicegate_testkit::{
    HttpRequest, HttpResponse, UpstreamProtocol, UpstreamRecorder, UpstreamResponse,
};

use super::running::Sluicegate;

/// Answers `abcde`, and `x-sum: 5` behind it.
fn upstream(protocol: UpstreamProtocol) -> UpstreamRecorder {
    UpstreamRecorder::answering_with(protocol, |_| {
        UpstreamResponse::ok("abcde")
            .header("trailer", "x-sum")
            .trailer("x-sum", "5")
    })
}

/// Sends `abc` with `x-mark: 3` behind it, and checks the trailers that arrive at both ends.
fn trailers_pass(send: impl Fn(&HttpRequest, &Sluicegate) -> HttpResponse) {
    for protocol in UpstreamProtocol::ALL {
        let upstream = upstream(protocol);
        let sluicegate = Sluicegate::in_front_of(&upstream.url());
        let request = HttpRequest::post("/t", "abc")
            .headers(&["TE: trailers", "Trailer: X-Mark"])
            .trailer("X-Mark: 3");
        let response = send(&request, &sluicegate);
        let recorded = upstream.only_request();
        assert_eq!(
            (&recorded.body[..], recorded.trailer("x-mark")),
            (&b"abc"[..], Some("3")),
            "{protocol:?}"
        );
        assert_eq!(
            (response.body(), response.trailer("x-sum")),
            ("abcde", Some("5")),
            "{protocol:?}: {response}"
        );
        assert_eq!(response.header("trailer"), Some("x-sum"), "{protocol:?}");
    }
}

#[test]
fn trailers_of_chunked_bodies_pass_both_ways_to_either_version() {
    trailers_pass(|request, sluicegate| {
        let response = request.send(sluicegate.proxy);
        assert_eq!(response.raw_body(), "5\r\nabcde\r\n0\r\nx-sum: 5\r\n\r\n");
        response
    });
}

#[test]
fn trailers_of_streams_pass_both_ways_to_either_version() {
    trailers_pass(|request, sluicegate| request.send_http2(sluicegate.proxy));
}
