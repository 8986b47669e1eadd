use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, StatusCode, Version};
use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds {
    header_bytes: 16 << 10,
    headers: 64,
    target_bytes: 8 << 10,
    body_bytes: None,
};

/// As a request of either version is.
fn judged(parts: &Parts, bounds: &Bounds, is_http2: bool) -> Result<(), InvalidRequest> {
    validate(parts, body_end(parts)?, bounds, is_http2)
}

fn parts(version: Version, method: &str, target: &str, lines: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder()
        .version(version)
        .method(method)
        .uri(target);
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn http11(method: &str, target: &str, lines: &[(&str, &str)]) -> Result<(), InvalidRequest> {
    judged(
        &parts(Version::HTTP_11, method, target, lines),
        &BOUNDS,
        false,
    )
}

/// A POST with a host and these lines.
fn framed(lines: &[(&str, &str)]) -> Result<(), InvalidRequest> {
    http11("POST", "/", &[&[("host", "a.example")], lines].concat())
}

fn http2(method: &str, target: &str, lines: &[(&str, &str)]) -> Result<(), InvalidRequest> {
    judged(
        &parts(Version::HTTP_2, method, target, lines),
        &BOUNDS,
        true,
    )
}

#[test]
fn ordinary_requests_pass() {
    let host = ("host", "a.example");
    assert_eq!(http11("GET", "/x?y=z", &[host]), Ok(()));
    assert_eq!(http11("OPTIONS", "*", &[host]), Ok(()));
    assert_eq!(http11("PURGE", "/", &[host]), Ok(()));
    assert_eq!(http11("GET", "http://A.example:80/x", &[host]), Ok(()));
    assert_eq!(
        http11(
            "PUT",
            "/",
            &[host, ("expect", "100-Continue"), ("content-length", "5")]
        ),
        Ok(())
    );
    assert_eq!(framed(&[("transfer-encoding", "Chunked")]), Ok(()));
    assert_eq!(
        framed(&[("content-length", "18446744073709551615")]),
        Ok(())
    );
    assert_eq!(
        framed(&[
            ("connection", "upgrade"),
            ("upgrade", "websocket"),
            ("content-length", "0")
        ]),
        Ok(())
    );
    assert_eq!(
        framed(&[
            ("connection", "upgrade"),
            ("upgrade", "h2c"),
            ("content-length", "5")
        ]),
        Ok(())
    );
    assert_eq!(http2("GET", "https://a.example/x", &[]), Ok(()));
    assert_eq!(
        http2(
            "GET",
            "https://a.example/x",
            &[("host", "a.example:443"), ("te", "trailers")]
        ),
        Ok(())
    );
    let plain = parts(Version::HTTP_10, "GET", "/", &[]);
    assert_eq!(judged(&plain, &BOUNDS, false), Ok(()));
}

/// T-19
#[test]
fn lengths_that_are_not_one_number_are_refused() {
    for value in [
        "",
        "+5",
        "-5",
        "5,5",
        "5, 5",
        "0x5",
        "5a",
        "5 5",
        "5.0",
        "1e1",
        "05",
        "00",
        "18446744073709551616",
        "99999999999999999999999",
    ] {
        assert_eq!(
            framed(&[("content-length", value)]),
            Err(InvalidRequest::MalformedLength),
            "{value}"
        );
    }
    for values in [["5", "5"], ["5", "6"], ["0", "5"]] {
        let lines = values.map(|value| ("content-length", value));
        assert_eq!(
            framed(&lines),
            Err(InvalidRequest::RepeatedLength),
            "{values:?}"
        );
    }
    let mut spaced = parts(Version::HTTP_11, "POST", "/", &[("host", "a.example")]);
    for value in [" 5", "5 ", "\t5", "5\u{e9}"] {
        spaced.headers.insert(
            header::CONTENT_LENGTH,
            HeaderValue::from_bytes(value.as_bytes()).unwrap(),
        );
        assert_eq!(
            judged(&spaced, &BOUNDS, false),
            Err(InvalidRequest::MalformedLength),
            "{value:?}"
        );
    }
}

/// T-19
#[test]
fn only_chunked_once_is_a_coding() {
    for value in [
        "",
        "identity",
        "gzip",
        "xchunked",
        "chunkedx",
        "chunked, identity",
        "identity, chunked",
        "gzip, chunked",
        "chunked,",
        ",chunked",
        "chunked;q=1",
        "\"chunked\"",
        "chunked chunked",
        "chun ked",
        "cow",
        "chunked, chunked",
    ] {
        assert_eq!(
            framed(&[("transfer-encoding", value)]),
            Err(InvalidRequest::Coding),
            "{value}"
        );
    }
    let twice = [
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "chunked"),
    ];
    assert_eq!(framed(&twice), Err(InvalidRequest::Coding));
    let both = [("transfer-encoding", "chunked"), ("content-length", "5")];
    assert_eq!(framed(&both), Err(InvalidRequest::CodingBesideLength));
    let old = parts(
        Version::HTTP_10,
        "POST",
        "/",
        &[("transfer-encoding", "chunked")],
    );
    assert_eq!(
        judged(&old, &BOUNDS, false),
        Err(InvalidRequest::CodingInHttp10)
    );
}

#[test]
fn no_other_fault_keeps_a_connection_open_whose_framing_is_in_doubt() {
    let lines = [("content-length", "+5"), ("expect", "a miracle")];
    let refusal = http11("CONNECT", "a.example:443", &lines).unwrap_err();
    assert_eq!(refusal, InvalidRequest::MalformedLength);
    assert!(refusal.closes());
    assert!(!InvalidRequest::NoHost.closes());
}

/// T-20
#[test]
fn a_request_that_changes_the_protocol_has_no_body() {
    let upgrade = [("connection", "Upgrade"), ("upgrade", "websocket")];
    for body in [("content-length", "5"), ("transfer-encoding", "chunked")] {
        assert_eq!(
            framed(&[&upgrade[..], &[body]].concat()),
            Err(InvalidRequest::UpgradeWithBody)
        );
    }
}

#[test]
fn a_body_is_held_to_the_bound_it_announces() {
    let bounds = Bounds {
        body_bytes: Some(10),
        ..BOUNDS
    };
    let of = |length| {
        let lines = [("host", "a.example"), ("content-length", length)];
        judged(
            &parts(Version::HTTP_11, "POST", "/", &lines),
            &bounds,
            false,
        )
    };
    assert_eq!(of("10"), Ok(()));
    assert_eq!(of("11"), Err(InvalidRequest::BodyTooLong));
    assert_eq!(
        InvalidRequest::BodyTooLong.status(),
        StatusCode::PAYLOAD_TOO_LARGE
    );
}

/// T-19, T-23
#[test]
fn a_request_is_for_exactly_one_host() {
    assert_eq!(http11("GET", "/", &[]), Err(InvalidRequest::NoHost));
    assert_eq!(
        http11("GET", "http://a.example/", &[]),
        Err(InvalidRequest::NoHost)
    );
    assert_eq!(http2("GET", "/", &[]), Err(InvalidRequest::NoHost));
    for second in ["a.example", "b.example"] {
        assert_eq!(
            http11("GET", "/", &[("host", "a.example"), ("host", second)]),
            Err(InvalidRequest::RepeatedHost)
        );
    }
    for host in [
        "",
        "a b",
        "a.example, b.example",
        "a@b",
        "a/b",
        "[::1",
        "a.example:x",
    ] {
        assert_eq!(
            http11("GET", "/", &[("host", host)]),
            Err(InvalidRequest::MalformedHost),
            "{host}"
        );
    }
    for host in ["b.example", "a.example:81", "a.example.", "x.a.example"] {
        assert_eq!(
            http11("GET", "http://a.example/", &[("host", host)]),
            Err(InvalidRequest::OtherHost),
            "{host}"
        );
        assert_eq!(
            http2("GET", "http://a.example/", &[("host", host)]),
            Err(InvalidRequest::OtherHost),
            "{host}"
        );
    }
    let old = parts(
        Version::HTTP_10,
        "GET",
        "/",
        &[("host", "a.example"), ("host", "a.example")],
    );
    assert_eq!(
        judged(&old, &BOUNDS, false),
        Err(InvalidRequest::RepeatedHost)
    );
}

/// T-23
#[test]
fn methods_that_a_proxy_in_front_of_servers_has_no_use_for_are_refused() {
    let host = ("host", "a.example");
    assert_eq!(
        http11("CONNECT", "a.example:443", &[host]),
        Err(InvalidRequest::Connect)
    );
    assert_eq!(http11("TRACE", "/", &[host]), Err(InvalidRequest::Trace));
    assert_eq!(http11(&"M".repeat(METHOD_BYTES), "/", &[host]), Ok(()));
    assert_eq!(
        http11(&"M".repeat(METHOD_BYTES + 1), "/", &[host]),
        Err(InvalidRequest::Method)
    );
    assert_eq!(
        InvalidRequest::Connect.status(),
        StatusCode::METHOD_NOT_ALLOWED
    );
}

/// T-17, T-23
#[test]
fn a_target_is_a_path_in_ascii() {
    let host = ("host", "a.example");
    assert_eq!(http11("GET", "*", &[host]), Err(InvalidRequest::TargetForm));
    assert_eq!(
        http11("GET", "a.example:80", &[host]),
        Err(InvalidRequest::TargetForm)
    );
    assert_eq!(
        http11("GET", "a.example", &[host]),
        Err(InvalidRequest::TargetForm)
    );
    assert_eq!(
        http11("GET", "http://a.example?x", &[host]),
        Err(InvalidRequest::TargetForm)
    );
    assert_eq!(
        http11("GET", "ftp://a.example/", &[host]),
        Err(InvalidRequest::Scheme)
    );
    assert_eq!(
        http11("GET", "http://u:p@a.example/", &[host]),
        Err(InvalidRequest::Userinfo)
    );
    assert_eq!(
        http11("GET", "/caf\u{e9}", &[host]),
        Err(InvalidRequest::TargetBytes)
    );
    assert_eq!(
        http11("GET", "/x?caf\u{e9}", &[host]),
        Err(InvalidRequest::TargetBytes)
    );
    assert_eq!(
        http2("OPTIONS", "*", &[host]),
        Err(InvalidRequest::TargetForm)
    );
    let mut unrooted = parts(Version::HTTP_2, "GET", "/", &[host]);
    unrooted.uri = PathAndQuery::try_from("?x").unwrap().into();
    assert_eq!(
        judged(&unrooted, &BOUNDS, true),
        Err(InvalidRequest::TargetForm)
    );
}

/// T-33
#[test]
fn heads_over_the_bounds_are_refused() {
    let bounds = Bounds {
        header_bytes: 100,
        headers: 3,
        target_bytes: 20,
        body_bytes: None,
    };
    let check = |target: &str, lines: &[(&str, &str)]| {
        let lines = [&[("host", "a.example")], lines].concat();
        judged(
            &parts(Version::HTTP_11, "GET", target, &lines),
            &bounds,
            false,
        )
    };
    assert_eq!(check("/1234567890123456789", &[]), Ok(()));
    assert_eq!(
        check("/12345678901234567890", &[]),
        Err(InvalidRequest::TargetTooLong)
    );
    assert_eq!(
        check("http://a.example/1234", &[]),
        Err(InvalidRequest::TargetTooLong)
    );
    assert_eq!(check("/", &[("a", ""), ("a", "")]), Ok(()));
    assert_eq!(
        check("/", &[("a", ""), ("a", ""), ("a", "")]),
        Err(InvalidRequest::TooManyHeaders)
    );
    // "GET / HTTP/1.1" 16, "host: a.example" 17, the empty line 2; 65 are left.
    let fill = "x".repeat(65 - "a: \r\n".len());
    assert_eq!(check("/", &[("a", &fill)]), Ok(()));
    assert_eq!(
        check("/", &[("aa", &fill)]),
        Err(InvalidRequest::HeadersTooLarge)
    );
    assert_eq!(
        InvalidRequest::TargetTooLong.status(),
        StatusCode::URI_TOO_LONG
    );
    assert_eq!(
        InvalidRequest::TooManyHeaders.status(),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    );
}

/// T-22
#[test]
fn headers_of_a_connection_do_not_exist_in_http2() {
    for (name, value) in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("keep-alive", "timeout=5"),
        ("upgrade", "websocket"),
        ("proxy-connection", "close"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
    ] {
        let refused = http2("GET", "http://a.example/", &[(name, value)]);
        assert_eq!(refused, Err(InvalidRequest::ConnectionHeader(name)));
    }
}

#[test]
fn expectations_that_are_not_known_are_refused() {
    for value in ["", "200-ok", "100-continue, x"] {
        assert_eq!(
            framed(&[("expect", value)]),
            Err(InvalidRequest::Expectation),
            "{value}"
        );
    }
    assert_eq!(
        framed(&[("expect", "100-continue"), ("expect", "x")]),
        Err(InvalidRequest::Expectation)
    );
    assert_eq!(
        InvalidRequest::Expectation.status(),
        StatusCode::EXPECTATION_FAILED
    );
}

/// The types of a request rule these out, so no check is needed.
#[test]
fn names_methods_and_values_cannot_hold_what_would_end_a_line() {
    for byte in (0..0x20).chain([0x7f]).filter(|byte| *byte != b'\t') {
        assert!(
            HeaderValue::from_bytes(&[b'a', byte, b'b']).is_err(),
            "{byte}"
        );
    }
    for byte in (0..=0x20).chain(0x7f..=0xff).chain(*b"\"(),/:;<=>?@[\\]{}") {
        assert!(HeaderName::from_bytes(&[b'a', byte]).is_err(), "{byte}");
        assert!(Method::from_bytes(&[b'a', byte]).is_err(), "{byte}");
    }
    assert_eq!("/a#b".parse::<http::Uri>().unwrap(), "/a");
}

proptest! {
    #[test]
    fn whatever_is_sent_is_judged_and_the_sentence_holds_no_value(
        name in "(content-length|transfer-encoding|host|expect|te|upgrade|connection|x-a)",
        value in "[ -~\u{80}-\u{ff}]{0,40}",
        target in "(/|\\*|http://|a)[ -~]{0,20}",
        is_http2: bool,
    ) {
        let Ok(uri) = target.parse() else { return Ok(()) };
        let mut parts = parts(Version::HTTP_11, "POST", "/", &[("host", "a.example")]);
        parts.uri = uri;
        parts.headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
        if let Err(refusal) = judged(&parts, &BOUNDS, is_http2) {
            let sentence = refusal.to_string();
            prop_assert!(refusal.status().is_client_error());
            prop_assert!(value.len() < 20 || !sentence.contains(&value));
        }
    }
}
