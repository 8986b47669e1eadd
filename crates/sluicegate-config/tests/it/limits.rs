//! Limits: everything but their numbers, and every way to get it wrong.

use sluicegate_core::address::Prefixes;
use sluicegate_core::{
    DescriptorMatch, Factor, FactorRule, FailurePolicy, FailureStatus, HeaderMatch, KeyPart, Limit,
    Match, Mode, OnMissingKey, Quota,
};

use crate::{good, wrong};

/// One limit with these keys besides name and key.
pub fn one(keys: &str) -> String {
    format!("limits:\n  - {{ name: a, key: [client_ip], {keys} }}\n")
}

#[test]
fn everything_a_limit_can_say_arrives() {
    let config = good(
        r#"
store: { on_failure: { policy: closed, status: 502 } }
client_ip: { ipv4_prefix: 24, ipv6_prefix: 56 }
limits:
  - { name: per-ip, key: client_ip, rate: 100/s, burst: 200 }
  - name: api
    replaces: per-ip
    match:
      path: /api/{version}
      methods: [post, PUT]
      hosts: [A.example, "*.b.example"]
      headers: { X-Beta: "1", X-Any: "*" }
    key: ["header:X-Tenant-Id", "path_segment:1"]
    rate: 10/s
    mode: shadow
    on_missing_key: shared
    on_failure: inMemoryFallback
    factor: { claim: rate_factor, default: 0.5 }
"#,
    );
    let prefixes = Prefixes::new(24, 56).unwrap();
    let closed = FailurePolicy::Closed(FailureStatus::new(502).unwrap());
    let per_ip = Limit::per_client("per-ip", Quota::per_second(100).burst(200))
        .prefixes(prefixes)
        .on_failure(closed);
    let any = HeaderMatch {
        name: "x-any".into(),
        value: None,
    };
    let mut matching = Match::path("/api/{version}")
        .unwrap()
        .methods(["POST", "PUT"])
        .header("x-beta", "1");
    matching = matching
        .host("a.example")
        .unwrap()
        .host("*.b.example")
        .unwrap();
    matching.headers.push(any);
    let api = Limit::new("api", Quota::per_second(10))
        .key([KeyPart::header("x-tenant-id"), KeyPart::PathSegment(1)])
        .matching(matching)
        .replaces("per-ip")
        .on_missing_key(OnMissingKey::Shared)
        .on_failure(FailurePolicy::Local)
        .factor(FactorRule::new("rate_factor", Factor::new(0.5).unwrap()))
        .prefixes(prefixes);
    let api = Limit {
        mode: Mode::Shadow,
        ..api
    };
    assert_eq!(config.policy.limits(), [per_ip, api]);
}

#[test]
fn descriptors_are_matched_by_domain_and_entries() {
    let config = good(
        "limits: [{ name: a, key: [\"descriptor:user\"], rate: 1/s, match: { domain: edge, descriptor: { path: /x, user: \"*\" } } }]",
    );
    let mut expected = Match::default().descriptor("path", "/x");
    expected.descriptors.push(DescriptorMatch {
        name: "user".into(),
        value: None,
    });
    expected.domain = Some("edge".into());
    let limit = &config.policy.limits()[0];
    assert_eq!(
        (&limit.matching, &limit.key[..]),
        (&expected, &[KeyPart::Descriptor("user".into())][..])
    );
    let words = config.in_words().join("\n");
    assert!(
        words.contains("for descriptors of path=/x and any user in domain edge"),
        "{words}"
    );
}
#[test]
fn every_spelling_of_a_failure_policy_is_known_for_stores_and_limits() {
    let closed = |status| FailurePolicy::Closed(FailureStatus::new(status).unwrap());
    for (keys, policy) in [
        ("on_failure: open", FailurePolicy::Open),
        ("on_failure: passThrough", FailurePolicy::Open),
        ("fail_open: true", FailurePolicy::Open),
        ("fail_open: false", closed(503)),
        ("on_failure: failClosed", closed(503)),
        ("on_failure: { policy: closed, status: 429 }", closed(429)),
        ("on_failure: { policy: FAIL_CLOSED }", closed(503)),
        ("on_failure: in-memory-fallback", FailurePolicy::Local),
        ("on_failure: { policy: local }", FailurePolicy::Local),
    ] {
        let by_limit = good(&one(&format!("rate: 1/s, {keys}")));
        assert_eq!(
            by_limit.policy.limits()[0].on_failure,
            Some(policy),
            "{keys}"
        );
        assert_eq!(by_limit.store.on_failure, closed(503), "{keys}");
        let by_store = good(&format!("store: {{ {keys} }}\n{}", one("rate: 1/s")));
        assert_eq!(by_store.store.on_failure, policy, "{keys}");
        assert_eq!(
            by_store.policy.limits()[0].on_failure,
            Some(policy),
            "{keys}"
        );
    }
    for (keys, message) in [
        (
            "on_failure: opn",
            "limits[0].on_failure: unknown value \"opn\" (expected open, closed or local)",
        ),
        (
            "on_failure: { policy: x }",
            "limits[0].on_failure.policy: unknown value \"x\" (expected open, closed or local)",
        ),
        (
            "on_failure: {}",
            "limits[0].on_failure.policy: is missing: open, closed or local",
        ),
        (
            "on_failure: { policy: closed, status: 200 }",
            "limits[0].on_failure.status: must be 400 to 599 (got 200)",
        ),
        (
            "on_failure: { policy: open, status: 503 }",
            "limits[0].on_failure.status: applies to policy closed only: the others reject no request",
        ),
        (
            "on_failure: open, fail_open: true",
            "limits[0].fail_open: cannot be combined with on_failure",
        ),
        (
            "fail_open: maybe",
            "limits[0].fail_open: expected true or false (got \"maybe\")",
        ),
    ] {
        assert_eq!(
            wrong(&one(&format!("rate: 1/s, {keys}"))),
            message,
            "{keys}"
        );
    }
}
#[test]
fn every_part_of_a_limit_is_checked() {
    for (keys, message) in [
        (
            "match: { path: api }",
            "limits[0].match.path: expected a path that starts with a slash (got \"api\")",
        ),
        (
            "match: { hosts: [\"a b\"] }",
            "limits[0].match.hosts[0]: expected a host such as a.example",
        ),
        (
            "match: { methods: [\"A B\"] }",
            "limits[0].match.methods[0]: expected a method such as POST (got \"A B\")",
        ),
        (
            "match: { headers: { \"a b\": x } }",
            "limits[0].match.headers.\"a b\": is not a valid header name",
        ),
        (
            "match: { headers: { a: 1 } }",
            "limits[0].match.headers.a: expected text (got 1)",
        ),
        (
            "match: { descriptor: { \"\": x } }",
            "limits[0].match.descriptor.\"\": the name of an entry must not be empty",
        ),
        (
            "match: { descriptor: { a: 1 } }",
            "limits[0].match.descriptor.a: expected text (got 1)",
        ),
        (
            "match: { domain: \"\" }",
            "limits[0].match.domain: must not be empty",
        ),
        (
            "match: { headers: { a: x, A: y } }",
            "limits[0].match.headers.A: is listed twice",
        ),
        (
            "match: { paths: /x }",
            "limits[0].match: unknown key `paths`, did you mean `path`?",
        ),
        (
            "factor: { default: 1 }",
            "limits[0].factor.claim: is missing: the claim that holds the factor",
        ),
        (
            "factor: { claim: x, default: -1 }",
            "limits[0].factor.default: must be a finite number of at least 0",
        ),
        (
            "factor: { claim: x, default: .nan }",
            "limits[0].factor.default: must be a finite number of at least 0",
        ),
        (
            "mode: watch",
            "limits[0].mode: unknown value \"watch\" (expected enforce or shadow)",
        ),
        (
            "on_missing_key: allow",
            "limits[0].on_missing_key: unknown value \"allow\" (expected reject, client_ip, shared or skip)",
        ),
        (
            "replaces: b",
            "limits[0].replaces: there is no limit named \"b\"",
        ),
        (
            "replaces: a",
            "limits[0].replaces: \"a\" replaces this limit in turn",
        ),
    ] {
        let reported = wrong(&one(&format!("rate: 1/s, {keys}")));
        assert!(reported.starts_with(message), "{keys}: {reported}");
    }
}

#[test]
fn name_and_key_of_a_limit_are_checked() {
    for (limit, message) in [
        ("{ key: [global], rate: 1/s }", "limits[0].name: is missing"),
        (
            "{ name: a b, key: [global], rate: 1/s }",
            "limits[0].name: must be 1 to 64 letters",
        ),
        (
            "{ name: a, rate: 1/s }",
            "limits[0].key: is missing: [client_ip] counts each client address",
        ),
        (
            "{ name: a, key: [], rate: 1/s }",
            "limits[0].key: must have at least one part",
        ),
        (
            "{ name: a, key: [ip], rate: 1/s }",
            "limits[0].key[0]: expected client_ip, method",
        ),
        (
            "{ name: a, key: [global, global], rate: 1/s }",
            "limits[0].key[1]: is listed twice",
        ),
        (
            "{ name: a, key: [\"header:\"], rate: 1/s }",
            "limits[0].key[0]: expected a name or number after the colon",
        ),
        ("text", "limits[0]: expected a section (got \"text\")"),
    ] {
        let reported = wrong(&format!("limits: [{limit}]"));
        assert!(reported.starts_with(message), "{limit}: {reported}");
    }
    assert_eq!(
        wrong("limits: { a: 1 }"),
        "limits: expected a list (got a section)"
    );
}

#[test]
fn limits_are_checked_together() {
    let twice =
        "limits: [{ name: a, key: global, rate: 1/s }, { name: a, key: global, rate: 2/s }]";
    assert_eq!(
        wrong(twice),
        "limits[1].name: \"a\" is also the name of limits[0]"
    );
    // A limit with a mistake elsewhere can still be replaced.
    let broken = "limits: [{ name: a, key: global, rate: x }, { name: b, key: global, rate: 2/s, replaces: a }]";
    assert!(wrong(broken).starts_with("limits[0].rate: "));
}

#[test]
fn a_long_chain_of_replacements_is_refused_quickly() {
    let limit = |number: usize| {
        format!(
            "- {{ name: l{number}, key: global, rate: 1/s, replaces: l{} }}\n",
            number + 1
        )
    };
    let chain: String = (0..15_000).map(limit).collect();
    let text = format!("limits:\n{chain}- {{ name: l15000, key: global, rate: 1/s }}\n");
    let started = std::time::Instant::now();
    assert_eq!(
        wrong(&text),
        "limits[0].replaces: begins a chain of more than 32 replacements: shorten it"
    );
    assert!(
        started.elapsed().as_secs() < 10,
        "took {:?}",
        started.elapsed()
    );
}
