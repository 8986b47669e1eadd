//! One reading of a request: what the limits saw is what the server gets, and what servers may read
//! differently is refused and counted.

use std::net::IpAddr;

use sluicegate_config::Config;
use sluicegate_core::{KeyPart, Limit, Match, Nanos, Quota};
use sluicegate_testkit::h2_frames::{Field, StreamEnd, exchange};
use sluicegate_testkit::{HttpRequest, UpstreamRecorder, http_client, raw_socket};

use super::edge::Edge;

fn once(name: &str, matching: Match) -> Limit {
    Limit {
        matching,
        ..Limit::per_client(name, Quota::per_day(1).burst(1))
    }
}

/// The status of a request over HTTP/2 with further fields.
fn over_http2(edge: &Edge, further: &[(&str, &str)]) -> Option<u16> {
    let usual = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a.example"),
        (":path", "/"),
    ];
    let fields: Vec<Field> = usual
        .iter()
        .chain(further)
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect();
    match exchange(edge.address, &fields, None) {
        StreamEnd::Response { status, .. } => Some(status),
        _ => None,
    }
}

#[test]
fn blanks_around_a_value_are_refused_over_http2() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    for (name, value) in [
        ("authorization", " Bearer abc"),
        ("authorization", "Bearer abc "),
        ("authorization", "\tBearer abc"),
        ("x-api-key", " secret"),
        ("x-api-key", "secret\t"),
        ("x-tenant-id", " acme"),
        ("x-tenant-id", "acme  "),
        ("cookie", " a=b"),
        ("x-forwarded-for", " 203.0.113.9"),
        ("content-type", "application/json "),
        ("x-blank", " "),
        ("x-tab", "\t"),
    ] {
        let answered = over_http2(&edge, &[(name, value)]);
        assert!(matches!(answered, None | Some(400)), "{name}: {value:?}");
    }
    assert_eq!(recorder.count(), 0);
    assert_eq!(over_http2(&edge, &[("x-inner", "a b\tc")]), Some(200));
}

#[test]
fn methods_that_are_not_in_capitals_are_refused() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    for method in [
        "get", "Get", "gET", "geT", "post", "Post", "put", "delete", "patch", "head", "options",
        "Options", "trace", "connect", "propfind", "X-m",
    ] {
        let answered = http_client::request(edge.address, method, "/", &[]);
        assert_eq!(answered.status(), 501, "{method}: {answered}");
    }
    assert_eq!(recorder.count(), 0);
    let own = http_client::request(edge.address, "M-SEARCH", "/", &[]);
    assert_eq!(own.status(), 200, "a method of one's own is passed on");
}

#[test]
fn a_rule_for_get_covers_head() {
    let recorder = UpstreamRecorder::start();
    let rules: [&[&str]; 5] = [
        &["GET"],
        &["POST"],
        &["HEAD"],
        &["POST", "GET"],
        &["GET", "HEAD"],
    ];
    for (rule, [get, head, post, options]) in rules.into_iter().zip([
        [429, 429, 200, 200],
        [200, 200, 429, 200],
        [200, 429, 200, 200],
        [429, 429, 429, 200],
        [429, 429, 200, 200],
    ]) {
        for (method, expected) in [
            ("GET", get),
            ("HEAD", head),
            ("POST", post),
            ("OPTIONS", options),
        ] {
            let limit = once("some", Match::default().methods(rule.iter().copied()));
            let edge = Edge::start(recorder.address, vec![limit]);
            let status = |method| http_client::request(edge.address, method, "/", &[]).status();
            assert_eq!(status(rule[0]), 200, "{rule:?} is spent");
            assert_eq!(status(method), expected, "{method} under {rule:?}");
        }
    }
}

#[test]
fn keys_by_path_do_not_distinguish_letters_by_case() {
    let recorder = UpstreamRecorder::start();
    let by_path = Limit::new("by-path", Quota::per_day(1).burst(1)).key([KeyPart::Path]);
    let by_segment = Limit::new("by-segment", Quota::per_day(1).burst(1))
        .key([KeyPart::PathSegment(2)])
        .matching(Match::path("/segments").unwrap())
        .replaces("by-path");
    let edge = Edge::start(recorder.address, vec![by_path, by_segment]);
    let status = |path| http_client::request(edge.address, "GET", path, &[]).status();
    for (first, others) in [
        (
            "/api/login",
            ["/API/login", "/api/LOGIN", "/%41pi/login", "/Api/Login/"],
        ),
        (
            "/segments/ann",
            [
                "/segments/ANN",
                "/Segments/Ann",
                "/segments/%41nn",
                "/segments/anN/x",
            ],
        ),
        ("/a@b", ["/a%40b", "/A@B", "/A%40b", "/a@b/"]),
    ] {
        assert_eq!(status(first), 200, "{first}");
        for other in others {
            assert_eq!(status(other), 429, "{other}");
        }
    }
    assert_eq!(recorder.requests()[0].target, "/api/login");
    assert_eq!(status("/Case/Kept"), 200);
    assert_eq!(
        recorder.requests()[3].target,
        "/Case/Kept",
        "forwarded as it came"
    );
}

#[test]
fn cookies_in_pieces_are_one_line_for_a_server_of_http1() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::start(recorder.address, Vec::new());
    let cases: [(&[&str], &str); 10] = [
        (&["a=1"], "a=1"),
        (&["a=1", "b=2"], "a=1; b=2"),
        (&["a=1", "b=2", "c=3; d=4"], "a=1; b=2; c=3; d=4"),
        (&["a=1; b=2", "c=3"], "a=1; b=2; c=3"),
        (&["b=2", "a=1"], "b=2; a=1"),
        (&["a=1", "a=2"], "a=1; a=2"),
        (&["a=\"1\"", "b=2"], "a=\"1\"; b=2"),
        (&["a=1=2", "b"], "a=1=2; b"),
        (&["a=1,b=2", "c=3"], "a=1,b=2; c=3"),
        (&["a=1"; 20], &["a=1"; 20].join("; ")),
    ];
    for (pieces, joined) in cases {
        let fields: Vec<_> = pieces.iter().map(|piece| ("cookie", *piece)).collect();
        assert_eq!(over_http2(&edge, &fields), Some(200), "{pieces:?}");
        let lines: Vec<String> = pieces
            .iter()
            .map(|piece| format!("Cookie: {piece}"))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        http_client::request(edge.address, "GET", "/", &lines);
        for recorded in recorder.requests().iter().rev().take(2) {
            assert_eq!(recorded.header_values("cookie"), [joined], "{pieces:?}");
        }
    }
}

#[test]
fn a_header_that_a_rule_compares_may_be_there_once() {
    let recorder = UpstreamRecorder::start();
    let free = once("free", Match::default().header("X-Plan", "free"));
    let edge = Edge::start(recorder.address, vec![free]);
    let status = |lines: &[&str]| http_client::request(edge.address, "GET", "/", lines).status();
    for lines in [
        &["X-Plan: free", "X-Plan: gold"][..],
        &["X-Plan: gold", "X-Plan: free"],
        &["x-plan: free", "X-PLAN: free"],
        &["X-Plan: gold", "X-Plan: gold"],
        &["X_Plan: gold"],
        &["X.Plan: gold"],
        &["X-Plan: free", "X_Plan: gold"],
        &["X-Plan: gold", "X+Plan: free"],
        &["X~Plan: free"],
        &["X'Plan: free"],
    ] {
        assert_eq!(status(lines), 400, "{lines:?}");
    }
    assert_eq!(recorder.count(), 0);
    assert_eq!(status(&["X-Plan:   free \t"]), 200);
    assert_eq!(status(&["X-Plan: free"]), 429);
    assert_eq!(status(&["X-Plan: gold"]), 200);
}

#[test]
fn what_limits_read_does_not_pass_as_a_trailer() {
    let tenant = Limit::new("tenant", Quota::per_day(9))
        .key([KeyPart::header("X-Tenant-Id")])
        .on_missing_key(sluicegate_core::OnMissingKey::Skip);
    for name in [
        "X-Tenant-Id",
        "x_tenant_id",
        "X.Tenant.Id",
        "Authorization",
        "Cookie",
        "X-Forwarded-For",
        "X_Forwarded_For",
        "Content-Length",
        "Host",
        "Transfer-Encoding",
        "X-Real-IP",
    ] {
        let recorder = UpstreamRecorder::start();
        let edge = Edge::start(recorder.address, vec![tenant.clone()]);
        let request = HttpRequest::post("/", "abc")
            .headers(&[format!("Trailer: {name}, X-Sum")])
            .trailer(&format!("{name}: 5"))
            .trailer("X-Sum: 3");
        for answered in [request.send(edge.address), request.send_http2(edge.address)] {
            let is_refused = answered.is_empty() || answered.status() == 400;
            assert!(is_refused || answered.status() == 200, "{name}: {answered}");
        }
        for recorded in recorder.requests() {
            assert_eq!(recorded.trailer(&name.to_ascii_lowercase()), None, "{name}");
            assert_eq!(recorded.trailer("x-sum"), Some("3"), "{name}");
        }
    }
}

#[test]
fn another_path_in_a_header_stays_with_the_client() {
    let recorder = UpstreamRecorder::start();
    let start = |trusted: &[&str]| {
        let trusted: Vec<_> = trusted.iter().map(|net| net.parse().unwrap()).collect();
        Edge::with(recorder.address, Vec::new(), |config| {
            config.client_ip.trusted_proxies = trusted;
        })
    };
    let names = [
        "X-Original-URL",
        "x-rewrite-url",
        "X-ORIGINAL-URL",
        "X-Rewrite-Url",
    ];
    let twins = [
        "X_Original_Url",
        "X.Original.Url",
        "X-Original_URL",
        "x_rewrite_url",
        "X-Rewrite.URL",
        "X+Rewrite+URL",
    ];
    for (edge, is_trusted) in [(start(&[]), false), (start(&["127.0.0.0/8"]), true)] {
        let all = names.map(|name| (name, is_trusted)).into_iter();
        for (name, kept) in all.chain(twins.map(|name| (name, false))) {
            http_client::request(edge.address, "GET", "/", &[&format!("{name}: /admin")]);
            let recorded = recorder.requests().pop().unwrap();
            assert_eq!(recorded.header(name).is_some(), kept, "{name}");
        }
    }
}

/// Three refused requests for each client, and then one an hour.
fn three_refused(config: &mut Config) {
    let quota = Quota::new(1, Nanos::HOUR, 3).unwrap();
    config.proxy.as_mut().unwrap().refused_requests = Some(quota);
}

#[test]
fn requests_that_are_refused_before_any_limit_count_too() {
    let send = |edge: &Edge, from: u8, method: &str, target: &str| {
        let source = IpAddr::from([127, 0, 0, from]);
        HttpRequest::new(method, target)
            .from(source)
            .send(edge.address)
    };
    for (method, target, usual) in [
        ("GET", "/a%2Fb", 400),
        ("GET", "/a;b", 400),
        ("GET", "/%c0%af", 400),
        ("TRACE", "/", 405),
        ("GET", "http://u@a.example/", 400),
        ("get", "/", 501),
        ("GET", "ftp://a.example/", 400),
        ("GET", "/no-tenant", 400),
        ("OPTIONS", "/", 200),
        ("OPTIONS", "*", 200),
    ] {
        let recorder = UpstreamRecorder::start();
        let tenant = Limit::new("tenant", Quota::per_day(9))
            .key([KeyPart::header("X-Tenant-Id")])
            .matching(Match::path("/no-tenant").unwrap());
        let edge = Edge::with(recorder.address, vec![tenant], three_refused);
        for count in 1..=3 {
            let answered = send(&edge, 1, method, target);
            assert_eq!(
                answered.status(),
                usual,
                "{method} {target} {count}: {answered}"
            );
        }
        let answered = send(&edge, 1, method, target);
        assert_eq!(answered.status(), 429, "{method} {target}: {answered}");
        assert_eq!(answered.header("retry-after"), Some("3600"));
        assert_eq!(answered.header("connection"), Some("close"));
        assert_eq!(
            send(&edge, 1, "GET", "/").status(),
            200,
            "a good request passes"
        );
        assert_eq!(
            send(&edge, 2, method, target).status(),
            usual,
            "somebody else"
        );
    }
}

#[test]
fn no_refusal_repeats_what_was_sent() {
    let recorder = UpstreamRecorder::start();
    let tenant = Limit::new("tenant", Quota::per_day(1).burst(1))
        .key([KeyPart::header("X-Tenant-Id")])
        .matching(Match::path("/tenant").unwrap());
    let edge = Edge::with(recorder.address, vec![tenant], |config| {
        config.proxy.as_mut().unwrap().refused_requests = None;
    });
    let spent = ["X-Tenant-Id: marker"];
    http_client::request(edge.address, "GET", "/tenant", &spent);
    for (method, target, line) in [
        ("marker", "/", "X-A: 1"),
        ("GET", "/marker%2f", "X-A: 1"),
        ("GET", "/marker;a", "X-A: 1"),
        ("GET", "/%c0%afmarker", "X-A: 1"),
        ("GET", "/?marker%", "Host: marker"),
        ("GET", "http://marker@a.example/", "X-A: 1"),
        ("GET", "marker://a.example/", "X-A: 1"),
        ("TRACE", "/marker", "X-A: marker"),
        ("CONNECT", "marker:443", "X-A: marker"),
        ("GET", "/tenant", "X-Tenant-Id: marker"),
        ("GET", "/tenant", "X_Tenant_Id: marker"),
        ("GET", "/tenant?marker", "X-Tenant-Id: mark\u{e9}marker"),
        ("GET", "/", "Expect: marker"),
        ("GET", "/", "Transfer-Encoding: marker"),
        ("GET", "/", "Content-Length: marker"),
        ("GET", "/", "marker X: 1"),
    ] {
        let answered = http_client::request(edge.address, method, target, &[line]);
        let sent = format!("{method} {target} {line}");
        assert!(
            answered.status() >= 400 || answered.is_empty(),
            "{sent}: {answered}"
        );
        assert!(
            !answered.to_string().contains("marker"),
            "{sent}: {answered}"
        );
    }
}

#[test]
fn who_sends_no_http_again_and_again_gets_no_answer() {
    let recorder = UpstreamRecorder::start();
    let edge = Edge::with(recorder.address, Vec::new(), three_refused);
    let garbage =
        |edge: &Edge| raw_socket::exchange(edge.address, b"\x16\x03\x01 what is this\r\n\r\n");
    for _ in 0..3 {
        assert_eq!(garbage(&edge).status(), 400);
    }
    assert!(garbage(&edge).is_empty());
    let exempt = Edge::with(recorder.address, Vec::new(), |config| {
        three_refused(config);
        config.access.allow.cidrs = vec!["127.0.0.0/8".parse().unwrap()];
    });
    for _ in 0..10 {
        assert_eq!(garbage(&exempt).status(), 400);
    }
}
