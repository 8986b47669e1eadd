use http::Request;
use proptest::prelude::*;

use sluicegate_net::upgrade_of;

use super::*;

const ID: &str = "0123456789abcdef";
static KEYS: [HeaderName; 1] = [HeaderName::from_static("x-tenant-id")];

const HOP: Hop<'static> = Hop {
    client_ip: None,
    peer: IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 7)),
    peer_is_trusted: false,
    scheme: "http",
    request_id: ID,
    upgrade: None,
    has_body: false,
    key_headers: &KEYS,
};

fn parts(target: &str, lines: &[(&str, &str)]) -> Parts {
    let mut request = Request::get(target).header("host", "a.example");
    for (name, value) in lines {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn sent(hop: &Hop<'_>, lines: &[(&str, &str)]) -> HeaderMap {
    let mut parts = parts("/", lines);
    to_upstream(&mut parts, hop);
    parts.headers
}

fn all<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers
        .get_all(name)
        .iter()
        .map(|line| line.to_str().unwrap())
        .collect()
}

#[test]
fn what_belongs_to_a_connection_stays_there() {
    let headers = sent(
        &HOP,
        &[
            ("connection", "close, X-Mine"),
            ("connection", "x-also-mine"),
            ("x-mine", "1"),
            ("x-also-mine", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "close"),
            ("proxy-authorization", "Basic eA=="),
            ("te", "gzip"),
            ("upgrade", "h2c"),
            ("expect", "100-continue"),
            ("proxy", "http://evil.example"),
            ("x-yours", "1"),
            ("trailer", "x-sum"),
        ],
    );
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let ours = [
        "forwarded",
        "host",
        "trailer",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
    ];
    assert_eq!(names[..7], ours);
    assert_eq!(
        names[7..],
        ["x-forwarded-proto", "x-real-ip", "x-request-id", "x-yours"]
    );
}

#[test]
fn connection_takes_away_neither_ours_nor_what_is_meant_for_the_server() {
    let kept = [
        ("authorization", "Basic eA=="),
        ("content-length", "5"),
        ("content-type", "text/plain"),
        ("cookie", "a=b"),
        ("x-api-key", "k"),
        ("x-tenant-id", "t"),
        ("accept-encoding", "gzip"),
        ("if-match", "\"e\""),
        ("sec-websocket-key", "x"),
        ("traceparent", "00-1-2-00"),
    ];
    let ours = [
        "host",
        "x-forwarded-for",
        "x-real-ip",
        "forwarded",
        "via",
        "x-request-id",
        "x-forwarded-proto",
    ];
    let named: Vec<_> = kept.iter().map(|(name, _)| *name).chain(ours).collect();
    let connection = named.join(", ").to_uppercase();
    let hop = Hop {
        has_body: true,
        ..HOP
    };
    let headers = sent(&hop, &[&kept[..], &[("connection", &connection)]].concat());
    for name in named {
        assert!(headers.contains_key(name), "{name}");
    }
}

#[test]
fn a_peer_that_is_not_trusted_says_nothing_about_others() {
    let headers = sent(
        &HOP,
        &[
            ("x-forwarded-for", "9.9.9.9"),
            ("x-forwarded-for", "8.8.8.8"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "evil.example"),
            ("x-forwarded-port", "1"),
            ("x-forwarded-prefix", "/evil"),
            ("x-real-ip", "9.9.9.9"),
            ("forwarded", "for=9.9.9.9"),
            ("x-request-id", "evil"),
        ],
    );
    assert_eq!(all(&headers, "x-forwarded-for"), ["203.0.113.7"]);
    assert_eq!(all(&headers, "x-forwarded-proto"), ["http"]);
    assert_eq!(all(&headers, "x-forwarded-host"), ["a.example"]);
    assert_eq!(all(&headers, "x-forwarded-port"), ["80"]);
    assert_eq!(all(&headers, "x-real-ip"), ["203.0.113.7"]);
    assert_eq!(
        all(&headers, "forwarded"),
        ["for=203.0.113.7;host=a.example;proto=http"]
    );
    assert_eq!(all(&headers, "x-request-id"), ["0123456789abcdef"]);
    assert!(!headers.contains_key("x-forwarded-prefix"));
}

#[test]
fn a_trusted_peer_is_added_to_the_chain_and_believed() {
    let hop = Hop {
        client_ip: Some("192.0.2.1".parse().unwrap()),
        peer_is_trusted: true,
        ..HOP
    };
    let headers = sent(
        &hop,
        &[
            ("x-forwarded-for", "9.9.9.9, 192.0.2.1"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "b.example"),
            ("x-forwarded-port", "70000x"),
            ("x-real-ip", "9.9.9.9"),
            ("forwarded", "for=192.0.2.1"),
            ("x-forwarded-prefix", "/p"),
        ],
    );
    assert_eq!(
        all(&headers, "x-forwarded-for"),
        ["9.9.9.9, 192.0.2.1, 10.0.0.1, 203.0.113.7"]
    );
    assert_eq!(all(&headers, "x-forwarded-proto"), ["https"]);
    assert_eq!(all(&headers, "x-forwarded-host"), ["b.example"]);
    assert_eq!(all(&headers, "x-forwarded-port"), ["80"]);
    assert_eq!(all(&headers, "x-real-ip"), ["192.0.2.1"]);
    assert_eq!(
        all(&headers, "forwarded"),
        ["for=192.0.2.1, for=203.0.113.7;host=a.example;proto=http"]
    );
    assert_eq!(all(&headers, "x-forwarded-prefix"), ["/p"]);
}

#[test]
fn addresses_of_ipv6_are_quoted_where_they_must_be() {
    let hop = Hop {
        peer: "2001:db8::1".parse().unwrap(),
        scheme: "https",
        ..HOP
    };
    let mut parts = parts("https://[2001:db8::2]:8443/", &[]);
    to_upstream(&mut parts, &hop);
    let headers = parts.headers;
    assert_eq!(
        all(&headers, "forwarded"),
        ["for=\"[2001:db8::1]\";host=\"[2001:db8::2]:8443\";proto=https"]
    );
    assert_eq!(all(&headers, "x-forwarded-for"), ["2001:db8::1"]);
    assert_eq!(all(&headers, "x-forwarded-port"), ["8443"]);
    assert_eq!(all(&headers, "host"), ["[2001:db8::2]:8443"]);
    let mapped = Hop {
        peer: "::ffff:192.0.2.1".parse().unwrap(),
        ..HOP
    };
    assert_eq!(all(&sent(&mapped, &[]), "x-forwarded-for"), ["192.0.2.1"]);
}

#[test]
fn twins_of_ours_and_of_key_headers_are_dropped() {
    let twins = [
        ("x_forwarded_for", "9.9.9.9"),
        ("x_tenant_id", "t"),
        ("content_length", "5"),
        ("x_real-ip", "9.9.9.9"),
    ];
    let headers = sent(&HOP, &[&twins[..], &[("x_other", "1")]].concat());
    assert!(
        twins.iter().all(|(name, _)| !headers.contains_key(*name)),
        "{headers:?}"
    );
    assert!(headers.contains_key("x_other"));
}

#[test]
fn the_target_becomes_a_path() {
    let mut parts = parts("http://b.example:81/x?y=z", &[]);
    parts.version = Version::HTTP_2;
    to_upstream(&mut parts, &HOP);
    assert_eq!(all(&parts.headers, "host"), ["b.example:81"]);
    assert_eq!(parts.uri, "/x?y=z");
    assert_eq!(all(&parts.headers, "via"), ["2 sluicegate"]);
}

#[test]
fn via_and_trailers_go_on() {
    let headers = sent(
        &HOP,
        &[
            ("via", "1.0 before"),
            ("te", "gzip, Trailers;q=1"),
            ("te", "x, TRAILERS"),
        ],
    );
    assert_eq!(all(&headers, "via"), ["1.0 before", "1.1 sluicegate"]);
    assert_eq!(all(&headers, "te"), ["trailers"]);
}

#[test]
fn a_body_without_a_length_is_announced() {
    let hop = Hop {
        has_body: true,
        ..HOP
    };
    for lines in [&[][..], &[("transfer-encoding", "Chunked")]] {
        assert_eq!(all(&sent(&hop, lines), "transfer-encoding"), ["chunked"]);
        assert!(!sent(&HOP, lines).contains_key("transfer-encoding"));
    }
    assert!(!sent(&hop, &[("content-length", "5")]).contains_key("transfer-encoding"));
}

#[test]
fn a_length_is_told_only_with_a_body() {
    assert!(!sent(&HOP, &[("content-length", "5")]).contains_key("content-length"));
    assert_eq!(
        all(&sent(&HOP, &[("content-length", "0")]), "content-length"),
        ["0"]
    );
    let with_body = Hop {
        has_body: true,
        ..HOP
    };
    assert_eq!(
        all(
            &sent(&with_body, &[("content-length", "5")]),
            "content-length"
        ),
        ["5"]
    );
}

#[test]
fn an_upgrade_is_announced_to_the_server() {
    let lines = [
        ("connection", "keep-alive, Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "x"),
    ];
    let upgrade = upgrade_of(&parts("/", &lines)).unwrap();
    let headers = sent(
        &Hop {
            upgrade: Some(&upgrade),
            ..HOP
        },
        &lines,
    );
    assert_eq!(
        (all(&headers, "connection"), all(&headers, "upgrade")),
        (vec!["upgrade"], vec!["websocket"])
    );
    let headers = sent(&HOP, &lines);
    assert!(!headers.contains_key("connection") && !headers.contains_key("upgrade"));
}

#[test]
fn an_answer_of_http2_loses_what_belongs_to_a_connection() {
    let names = |status: u16, is_head: bool| {
        let lines = [
            ("te", "trailers"),
            ("proxy-authenticate", "Basic"),
            ("content-length", "5"),
            ("set-cookie", "a=b"),
        ];
        let response = lines
            .iter()
            .fold(Response::builder(), |response, (name, value)| {
                response.header(*name, *value)
            });
        let mut response = response.status(status).body(()).unwrap();
        to_client(&mut response, is_head);
        response
            .headers()
            .keys()
            .map(HeaderName::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(200, false),
        ["set-cookie"],
        "the body says its length itself"
    );
    assert_eq!(names(200, true).len(), 2, "unless there is none");
    assert_eq!(names(304, false).len(), 2);
}

const OURS: [&str; 9] = [
    "host",
    "via",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-real-ip",
    "x-request-id",
];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(OURS.to_vec()).prop_map(str::to_owned),
        "(connection|te|upgrade|keep-alive|x_forwarded_for|x_tenant_id|x-a|x-b|forwarded|transfer-encoding)",
        "[a-z_-]{1,12}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,60}",
        proptest::collection::vec(name(), 0..8).prop_map(|names| names.join(", "))
    ]
}

proptest! {
    /// No header of a client removes a line of ours or adds to it.
    #[test]
    fn whatever_is_sent_our_headers_are_there_once_and_the_key_header_stays(
        lines in proptest::collection::vec((name(), value()), 0..12),
        connection in value(),
        peer_is_trusted: bool,
    ) {
        let mut parts = parts("/", &[("x-tenant-id", "t"), ("connection", &connection)]);
        for (name, value) in &lines {
            let (name, value) = (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
            parts.headers.append(name, value);
        }
        let hop = Hop { peer_is_trusted, ..HOP };
        to_upstream(&mut parts, &hop);
        for name in OURS.into_iter().filter(|name| *name != "via") {
            prop_assert_eq!(parts.headers.get_all(name).iter().count(), 1, "{}", name);
        }
        prop_assert!(parts.headers.contains_key("x-tenant-id"));
        prop_assert!(!parts.headers.contains_key("x_tenant_id") && !parts.headers.contains_key("connection"));
        prop_assert_eq!(parts.headers.get_all("via").iter().next_back().unwrap(), "1.1 sluicegate");
        let chain = parts.headers["x-forwarded-for"].to_str().unwrap();
        let is_chain = if peer_is_trusted { chain.ends_with("203.0.113.7") } else { chain == "203.0.113.7" };
        prop_assert!(is_chain, "{}", chain);

        // A second time changes nothing but the lists that grow.
        let mut again = parts.clone();
        to_upstream(&mut again, &hop);
        for grown in ["via", "x-forwarded-for", "forwarded"] {
            parts.headers.remove(grown);
            again.headers.remove(grown);
        }
        prop_assert_eq!(parts.headers, again.headers);
    }
}

/// Hops that differ in everything that lines depend on.
fn any_hop() -> impl Strategy<Value = Hop<'static>> {
    let client = proptest::sample::select(vec![None, Some("192.0.2.1"), Some("2001:db8::1")]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (client, flags).prop_map(
        |(client_ip, (peer_is_trusted, is_tls, has_body, has_keys))| Hop {
            client_ip: client_ip.map(|text| text.parse().unwrap()),
            peer_is_trusted,
            scheme: if is_tls { "https" } else { "http" },
            has_body,
            key_headers: if has_keys { &KEYS } else { &[] },
            ..HOP
        },
    )
}

proptest! {
    #[test]
    fn lines_that_are_kept_are_those_that_would_be_written(
        lines in proptest::collection::vec((name(), value()), 0..12),
        (hop, other) in (any_hop(), any_hop()),
        id in "[0-9a-f]{0,40}",
    ) {
        let lines: Vec<_> = lines.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let parts = parts("/", &lines);
        let kept = KeptLines::new(&parts, &hop);
        prop_assert!(kept.is_of(&hop));
        for other in [hop, other] {
            let other = Hop { request_id: &id, ..other };
            let (mut expected, mut written) = (Vec::new(), Vec::new());
            write_lines(&parts, &other, &mut HeaderText::behind(&mut expected));
            kept.write(&id, &mut HeaderText::behind(&mut written));
            prop_assert!(!kept.is_of(&other) || written == expected);
        }
    }
}
