//! Limits: every way to write them, and every way to get them wrong.

use sluicegate_core::address::Prefixes;
use sluicegate_core::{
    DescriptorMatch, Factor, FactorRule, FailurePolicy, FailureStatus, HeaderMatch, KeyPart,
    LegacyLimit, Limit, Match, Mode, Nanos, OnMissingKey, Quota,
};

use crate::{bad, good, wrong};

/// One limit with these keys besides name and key.
fn one(keys: &str) -> String {
    format!("limits:\n  - {{ name: a, key: [client_ip], {keys} }}\n")
}

#[track_caller]
fn quota(keys: &str) -> Option<Quota> {
    good(&one(keys)).policy.limits()[0].quota
}

#[test]
fn every_algorithm_is_what_its_numbers_say() {
    let bucket = Quota::new(100, Nanos::SECOND, 200).ok();
    assert_eq!(quota("rate: 100/s, burst: 200"), bucket);
    assert_eq!(quota("average: 100, period: 1s, burst: 200"), bucket);
    assert_eq!(
        quota("average: 100, burst: 200, algorithm: token_bucket"),
        bucket
    );
    assert_eq!(quota("rate: 100/s, burst: 200, algorithm: gcra"), bucket);
    assert_eq!(
        quota("rate: 5/30s"),
        Quota::new(5, Nanos::from_secs(30), 5).ok()
    );
    assert_eq!(
        quota("rate: 1/year"),
        Quota::new(1, Nanos::from_secs(31_536_000), 1).ok()
    );
    assert_eq!(
        quota("rate: 1000000/s, burst: 1"),
        Quota::new(1_000_000, Nanos::SECOND, 1).ok()
    );
    assert_eq!(
        quota("rate: 10/m, algorithm: fixed_window"),
        Quota::fixed_window(10, Nanos::MINUTE).ok()
    );
    assert_eq!(
        quota("average: 10, algorithm: sliding_window"),
        Quota::sliding_window(10, Nanos::SECOND).ok()
    );
    let drips = Quota::leaky_bucket(10, Nanos::from_secs(60), 2).ok();
    assert_eq!(
        quota("algorithm: leaky_bucket, size: 10, drip_rate: 60s, drip_size: 2"),
        drips
    );
    assert_eq!(
        quota("size: 10"),
        Quota::leaky_bucket(10, Nanos::SECOND, 1).ok()
    );
    let legacy = LegacyLimit {
        max: Some(100),
        duration: Some(Nanos::HOUR),
        min_interval: Some(Nanos::SECOND),
    };
    assert_eq!(
        quota("max: 100, duration: 1h, min_interval: 1s"),
        legacy.quota().unwrap()
    );
    assert_eq!(
        quota("min_interval: 1s"),
        Quota::leaky_bucket(1, Nanos::SECOND, 1).ok()
    );
}
#[test]
fn an_average_of_zero_is_unlimited_and_other_zeros_are_refused() {
    assert_eq!(quota("average: 0"), None);
    assert_eq!(quota("average: 0, burst: 5, period: 1m"), None);
    for (keys, message) in [
        (
            "rate: 0/s",
            "limits[0].rate: expected at least 1 unit; a limit that is meant to be off is written average: 0",
        ),
        (
            "rate: 1/0s",
            "limits[0].rate: expected a period longer than zero",
        ),
        (
            "rate: 1/s, burst: 0",
            "limits[0].burst: must be at least 1 (got 0)",
        ),
        (
            "rate: 1/s, burst: -1",
            "limits[0].burst: must be at least 1 (got -1)",
        ),
        (
            "rate: 1/s, burst: .nan",
            "limits[0].burst: expected a whole number (got NaN)",
        ),
        (
            "rate: 1/s, burst: .inf",
            "limits[0].burst: expected a whole number (got inf)",
        ),
        (
            "rate: 1/s, burst: 1.5",
            "limits[0].burst: expected a whole number (got 1.5)",
        ),
        (
            "rate: 1/s, burst: 1e99",
            "limits[0].burst: expected a whole number",
        ),
        (
            "rate: -1/s",
            "limits[0].rate: expected a whole number of units before the slash",
        ),
        (
            "rate: NaN/s",
            "limits[0].rate: expected a whole number of units before the slash",
        ),
        (
            "rate: 10",
            "limits[0].rate: expected N/(ms|s|m|h|d), such as 100/s or 5/30s (got 10)",
        ),
        (
            "average: -1",
            "limits[0].average: must be at least 0 (got -1)",
        ),
        (
            "average: 1, period: 0s",
            "limits[0].period: must be at least 1ns (got \"0s\")",
        ),
        (
            "average: 1, period: 60",
            "limits[0].period: expected a duration with its unit, such as 30s (got 60)",
        ),
        ("size: 0", "limits[0].size: must be at least 1 (got 0)"),
        (
            "size: 1, drip_size: 0",
            "limits[0].drip_size: must be at least 1 (got 0)",
        ),
        (
            "size: 1, drip_rate: 0s",
            "limits[0].drip_rate: must be at least 1ms (got \"0s\")",
        ),
        (
            "max: 0, duration: 1s",
            "limits[0].max: must be at least 1 (got 0)",
        ),
        (
            "max: 1, duration: 0s",
            "limits[0].duration: must be at least 1ms (got \"0s\")",
        ),
        (
            "min_interval: 999us",
            "limits[0].min_interval: must be at least 1ms (got \"999us\")",
        ),
    ] {
        let told = wrong(&one(keys));
        assert!(told.starts_with(message), "{keys}: {told}");
    }
}
#[test]
fn what_cannot_be_kept_exactly_is_refused_at_the_number_to_blame() {
    for (keys, message) in [
        (
            "rate: 700000000/s, burst: 1",
            "limits[0].rate: cannot be kept exactly",
        ),
        (
            "average: 700000000, burst: 1",
            "limits[0].average: cannot be kept exactly",
        ),
        (
            "rate: 1/year, burst: 1000",
            "limits[0].burst: takes more than",
        ),
        (
            "rate: 1000001/d, algorithm: fixed_window",
            "limits[0].rate: must be at most 1000000 (got \"1000001/d\")",
        ),
        (
            "average: 10, period: 1500us, algorithm: fixed_window",
            "limits[0].period: must be whole milliseconds",
        ),
        (
            "average: 18446744073709551615, algorithm: sliding_window",
            "limits[0].average: must be at most",
        ),
        (
            "size: 18446744073709551615",
            "limits[0].size: must be at most",
        ),
        (
            "size: 1, drip_size: 1000001",
            "limits[0].drip_size: must be at most 1000000 (got 1000001)",
        ),
    ] {
        let told = wrong(&one(keys));
        assert!(told.starts_with(message), "{keys}: {told}");
    }
}

#[test]
fn numbers_that_contradict_each_other_are_refused() {
    for (keys, message) in [
        (
            "rate: 1/s, average: 1",
            "limits[0].average: cannot be combined with rate",
        ),
        (
            "rate: 1/s, period: 1s",
            "limits[0].period: belongs to average: a rate includes its period",
        ),
        (
            "rate: 1/s, size: 3",
            "limits[0].size: applies to algorithm leaky_bucket only",
        ),
        (
            "rate: 1/s, max: 3",
            "limits[0].max: cannot be combined with rate, average or algorithm",
        ),
        (
            "rate: 1/s, burst: 3, algorithm: sliding_window",
            "limits[0].burst: a window has no burst: remove it, or use algorithm token_bucket",
        ),
        ("max: 3", "limits[0].max: needs duration as well"),
        ("duration: 3s", "limits[0].duration: needs max as well"),
        (
            "mode: shadow",
            "limits[0]: needs a quota: rate, average, size or max",
        ),
        (
            "burst: 3",
            "limits[0]: needs a quota: rate, average, size or max",
        ),
        (
            "algorithm: leaky_bucket",
            "limits[0].size: is missing: the units that fit into the bucket",
        ),
        (
            "algorithm: leaky, rate: 1/s",
            "limits[0].algorithm: unknown value \"leaky\" (expected token_bucket, gcra, leaky_bucket, fixed_window or \
             sliding_window)",
        ),
        (
            "rate: 1/s, quota_from: external",
            "limits[0].quota_from: needs the section external, which names the service to ask",
        ),
        (
            "rate: 1/s, quota_from: elsewhere",
            "limits[0].quota_from: unknown value \"elsewhere\" (expected static or external)",
        ),
    ] {
        assert_eq!(wrong(&one(keys)), message, "{keys}");
    }
    assert_eq!(
        bad(&one("algorithm: leaky_bucket, rate: 1/s, burst: 3")).len(),
        3
    );
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
        .factor(FactorRule {
            claim: "rate_factor".into(),
            default: Factor::new(0.5).unwrap(),
        })
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
            "limits[0].match.descriptor.\"\": has no name",
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
        let told = wrong(&one(&format!("rate: 1/s, {keys}")));
        assert!(told.starts_with(message), "{keys}: {told}");
    }
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
        let told = wrong(&format!("limits: [{limit}]"));
        assert!(told.starts_with(message), "{limit}: {told}");
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
    // A limit that is broken elsewhere is still there to be replaced.
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
