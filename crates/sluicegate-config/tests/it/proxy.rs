//! The proxy and its routes: every key arrives, with its defaults.

use std::path::PathBuf;

use sluicegate_config::{Bounds, ServerTls, Timeouts, Upstream, UpstreamHttp};
use sluicegate_core::Nanos;

use crate::{bad, good, wrong};

fn server(tls: bool, host: &str, port: u16, http: UpstreamHttp, ca_file: Option<&str>) -> Upstream {
    Upstream::Server {
        tls,
        host: host.into(),
        port,
        http,
        ca_file: ca_file.map(PathBuf::from),
    }
}

#[test]
fn a_proxy_has_its_defaults() {
    let proxy = good("proxy: { listen: \"[::1]:0\" }").proxy.unwrap();
    let seconds = Nanos::from_secs;
    assert_eq!(
        proxy.timeouts,
        Timeouts {
            header: seconds(10),
            idle: seconds(60),
            stalled_client: seconds(60),
            stalled_server: seconds(60),
            connect: seconds(5),
            upstream_wait: seconds(1),
            request: seconds(60),
            drain: seconds(30)
        }
    );
    let bounds = Bounds {
        header_bytes: 16 << 10,
        headers: 100,
        target_bytes: 8 << 10,
        body_bytes: None,
    };
    assert_eq!(
        (proxy.bounds, proxy.max_connections, proxy.workers),
        (bounds, 10_000, None)
    );
    assert_eq!(proxy.max_connections_per_upstream, 1_024);
    assert_eq!(proxy.max_buffered_per_connection, 1 << 20);
    assert!(proxy.tls.is_none() && proxy.proxy_protocol_from.is_empty());
}

#[test]
fn everything_a_proxy_can_say_arrives() {
    let proxy = good(
        r#"
proxy:
  listen: ["0.0.0.0:80", "[::]:80"]
  tls: { cert: cert.pem, key: /keys/key.pem }
  timeouts: { header: 1s, stalled_client: 2s, stalled_server: 3s, drain: 0s, upstream_wait: 2s }
  max_connections: 5
  max_connections_per_upstream: 6
  max_buffered_per_connection: 256KiB
  max_header_bytes: 1KiB
  max_headers: 10
  max_target_bytes: 2048
  max_body: 10MiB
  proxy_protocol_from: [10.0.0.0/8, "::1"]
  workers: 2
"#,
    )
    .proxy
    .unwrap();
    assert_eq!(proxy.listen.len(), 2);
    assert_eq!(
        proxy.tls,
        Some(ServerTls {
            cert: "/etc/sluicegate/cert.pem".into(),
            key: "/keys/key.pem".into()
        })
    );
    assert_eq!(
        (proxy.timeouts.header, proxy.timeouts.drain),
        (Nanos::SECOND, Nanos::ZERO)
    );
    assert_eq!(
        (
            proxy.max_connections_per_upstream,
            proxy.timeouts.upstream_wait
        ),
        (6, Nanos::from_secs(2))
    );
    assert_eq!(
        (proxy.timeouts.stalled_client, proxy.timeouts.stalled_server),
        (Nanos::from_secs(2), Nanos::from_secs(3))
    );
    assert_eq!(proxy.max_buffered_per_connection, 256 << 10);
    let bounds = Bounds {
        header_bytes: 1024,
        headers: 10,
        target_bytes: 2048,
        body_bytes: Some(10 << 20),
    };
    assert_eq!(
        (proxy.bounds, proxy.max_connections, proxy.workers),
        (bounds, 5, Some(2))
    );
    assert_eq!(
        proxy.proxy_protocol_from,
        ["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()]
    );
}

#[test]
fn upstreams_are_read_from_urls() {
    let upstreams = |value: &str| {
        let proxy = good(&format!(
            "proxy: {{ listen: \"127.0.0.1:0\", upstream: {value} }}"
        ))
        .proxy
        .unwrap();
        proxy.routes[0].upstreams.clone()
    };
    let auto = UpstreamHttp::Auto;
    assert_eq!(
        upstreams("http://Web:3000"),
        [server(false, "web", 3000, auto, None)]
    );
    assert_eq!(
        upstreams("https://web/"),
        [server(true, "web", 443, auto, None)]
    );
    assert_eq!(
        upstreams("\"http://[::1]:81\""),
        [server(false, "::1", 81, auto, None)]
    );
    assert_eq!(
        upstreams("[h2c://a, h2://b]"),
        [
            server(false, "a", 80, UpstreamHttp::Http2, None),
            server(true, "b", 443, UpstreamHttp::Http2, None)
        ]
    );
    assert_eq!(upstreams("echo"), [Upstream::Echo]);
    for (value, message) in [
        (
            "web:3000",
            "proxy.upstream: must begin with http://, https://, h2c:// or h2://",
        ),
        (
            "ftp://web",
            "proxy.upstream: must begin with http://, https://, h2c:// or h2://",
        ),
        ("http://", "proxy.upstream: the host is missing"),
        (
            "http://a:0",
            "proxy.upstream: invalid port: must be 1 to 65535",
        ),
        (
            "http://a:99999",
            "proxy.upstream: invalid port: must be 1 to 65535",
        ),
        (
            "http://a/x",
            "proxy.upstream: must end after the host and port: the path of the request is forwarded",
        ),
        (
            "http://ann:pw@a",
            "proxy.upstream: must not contain a user or password",
        ),
        (
            "\"http://::1\"",
            "proxy.upstream: an IPv6 address needs brackets, as in [::1]:80",
        ),
        (
            "\"http://a b\"",
            "proxy.upstream: invalid host: must be a name or an address",
        ),
        (
            "[]",
            "proxy.upstream: must name at least one server; without the key, the built-in echo answers",
        ),
        (
            "[http://a, http://a:80]",
            "proxy.upstream[1]: is listed twice",
        ),
        (
            "http://a, upstream_ca_file: ca.pem",
            "proxy.upstream_ca_file: needs an upstream with https:// or h2://",
        ),
    ] {
        assert_eq!(
            wrong(&format!(
                "proxy: {{ listen: \"127.0.0.1:0\", upstream: {value} }}"
            )),
            message,
            "{value}"
        );
    }
}

#[test]
fn the_most_particular_route_comes_first_and_everything_else_last() {
    let proxy = good(
        r#"
proxy:
  listen: 127.0.0.1:0
  upstream: https://rest
  upstream_ca_file: ca.pem
  routes:
    - { host: "*.example", upstream: http://domain }
    - { path: /api, upstream: http://api }
    - { host: A.example, path: /api, upstream: http://a-api }
    - { path: "/api/{version}", upstream: http://template }
    - { path: /api/v1, upstream: http://v1 }
    - { host: "*.example", path: /api, upstream: http://domain-api }
    - { host: a.example, upstream: http://a }
"#,
    )
    .proxy
    .unwrap();
    let order: Vec<&str> = proxy
        .routes
        .iter()
        .map(|route| match &route.upstreams[0] {
            Upstream::Server { host, .. } => host.as_str(),
            Upstream::Echo => "echo",
        })
        .collect();
    assert_eq!(
        order,
        [
            "v1",
            "template",
            "a-api",
            "domain-api",
            "api",
            "a",
            "domain",
            "rest"
        ]
    );
    assert_eq!(proxy.routes[2].host.as_deref(), Some("a.example"));
    let last = proxy.routes.last().unwrap();
    assert!(last.host.is_none() && last.path.is_none());
    assert_eq!(
        last.upstreams,
        [server(
            true,
            "rest",
            443,
            UpstreamHttp::Auto,
            Some("/etc/sluicegate/ca.pem")
        )]
    );
    let routes = |routes: &str| {
        bad(&format!(
            "proxy: {{ listen: \"127.0.0.1:0\", routes: [{routes}] }}"
        ))
    };
    assert_eq!(
        routes(
            "{ upstream: echo }, { host: a }, { host: a, upstream: echo }, { path: x, upstream: echo }"
        ),
        [
            "proxy.routes[0]: needs a host or a path; proxy.upstream is for everything else",
            "proxy.routes[1].upstream: is missing: a URL such as http://127.0.0.1:3000, or a list of them",
            "proxy.routes[2]: has the same host and path as proxy.routes[1]",
            "proxy.routes[3].path: expected a path that starts with a slash (got \"x\")",
        ]
    );
}

#[test]
fn what_is_wrong_with_a_proxy_is_told() {
    for (keys, message) in [
        (
            "max_header_bytes: 512",
            "proxy.max_header_bytes: must be 1024 to 1048576 (got 512)",
        ),
        (
            "max_header_bytes: 2MiB",
            "proxy.max_header_bytes: must be 1024 to 1048576 (got \"2MiB\")",
        ),
        (
            "max_body: 1MB",
            "proxy.max_body: expected a size, such as 512, 64KiB, 1MiB or 1GiB (got \"1MB\")",
        ),
        (
            "max_body: -1",
            "proxy.max_body: must be at least 0 (got -1)",
        ),
        ("workers: 0", "proxy.workers: must be 1 to 1024 (got 0)"),
        (
            "max_buffered_per_connection: 64KiB",
            "proxy.max_buffered_per_connection: must be 131072 to 1073741824 (got \"64KiB\")",
        ),
        (
            "max_connections: many",
            "proxy.max_connections: expected a whole number (got \"many\")",
        ),
        (
            "timeouts: { idle: 0s }",
            "proxy.timeouts.idle: must be 1ms to 1d (got \"0s\")",
        ),
        (
            "timeouts: { idle: 9999d }",
            "proxy.timeouts.idle: must be 1ms to 1d (got \"9999d\")",
        ),
        (
            "timeouts: 5s",
            "proxy.timeouts: expected a section (got \"5s\")",
        ),
        (
            "tls: { cert: a }",
            "proxy.tls.key: is missing: the file with the private key",
        ),
        (
            "proxy_protocol_from: [10.0.0.1/8]",
            "proxy.proxy_protocol_from[0]: expected a network whose address has no bits set after the prefix (got \"10.0.0.1/8\")",
        ),
    ] {
        assert_eq!(
            wrong(&format!("proxy: {{ listen: \"127.0.0.1:0\", {keys} }}")),
            message,
            "{keys}"
        );
    }
    assert!(wrong("proxy: {}").starts_with("proxy.listen: is missing"));
    assert!(wrong("proxy:").starts_with("proxy.listen: is missing"));
    assert_eq!(
        wrong("proxy: { listen: [] }"),
        "proxy.listen: must name at least one address"
    );
    assert_eq!(
        wrong("proxy: { listen: [\"1.1.1.1:1\", \"1.1.1.1:1\"] }"),
        "proxy.listen[1]: is listed twice"
    );
}
