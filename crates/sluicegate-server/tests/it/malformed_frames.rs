//! Malformed requests in HTTP/2.

use sluicegate_testkit::UpstreamRecorder;
use sluicegate_testkit::h2_frames::{self, Field, StreamEnd};

use super::edge::Edge;

/// A change to a good request.
enum Change {
    /// This field comes last.
    Add(&'static [u8], &'static [u8]),
    /// These fields come last.
    AddBoth([(&'static [u8], &'static [u8]); 2]),
    /// This field has another value.
    Set(&'static str, &'static [u8]),
    /// This field is not there.
    Drop(&'static str),
    /// A POST with this length and this body.
    Length(&'static [u8], &'static [u8]),
    /// These fields and no others.
    Only(&'static [(&'static str, &'static str)]),
}

use Change::{Add, AddBoth, Drop, Length, Only, Set};

/// Each is a stream or connection error or a response of 4xx, and reaches no server.
const CASES: &[Change] = &[
    Add(b"transfer-encoding", b"chunked"),
    Add(b"transfer-encoding", b"identity"),
    Add(b"Transfer-Encoding", b"chunked"),
    Add(b"connection", b"close"),
    Add(b"connection", b"transfer-encoding"),
    Add(b"keep-alive", b"timeout=5"),
    Add(b"proxy-connection", b"keep-alive"),
    Add(b"upgrade", b"websocket"),
    Add(b"upgrade", b"h2c"),
    Add(b"te", b"gzip"),
    Add(b"te", b"trailers, gzip"),
    Add(b"te", b""),
    Add(b"x\r\ny", b"z"),
    Add(b"x: y\r\ntransfer-encoding", b"chunked"),
    Add(b"x\n", b"y"),
    Add(b"x\r", b"y"),
    Add(b"x\0", b"y"),
    Add(b"x y", b"z"),
    Add(b" x", b"y"),
    Add(b"x:", b"y"),
    Add(b"x(", b"y"),
    Add(b"x\t", b"y"),
    Add(b"x\x7f", b"y"),
    Add(b"x\xff", b"y"),
    Add(b"X-Upper", b"y"),
    Add(b"", b"y"),
    Add(b":x", b"y"),
    Add(b":status", b"200"),
    Add(b":path", b"/again"),
    Add(b":method", b"POST"),
    Add(b":authority", b"a.example"),
    Add(b":protocol", b"websocket"),
    AddBoth([(b"x", b"y"), (b":scheme", b"http")]),
    Add(b"x", b"a\r\nb: c"),
    Add(
        b"x",
        b"a\r\n\r\nGET /next HTTP/1.1\r\nHost: a.example\r\n\r\n",
    ),
    Add(b"x", b"a\rb"),
    Add(b"x", b"a\nb"),
    Add(b"x", b"a\0b"),
    Add(b"x", b"\0"),
    Add(b"x", b"a\x0bb"),
    Add(b"x", b"a\x1bb"),
    Add(b"x", b"a\x7fb"),
    Add(b"expect", b"200-ok"),
    Add(b"host", b"b.example"),
    Add(b"host", b"a.example:81"),
    Add(b"host", b""),
    Add(b"host", b"a.example, b.example"),
    AddBoth([(b"host", b"a.example"), (b"host", b"a.example")]),
    Drop(":method"),
    Drop(":scheme"),
    Drop(":path"),
    Drop(":authority"),
    Set(":path", b""),
    Set(":path", b"*"),
    Set(":path", b"?x"),
    Set(":path", b"case"),
    Set(":path", b"a.example/case"),
    Set(":path", b"http://a.example/case"),
    Set(":path", b"/case x"),
    Set(":path", b"/case\r\nx: y"),
    Set(
        ":path",
        b"/case HTTP/1.1\r\nHost: a.example\r\n\r\nGET /next",
    ),
    Set(":path", b"/case\0"),
    Set(":path", b"/case\xc3\xa9"),
    Set(":path", b"/case\xff"),
    Set(":path", b"/case%2fx"),
    Set(":method", b""),
    Set(":method", b"G T"),
    Set(":method", b"GET\r\nx: y"),
    Set(":method", b"GET /next HTTP/1.1\r\n"),
    Set(":method", b"TRACE"),
    Set(":method", b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
    Set(":method", b"CONNECT"),
    Set(":scheme", b""),
    Set(":scheme", b"ftp"),
    Set(":scheme", b"http\r\n"),
    Set(":authority", b""),
    Set(":authority", b"u@a.example"),
    Set(":authority", b"a.example/x"),
    Set(":authority", b"a example"),
    Set(":authority", b"a.example\r\nx: y"),
    Set(":authority", b"a..example"),
    Only(&[(":method", "CONNECT"), (":authority", "a.example:443")]),
    Only(&[
        (":method", "OPTIONS"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", "*"),
    ]),
    Only(&[(":method", "GET"), (":scheme", "http"), (":path", "/case")]),
    Only(&[
        ("x", "y"),
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", "/case"),
    ]),
    Length(b"+5", b"hello"),
    Length(b"-5", b"hello"),
    Length(b"05", b"hello"),
    Length(b"5,5", b"hello"),
    Length(b"0x5", b"hello"),
    Length(b"", b"hello"),
    Length(b"five", b"hello"),
    Length(b"18446744073709551616", b"hello"),
];

/// Among them headers that HTTP/1.1 would understand differently, and methods, paths and hosts that
/// are not valid.
#[test]
fn malformed_requests_in_frames_reach_nobody() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    assert!(CASES.len() >= 60);
    for case in CASES {
        let (fields, body) = request(case);
        let outcome = h2_frames::exchange(edge.address, &fields, body);
        let is_refused = match outcome {
            StreamEnd::Response { status, .. } => (400..500).contains(&status),
            StreamEnd::Reset | StreamEnd::ConnectionClosed => true,
        };
        assert!(is_refused, "{outcome:?} to {}", words(&fields));
        assert!(
            recorder.requests().is_empty(),
            "{} became {:?}",
            words(&fields),
            recorder.requests()
        );
    }
}

/// Where the body is on its way already, no server gets a whole request.
#[test]
fn a_body_in_frames_that_is_not_as_long_as_announced_is_never_whole() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    let two: [(&[u8], &[u8]); 2] = [(b"content-length", b"5"), (b"content-length", b"6")];
    for case in [
        Length(b"6", b"hello"),
        Length(b"4", b"hello"),
        Length(b"0", b"hello"),
        AddBoth(two),
    ] {
        let (fields, body) = request(&case);
        let outcome = h2_frames::exchange(edge.address, &fields, body);
        assert!(
            !matches!(outcome, StreamEnd::Response { status: 200, .. }),
            "{outcome:?} to {}",
            words(&fields)
        );
        assert!(
            recorder
                .requests()
                .iter()
                .all(|recorded| !recorded.is_complete),
            "{}",
            words(&fields)
        );
    }
}

#[test]
fn good_requests_in_frames_pass() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    for (case, method, body) in [
        (Add(b"te", b"trailers"), "GET", &b""[..]),
        (Add(b"host", b"A.example:80"), "GET", b""),
        (Length(b"5", b"hello"), "POST", b"hello"),
    ] {
        let (fields, sent) = request(&case);
        let outcome = h2_frames::exchange(edge.address, &fields, sent);
        assert_eq!(
            outcome,
            StreamEnd::Response {
                status: 200,
                is_head_only: false
            },
            "{}",
            words(&fields)
        );
        let recorded = recorder.requests().pop().unwrap();
        assert_eq!(
            (
                recorded.method.as_str(),
                recorded.target.as_str(),
                &recorded.body[..]
            ),
            (method, "/case", body)
        );
        assert_eq!(recorded.fault, None);
        assert_eq!(
            (
                recorded.header_values("via"),
                recorded.header_values("host")
            ),
            (vec!["2 sluicegate"], vec!["a.example"])
        );
    }
}

fn request(change: &Change) -> (Vec<Field>, Option<&'static [u8]>) {
    let field = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    let good: [(&[u8], &[u8]); 4] = [
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":authority", b"a.example"),
        (b":path", b"/case"),
    ];
    let mut fields: Vec<Field> = good.map(field).to_vec();
    let mut set = |name: &str, value: &[u8]| {
        let place = fields
            .iter()
            .position(|(own, _)| own == name.as_bytes())
            .unwrap();
        fields[place].1 = value.to_vec();
    };
    match change {
        Add(name, value) => fields.push(field((name, value))),
        AddBoth(both) => fields.extend(both.map(field)),
        Set(name, value) => set(name, value),
        Drop(name) => fields.retain(|(own, _)| own != name.as_bytes()),
        Length(length, body) => {
            set(":method", b"POST");
            fields.push(field((b"content-length", length)));
            return (fields, Some(body));
        }
        Only(only) => {
            fields = only
                .iter()
                .map(|(name, value)| field((name.as_bytes(), value.as_bytes())))
                .collect()
        }
    }
    (fields, None)
}

fn words(fields: &[Field]) -> String {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!(
        "{:?}",
        fields
            .iter()
            .map(|(name, value)| (lossy(name), lossy(value)))
            .collect::<Vec<_>>()
    )
}
