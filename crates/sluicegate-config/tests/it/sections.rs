//! Every section but limits and store: what it says arrives, with its defaults.

use std::path::PathBuf;

use sluicegate_config::{
    Admin, ApiKeys, BodyStyle, Bounds, ClientIp, Decisions, HeaderStyle, Jwt, JwtAlgorithm, Log,
    LogFormat, OnInvalid, ProxyHeader, Response, ServerTls, Source, Timeouts, Upstream,
    UpstreamHttp, load,
};
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
fn the_built_in_default_is_an_echo_behind_ten_requests_a_second() {
    let config = load(&Source::embedded(), &|_| None).unwrap();
    let proxy = config.proxy.unwrap();
    assert_eq!(proxy.listen, ["127.0.0.1:8080".parse().unwrap()]);
    assert_eq!(proxy.routes.len(), 1);
    assert_eq!(proxy.routes[0].upstreams, [Upstream::Echo]);
    assert_eq!(config.decisions.http, "127.0.0.1:8081".parse().ok());
    assert_eq!(config.admin.listen, "127.0.0.1:9090".parse().ok());
    let limit = &config.policy.limits()[0];
    assert_eq!(
        (limit.name.as_str(), limit.quota.unwrap().limit()),
        ("per-client", 20)
    );
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
            connect: seconds(5),
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
    assert!(proxy.tls.is_none() && proxy.proxy_protocol_from.is_empty());
}

#[test]
fn everything_a_proxy_can_say_arrives() {
    let proxy = good(
        r#"
proxy:
  listen: ["0.0.0.0:80", "[::]:80"]
  tls: { cert: cert.pem, key: /keys/key.pem }
  timeouts: { header: 1s, drain: 0s }
  max_connections: 5
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

#[test]
fn decisions_are_off_until_an_address_is_named_and_ask_for_a_token_beyond_loopback() {
    let decisions = |text: &str| good(text).decisions;
    assert_eq!(
        [
            decisions(""),
            decisions("decisions:"),
            decisions("decisions: {}")
        ],
        [(); 3].map(|()| Decisions::default())
    );
    let open = decisions("decisions: { http: \"0.0.0.0:1\", token_file: t }");
    assert_eq!(
        (open.http, open.token_file),
        ("0.0.0.0:1".parse().ok(), Some("/etc/sluicegate/t".into()))
    );
    decisions("decisions: { http: \"[::1]:1\" }");
    decisions("decisions: { http: \"[::ffff:127.0.0.1]:1\" }");
    assert!(decisions("decisions: { http: \"0.0.0.0:1\", allow_remote: true }").allow_remote);
    for text in [
        "http: \"0.0.0.0:1\"",
        "http: \"[::]:1\"",
        "http: \"192.0.2.1:1\", allow_remote: false",
    ] {
        let told = wrong(&format!("decisions: {{ {text} }}"));
        assert!(
            told.starts_with(
                "decisions.token_file: is missing: an address that is not loopback needs"
            ),
            "{told}"
        );
    }
    let certified = decisions(
        "decisions: { http: \"0.0.0.0:1\", tls: { cert: a, key: b, client_ca_file: c } }",
    );
    assert_eq!(
        certified.tls.unwrap().client_ca_file,
        Some("/etc/sluicegate/c".into())
    );
    let told = wrong("decisions: { http: \"0.0.0.0:1\", tls: { cert: a, key: b } }");
    assert!(
        told.starts_with("decisions.token_file: is missing"),
        "TLS alone lets everybody in: {told}"
    );
    let all = decisions("decisions: { grpc: \"127.0.0.1:8082\", resp: \"127.0.0.1:8083\" }");
    assert_eq!(
        (all.grpc, all.resp),
        ("127.0.0.1:8082".parse().ok(), "127.0.0.1:8083".parse().ok())
    );
    for protocol in ["grpc", "resp"] {
        let told = wrong(&format!("decisions: {{ {protocol}: \"0.0.0.0:1\" }}"));
        assert!(
            told.starts_with("decisions.token_file: is missing"),
            "{told}"
        );
    }
}

#[test]
fn decisions_do_not_share_a_port_with_another_door() {
    let http = "decisions: { http: \"127.0.0.1:9090\" }";
    assert_eq!(
        wrong(http),
        "decisions: decisions.http and admin listen at the same address and port: change one of them"
    );
    good(&format!("{http}\nadmin: off"));
    let told = wrong("proxy: { listen: \"0.0.0.0:1\" }\ndecisions: { http: \"127.0.0.1:1\" }");
    assert_eq!(
        told,
        "decisions: decisions.http and proxy listen at the same address and port: change one of them"
    );
    good("proxy: { listen: \"127.0.0.1:0\" }\ndecisions: { http: \"127.0.0.1:0\" }");
}

#[test]
fn admin_is_on_at_loopback_and_asks_for_a_token_elsewhere() {
    let admin = |text: &str| good(text).admin;
    let loopback = Admin {
        listen: "127.0.0.1:9090".parse().ok(),
        token_file: None,
    };
    assert_eq!(
        [admin(""), admin("admin: {}"), admin("admin:")],
        [(); 3].map(|()| loopback.clone())
    );
    let off = Admin {
        listen: None,
        token_file: None,
    };
    assert_eq!(
        [admin("admin: off"), admin("admin: false")],
        [(); 2].map(|()| off.clone())
    );
    let open = admin("admin: { listen: \"0.0.0.0:1\", token_file: t }");
    assert_eq!(open.token_file, Some("/etc/sluicegate/t".into()));
    admin("admin: { listen: \"[::1]:1\" }");
    admin("admin: { listen: \"[::ffff:127.0.0.1]:1\" }");
    for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
        assert_eq!(
            wrong(&format!("admin: {{ listen: \"{address}\" }}")),
            "admin.token_file: is missing: an address that is not loopback needs a token"
        );
    }
    for proxy in ["127.0.0.1:9090", "0.0.0.0:9090", "[::]:9090"] {
        let told = wrong(&format!("proxy: {{ listen: \"{proxy}\" }}"));
        assert_eq!(
            told,
            "proxy: the proxy and admin listen at the same address and port: change one of them"
        );
    }
    good("proxy: { listen: \"127.0.0.2:9090\" }");
    good("proxy: { listen: \"127.0.0.1:0\" }\nadmin: { listen: \"127.0.0.1:0\" }");
    assert_eq!(wrong("admin: on"), "admin: expected a section (got \"on\")");
    assert_eq!(wrong("admin: true"), "admin: expected a section (got true)");
    assert_eq!(
        wrong("admin: { listen: \"0.0.0.0:1\", token_file: \"\" }"),
        "admin.token_file: must not be empty"
    );
}

#[test]
fn client_addresses_are_found_as_configured() {
    let by_default = ClientIp {
        trusted_proxies: vec![],
        header: ProxyHeader::XForwardedFor,
    };
    assert_eq!(good("").client_ip, by_default);
    let config =
        good("client_ip: { trusted_proxies: [10.0.0.0/8, 2001:db8::/32], header: Forwarded }");
    assert_eq!(
        (
            config.client_ip.trusted_proxies.len(),
            config.client_ip.header
        ),
        (2, ProxyHeader::Forwarded)
    );
    assert_eq!(
        good("client_ip: { header: X-Real-IP }").client_ip.header,
        ProxyHeader::XRealIp
    );
    for (keys, message) in [
        (
            "header: via",
            "client_ip.header: unknown value \"via\" (expected x-forwarded-for, forwarded or x-real-ip)",
        ),
        (
            "ipv4_prefix: 33",
            "client_ip.ipv4_prefix: must be 0 to 32 (got 33)",
        ),
        (
            "ipv6_prefix: 129",
            "client_ip.ipv6_prefix: must be 0 to 128 (got 129)",
        ),
        (
            "trusted_proxies: [any]",
            "client_ip.trusted_proxies[0]: expected addresses such as 10.0.0.0/8 or 2001:db8::/32 (got \"any\")",
        ),
    ] {
        assert_eq!(wrong(&format!("client_ip: {{ {keys} }}")), message);
    }
}

#[test]
fn principals_are_found_as_configured() {
    let principals =
        good("principals: { api_keys: { file: keys.yaml }, jwt: { jwks_file: jwks.json } }")
            .principals;
    assert_eq!(
        principals.api_keys,
        Some(ApiKeys {
            header: "x-api-key".into(),
            file: "/etc/sluicegate/keys.yaml".into()
        })
    );
    let jwt = Jwt {
        header: "authorization".into(),
        jwks_file: "/etc/sluicegate/jwks.json".into(),
        issuer: None,
        audience: None,
        algorithms: vec![
            JwtAlgorithm::RS256,
            JwtAlgorithm::ES256,
            JwtAlgorithm::EdDSA,
        ],
        leeway: Nanos::from_secs(60),
    };
    assert_eq!(principals.jwt, Some(jwt));
    assert!(!principals.required && principals.on_invalid == OnInvalid::Reject);
    let principals = good(
        "principals: { jwt: { jwks_file: /j, issuer: i, audience: \"\", algorithms: [HS256], leeway: 0s, header: X-Token }, \
         required: true, on_invalid: anonymous }",
    )
    .principals;
    let jwt = principals.jwt.unwrap();
    assert_eq!(
        (jwt.issuer.as_deref(), jwt.audience, jwt.leeway),
        (Some("i"), None, Nanos::ZERO)
    );
    assert_eq!(
        (jwt.algorithms, jwt.header.as_str()),
        (vec![JwtAlgorithm::HS256], "x-token")
    );
    assert!(principals.required && principals.on_invalid == OnInvalid::Anonymous);
    for (keys, message) in [
        (
            "required: true",
            "principals.required: needs api_keys or jwt: without them every request is rejected",
        ),
        (
            "api_keys: {}",
            "principals.api_keys.file: is missing: the list of keys",
        ),
        (
            "api_keys: { file: f, header: \"a b\" }",
            "principals.api_keys.header: expected a header name (got \"a b\")",
        ),
        (
            "jwt: { jwks_file: j, algorithms: [] }",
            "principals.jwt.algorithms: must name at least one algorithm",
        ),
        (
            "on_invalid: pass",
            "principals.on_invalid: unknown value \"pass\" (expected reject or anonymous)",
        ),
    ] {
        assert_eq!(wrong(&format!("principals: {{ {keys} }}")), message);
    }
    let none = wrong("principals: { jwt: { jwks_file: j, algorithms: [none] } }");
    assert!(
        none.starts_with("principals.jwt.algorithms[0]: unknown value \"none\" (expected RS256, "),
        "{none}"
    );
}

#[test]
fn access_response_and_log_are_read() {
    let config = good(
        "access: { allow: { cidrs: 10.0.0.0/8, keys: [ann] }, deny: { keys: [bob] } }\n\
         response: { headers: [clear], body: json }\nlog: { format: json, access: true, rate_limit_line: false }\n",
    );
    assert_eq!(
        config.access.allow.cidrs.len() + config.access.allow.keys.len(),
        2
    );
    assert_eq!(config.access.deny.keys, ["bob"]);
    assert_eq!(
        config.response,
        Response {
            headers: vec![HeaderStyle::Clear],
            body: BodyStyle::Json
        }
    );
    assert_eq!(
        config.log,
        Log {
            format: LogFormat::Json,
            access: true,
            rate_limit_line: false
        }
    );
    let by_default = good("");
    assert_eq!(
        by_default.response.headers,
        [HeaderStyle::Ietf, HeaderStyle::XRateLimit]
    );
    assert_eq!(
        by_default.log,
        Log {
            format: LogFormat::Text,
            access: false,
            rate_limit_line: true
        }
    );
    assert_eq!(good("response: { headers: none }").response.headers, []);
    assert_eq!(
        wrong("response: { headers: [ietf, none] }"),
        "response.headers[1]: none cannot be combined with other styles"
    );
}
