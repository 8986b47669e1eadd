//! The configuration in sentences.

use crate::{good, wrong};

#[test]
fn a_configuration_is_told_in_sentences() {
    let words = good(
        r#"
proxy:
  listen: 0.0.0.0:443
  tls: { cert: a, key: b }
  upstream: [http://a, h2c://b:81]
  routes: [{ host: "*.example", path: /api, upstream: echo }]
  proxy_protocol_from: 10.0.0.0/8
decisions: { http: "0.0.0.0:8081", token_file: t }
admin: { listen: "0.0.0.0:9090", token_file: t }
access: { deny: { cidrs: [192.0.2.0/24] }, allow: { keys: [ann, bob] } }
store: { kind: redis, on_failure: { policy: closed, status: 502 }, redis: { mode: cluster, endpoints: ["rl-0:6379", rl-1] } }
limits:
  - { name: per-ip, key: [client_ip], rate: 100/s, burst: 200 }
  - { name: api, replaces: per-ip, match: { path: /api/, methods: [POST] }, key: client_ip, rate: 3/s, burst: 1, on_failure: open }
  - { name: slow, key: [global], rate: 1/7s, mode: shadow }
  - { name: window, key: ["header:X-Tenant", "path_segment:1"], rate: 10/m, algorithm: fixed_window }
  - { name: sliding, key: [principal], rate: 10/h, algorithm: sliding_window, match: { hosts: ["*.b"], headers: { x-a: "1" } } }
  - { name: sign-in, key: [client_ip], size: 10, drip_rate: 60s, factor: { claim: rate_factor } }
  - { name: free, key: global, average: 0, match: { path: /free } }
"#,
    )
    .in_words();
    let expected = [
        "the proxy listens at 0.0.0.0:443 with TLS",
        "10.0.0.0/8 must speak the PROXY protocol",
        "requests for *.example below /api go to the built-in echo",
        "all other requests go to http://a:80 and h2c://b:81",
        "decisions over HTTP are asked for at 0.0.0.0:8081, with a token",
        "admin listens at 0.0.0.0:9090 and asks for a token",
        "the process may use 80% of the memory that there is: near that, connections are refused and closed",
        "counters are in the Redis cluster of rl-0:6379 and rl-1; a decision takes at most 50ms",
        "while the store is away, requests are refused with 502",
        "clients of 192.0.2.0/24 get 403",
        "the principals ann and bob are never limited",
        "per-ip: at most 200 requests at once and 100 a second, for each client address",
        "api: at most 1 request at once and 3 a second, for each client address, for POST below /api",
        "api takes the place of per-ip for POST below /api",
        "while the store is away, for api requests pass unchecked",
        "slow: at most 1 request at once and one every 7s, for all requests together",
        "slow is only watched: it never rejects",
        "window: at most 10 requests in each 1m of the clock, for each header x-tenant and segment 1 of the path",
        "sliding: at most 10 requests in any 1h, for each principal, at *.b with x-a: 1",
        "sliding is about principals, and none are configured",
        "sign-in: at most 10 requests at once, of which 1 comes back every 1m, for each client address",
        "sign-in is divided by the claim rate_factor of the caller",
        "sign-in is about principals, and none are configured",
        "free: no limit, below /free",
    ];
    assert_eq!(words, expected);
}

#[test]
fn what_is_off_is_told_too() {
    let words = good("admin: off").in_words();
    let expected = [
        "the proxy is off",
        "the decision service is off",
        "admin is off",
        "the process may use 80% of the memory that there is: near that, connections are refused and closed",
        "counters are in this process, for 1000000 callers at a time; other replicas have their own",
        "there are no limits: every request passes",
    ];
    assert_eq!(words, expected);
}

#[test]
fn without_routes_all_requests_go_to_one_place() {
    let of_proxy = |settings: &str| {
        let words = good(&format!(
            "proxy: {{ listen: '127.0.0.1:8080'{settings} }}\nadmin: off"
        ))
        .in_words();
        words[1].clone()
    };
    assert_eq!(of_proxy(""), "all requests go to the built-in echo");
    assert_eq!(
        of_proxy(", upstream: 'http://a'"),
        "all requests go to http://a:80"
    );
    assert_eq!(
        of_proxy(", upstream: ['http://a', 'http://b']"),
        "all requests go to http://a:80 and http://b:80"
    );
}

#[test]
fn mistakes_about_traces_are_told() {
    for (keys, message) in [
        (
            "{}",
            "traces.otlp: is missing: where spans go by OTLP over gRPC, such as http://127.0.0.1:4317",
        ),
        (
            "{ otlp: a }",
            "traces.otlp: must begin with http:// or https://",
        ),
        (
            "{ otlp: http://a/v1/traces }",
            "traces.otlp: must have no path: OTLP over gRPC has its own",
        ),
        (
            "{ otlp: http://a, one_in: 0 }",
            "traces.one_in: must be 1 to 1000000000 (got 0)",
        ),
        (
            "{ otlp: http://a, ca_file: ca.pem }",
            "traces.ca_file: needs a collector with https://",
        ),
    ] {
        assert_eq!(wrong(&format!("traces: {keys}")), message, "{keys}");
    }
}

#[test]
fn where_traces_go_is_told() {
    let words = good("traces: { otlp: \"http://[::1]:4317\", one_in: 7 }\n").in_words();
    assert!(
        words.contains(&"one of 7 requests is traced, to http://[::1]:4317".to_owned()),
        "{words:?}"
    );
}

#[test]
fn who_is_left_to_the_limit_that_is_replaced_is_told() {
    let told = |limit: &str| {
        let words = good(&format!(
            "principals: {{ api_keys: {{ file: keys.yaml }} }}
limits:
  - {{ name: per-ip, key: client_ip, rate: 1/s }}
  - {{ name: off, key: client_ip, rate: 1/s, enabled: false }}
  - {{ name: a, rate: 1/s, {limit} }}
"
        ))
        .in_words();
        let left = words.into_iter().filter(|line| line.contains("charged to"));
        left.collect::<Vec<_>>()
    };
    let strangers =
        "callers that a does not know are charged to per-ip, also with a wrong credential";
    let keyless = "requests without the key of a are charged to per-ip";
    for (limit, expected) in [
        ("key: principal, replaces: per-ip", Some(strangers)),
        (
            "key: client_ip, replaces: per-ip, match: { claim: { plan: gold } }",
            Some(strangers),
        ),
        (
            "key: ['header:X-T'], replaces: per-ip, on_missing_key: skip",
            Some(keyless),
        ),
        ("key: ['header:X-T'], replaces: per-ip", None),
        (
            "key: principal, replaces: per-ip, on_missing_key: shared",
            None,
        ),
        ("key: principal, replaces: off", None),
        ("key: principal", None),
    ] {
        assert_eq!(told(limit), Vec::from_iter(expected), "{limit}");
    }
}

#[test]
fn where_the_keys_of_tokens_come_from_is_told_without_secrets() {
    let told = |url: &str| {
        let words = good(&format!("principals: {{ jwt: {{ jwks_url: \"{url}\" }} }}")).in_words();
        let keys = words.into_iter().filter(|words| words.contains("keys"));
        keys.collect::<Vec<_>>()
    };
    assert_eq!(
        told("https://id.example/keys?secret=hunter2"),
        [
            "tokens are verified with keys from https://id.example:443/keys?secret=***, fetched every 5m; \
             without a newer answer they are used for 1d"
        ]
    );
    assert_eq!(
        told("http://id.example/keys")[1],
        "the keys come without TLS: whoever can change what id.example answers can make tokens"
    );
}

#[test]
fn what_happens_to_a_second_credential_is_told() {
    let told = |more: &str| {
        let jwt = "jwt: { jwks_file: j }";
        let words = good(&format!("principals: {{ {jwt}{more} }}")).in_words();
        let told = words
            .into_iter()
            .find(|words| words.contains("valid") || words.contains("verified"));
        told.unwrap_or_default()
    };
    assert_eq!(told(""), "");
    assert_eq!(
        told(", api_keys: { file: k }"),
        "a request with an API key and a token needs both to be valid"
    );
    assert_eq!(
        told(", credentials: strip_unverified"),
        "a credential that is not verified is removed before a request is forwarded"
    );
}

#[test]
fn secrets_in_conditions_and_urls_are_not_told() {
    let words = good(
        "external: { http: { url: \"http://limits/q?v=1&api_key=hunter2\" } }\n\
         limits: [{ name: a, key: global, rate: 1/s, match: { headers: { x-api-key: hunter2, x-plan: gold } } }]",
    )
    .in_words()
    .join("\n");
    assert!(!words.contains("hunter2"), "{words}");
    assert!(
        words.contains("http://limits:80/q?v=1&api_key=***"),
        "{words}"
    );
    assert!(
        words.contains("with x-api-key: *** and x-plan: gold"),
        "{words}"
    );
}
