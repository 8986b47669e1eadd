//! `external`: the limits service, and limits that ask it.

use std::path::PathBuf;

use sluicegate_config::{
    BackendScheme, BackendUrlSettings, ExternalService, ExternalSettings, GrpcCodec, HeaderFilter,
    ServiceAddress,
};
use sluicegate_core::{Nanos, QuotaSource};

use crate::{bad, good, wrong};

fn settings(keys: &str) -> ExternalSettings {
    good(&format!("external: {{ {keys} }}"))
        .external
        .expect("there is a section")
}

fn address(tls: bool, host: &str, port: u16) -> ServiceAddress {
    ServiceAddress {
        tls,
        host: host.to_owned(),
        port,
        ca_file: None,
    }
}
#[test]
fn it_is_off_by_default() {
    assert_eq!(good("{}").external, None);
}
#[test]
fn what_is_not_said_has_a_default() {
    let expected = ExternalSettings {
        timeout: Nanos::from_secs(5),
        cache_ttl: Nanos::MINUTE,
        max_concurrent_requests: 50,
        service: ExternalService::Http {
            at: address(false, "limits", 8080),
            path: "/limits".to_owned(),
        },
        headers: HeaderFilter::default(),
        cache_redis: None,
        backend_url: BackendUrlSettings {
            allowed_hosts: Vec::new(),
            deny_private_networks: true,
            schemes: vec![BackendScheme::Http, BackendScheme::Https],
        },
    };
    assert_eq!(
        settings("http: { url: \"http://limits:8080/limits\" }"),
        expected
    );
    let empty = "http: { url: \"http://limits:8080/limits\" }, header_filter: , backend_url: , cache_redis: ";
    assert_eq!(settings(empty), expected);
}

#[test]
fn everything_it_can_say_arrives() {
    let config = good(
        r#"
store: { kind: redis, deadline: 20ms, key_prefix: edge, redis: { endpoints: a } }
external:
  timeout: 2s
  cache_ttl: 10m
  max_concurrent_requests: 7
  grpc: { address: "Limits:50052", codec: json, tls: { enabled: true, ca_file: ca.pem } }
  header_filter: { deny_list: [X-Trace, x-b3] }
  cache_redis: { url: "rediss://cache/3", username: u, password_env: P }
  backend_url: { allowed_hosts: [A.example, "*.B.example", "[0:0::1]"], deny_private_networks: false, schemes: [https] }
limits:
  - { name: tenant, key: ["header:X-Tenant"], rate: 10/s, quota_from: external }
  - { name: gcra, key: [client_ip], algorithm: gcra, average: 0, quota_from: external }
  - { name: own, key: [client_ip], rate: 10/s, quota_from: static }
  - { name: plain, key: [client_ip], rate: 10/s }
"#,
    );
    let external = config.external.unwrap();
    assert_eq!(
        (external.timeout, external.cache_ttl),
        (Nanos::from_secs(2), Nanos::from_secs(600))
    );
    assert_eq!(external.max_concurrent_requests, 7);
    let ca_file = Some(PathBuf::from("/etc/sluicegate/ca.pem"));
    let at = ServiceAddress {
        ca_file,
        ..address(true, "limits", 50_052)
    };
    assert_eq!(
        external.service,
        ExternalService::Grpc {
            at,
            codec: GrpcCodec::Json
        }
    );
    for (name, is_told) in [
        ("x-trace", false),
        ("x-b3", false),
        ("x-plan", true),
        ("authorization", false),
    ] {
        assert_eq!(external.headers.tells(name), is_told, "{name}");
    }
    let redis = external.cache_redis.unwrap();
    assert_eq!(
        (
            redis.endpoints[0].as_str(),
            redis.database,
            redis.tls.is_some()
        ),
        ("cache", 3, true)
    );
    assert_eq!(
        (redis.deadline, redis.key_prefix.as_str()),
        (Nanos::from_millis(20), "edge"),
        "as the store says"
    );
    let backend = external.backend_url;
    assert_eq!(backend.allowed_hosts, ["a.example", "*.b.example", "::1"]);
    assert_eq!(
        (backend.deny_private_networks, backend.schemes),
        (false, vec![BackendScheme::Https])
    );
    let sources: Vec<QuotaSource> = config
        .policy
        .limits()
        .iter()
        .map(|limit| limit.quota_from)
        .collect();
    use QuotaSource::{External, Limit};
    assert_eq!(sources, [External, External, Limit, Limit]);
}

#[test]
fn urls_of_every_form_are_read() {
    for (url, expected, path) in [
        ("http://a", address(false, "a", 80), "/"),
        ("HTTPS://A.Example", address(true, "a.example", 443), "/"),
        ("http://a?x=1", address(false, "a", 80), "/?x=1"),
        (
            "http://[::1]:81/a/b?c=%20",
            address(false, "::1", 81),
            "/a/b?c=%20",
        ),
    ] {
        let read = settings(&format!("http: {{ url: \"{url}\" }}")).service;
        assert_eq!(
            read,
            ExternalService::Http {
                at: expected,
                path: path.to_owned()
            },
            "{url}"
        );
    }
    let off =
        settings("grpc: { address: \"a:1\", tls: { enabled: false, ca_file: ca.pem } }").service;
    assert_eq!(
        off,
        ExternalService::Grpc {
            at: address(false, "a", 1),
            codec: GrpcCodec::Auto
        }
    );
}
#[test]
fn credentials_are_told_only_to_those_who_name_them() {
    let is_sent = |filter: &str, name: &str| {
        settings(&format!("http: {{ url: http://a }}, {filter}"))
            .headers
            .tells(name)
    };
    for name in [
        "authorization",
        "cookie",
        "set-cookie",
        "proxy-authorization",
        "x-api-key",
        "x-csrf-token",
        "x-vault-token",
        "cf-access-jwt-assertion",
        "x-gitlab-token",
        "x-goog-iap-jwt-assertion",
        "x-goog-api-key",
        "x-forwarded-access-token",
        "x-session-token",
        "x-anybodys-secret",
    ] {
        assert!(!is_sent("", name), "{name}");
        assert!(
            !is_sent("header_filter: { deny_list: [x-a] }", name),
            "{name}"
        );
        assert!(
            is_sent(&format!("header_filter: {{ allow_list: [{name}] }}"), name),
            "{name}"
        );
    }
    // The headers that this configuration verifies, whatever they are called.
    let own = |filter: &str, name: &str| {
        let principals = "principals: { api_keys: { file: k, header: X-Our-Pass }, jwt: { jwks_file: j, header: X-Badge } }";
        let config = good(&format!(
            "{principals}\nexternal: {{ http: {{ url: http://a }}{filter} }}"
        ));
        config.external.unwrap().headers.tells(name)
    };
    for name in ["x-our-pass", "x-badge"] {
        assert!(is_sent("", name), "an ordinary header elsewhere");
        assert!(!own("", name), "{name}");
        assert!(
            !own(", header_filter: { deny_list: [x-a] }", name),
            "{name}"
        );
        let allowed = format!(", header_filter: {{ allow_list: [{name}] }}");
        assert!(own(&allowed, name), "{name}");
    }
    assert!(own("", "x-plan"));
    assert!(!is_sent(
        "header_filter: { allow_list: [X-Plan] }",
        "x-other"
    ));
    assert!(is_sent("header_filter: { allow_list: [X-Plan] }", "x-plan"));
}
#[test]
fn mistakes_are_told_with_their_place() {
    for (keys, message) in [
        (
            "timeout: 1s",
            "external: needs http or grpc: the service to ask",
        ),
        (
            "http: { url: http://a }, grpc: { address: \"a:1\" }",
            "external.grpc: cannot be combined with http: one service is asked",
        ),
        (
            "http: {}",
            "external.http.url: is missing: where to ask, such as http://limits:8080/limits",
        ),
        (
            "http: { url: a }",
            "external.http.url: must begin with http:// or https://",
        ),
        (
            "http: { url: \"ftp://a\" }",
            "external.http.url: must begin with http:// or https://",
        ),
        (
            "http: { url: \"http://u:hunter2@a\" }",
            "external.http.url: must not contain a user or password",
        ),
        (
            "http: { url: \"http://\" }",
            "external.http.url: the host is missing",
        ),
        (
            "http: { url: \"http://a:0\" }",
            "external.http.url: invalid port: must be 1 to 65535",
        ),
        (
            "http: { url: \"http://a/#b\" }",
            "external.http.url: must not contain a fragment",
        ),
        (
            "http: { url: \"http://a/b c\" }",
            "external.http.url: the path must be visible ASCII, percent-encoded where it is not",
        ),
        (
            "http: { url: http://a, tls: { ca_file: b } }",
            "external.http.tls: needs a url with https://",
        ),
        (
            "grpc: {}",
            "external.grpc.address: is missing: where to ask, such as limits:50052",
        ),
        (
            "grpc: { address: a }",
            "external.grpc.address: needs a port, as in limits:50052",
        ),
        (
            "grpc: { address: \"http://a:1\" }",
            "external.grpc.address: must be a host and a port without a scheme, as in limits:50052",
        ),
        (
            "grpc: { address: \"a:1\", codec: xml }",
            "external.grpc.codec: unknown value \"xml\" (expected auto, protobuf or json)",
        ),
    ] {
        assert_eq!(wrong(&format!("external: {{ {keys} }}")), message, "{keys}");
    }
}

#[test]
fn mistakes_beside_the_address_are_told_with_their_place() {
    for (keys, message) in [
        (
            "http: { url: http://a }, timeout: 0ms",
            "external.timeout: must be 1ms to 1m (got \"0ms\")",
        ),
        (
            "http: { url: http://a }, cache_ttl: 10ms",
            "external.cache_ttl: must be 1s to 1d (got \"10ms\")",
        ),
        (
            "http: { url: http://a }, max_concurrent_requests: 0",
            "external.max_concurrent_requests: must be 1 to 10000 (got 0)",
        ),
        (
            "http: { url: http://a }, header_filter: { allow_list: [a], deny_list: [b] }",
            "external.header_filter.deny_list: cannot be combined with allow_list, which names every header that is sent",
        ),
        (
            "http: { url: http://a }, header_filter: { deny_list: [\"a b\"] }",
            "external.header_filter.deny_list[0]: expected a header name (got \"a b\")",
        ),
        (
            "http: { url: http://a }, cache_redis: {}",
            "external.cache_redis.endpoints: is missing: at least one host:port, or a url",
        ),
        (
            "http: { url: http://a }, backend_url: { schemes: [] }",
            "external.backend_url.schemes: must name http, https or both",
        ),
        (
            "http: { url: http://a }, tiemout: 1s",
            "external: unknown key `tiemout`, did you mean `timeout`?",
        ),
    ] {
        assert_eq!(wrong(&format!("external: {{ {keys} }}")), message, "{keys}");
    }
    let hosts =
        bad("external: { http: { url: http://a }, backend_url: { allowed_hosts: [\"a/b\"] } }");
    assert!(
        hosts[0].starts_with("external.backend_url.allowed_hosts[0]: "),
        "{hosts:?}"
    );
}

#[test]
fn only_buckets_can_be_told_from_outside() {
    let message = "limits[0].quota_from: external needs algorithm token_bucket or gcra: the service answers with average, \
                   period and burst";
    for numbers in [
        "size: 10",
        "algorithm: leaky_bucket, size: 10",
        "algorithm: fixed_window, rate: 1/s",
        "algorithm: sliding_window, rate: 1/s",
        "max: 3, duration: 1s",
    ] {
        let text = format!(
            "external: {{ http: {{ url: http://a }} }}\nlimits: [{{ name: a, key: path, {numbers}, quota_from: external }}]"
        );
        assert_eq!(wrong(&text), message, "{numbers}");
    }
    // Too slow for the token bucket's arithmetic, and still a rate and a burst.
    let slow = "external: { http: { url: http://a } }\n\
                limits: [{ name: a, key: path, rate: 1/y, burst: 5, quota_from: external }]";
    good(&slow.replace("1/y", "1/year"));
}

#[test]
fn it_is_told_in_words() {
    let words = |text: &str| good(text).in_words();
    let limit = "limits: [{ name: tenant, key: [\"header:X-Tenant\"], rate: 10/s, burst: 20, quota_from: external }]";
    let found = words(&format!(
        "external: {{ http: {{ url: \"https://limits/x\" }} }}\n{limit}"
    ));
    for expected in [
        "the limits service is https://limits:443/x; a request waits for it at most 5s, 50 calls at a time",
        "its answers are not kept: every request asks",
        "tenant: at most 20 requests at once and 10 a second, or what the limits service says, for each header x-tenant",
    ] {
        assert!(
            found.iter().any(|word| word == expected),
            "{expected}\n{found:#?}"
        );
    }
    let found = words(
        "external: { grpc: { address: \"[::1]:5\", codec: json, tls: {} }, cache_redis: { endpoints: [a, b] }, cache_ttl: 5m }",
    );
    for expected in [
        "the limits service is [::1]:5 by gRPC in JSON with TLS; a request waits for it at most 5s, 50 calls at a time",
        "its answers are kept in Redis at a and b, for 5m unless they say",
    ] {
        assert!(
            found.iter().any(|word| word == expected),
            "{expected}\n{found:#?}"
        );
    }
    for (codec, in_words) in [
        ("", ""),
        (", codec: auto", ""),
        (", codec: protobuf", " in protobuf"),
    ] {
        let found = words(&format!(
            "store: {{ kind: redis, redis: {{ endpoints: a }} }}\n\
             external: {{ grpc: {{ address: \"a:5\"{codec} }} }}"
        ));
        for expected in [
            format!(
                "the limits service is a:5 by gRPC{in_words}; a request waits for it at most 5s, 50 calls at a time"
            ),
            "its answers are kept beside the counters, for 1m unless they say".to_owned(),
        ] {
            assert!(found.contains(&expected), "{expected}\n{found:#?}");
        }
    }
}
