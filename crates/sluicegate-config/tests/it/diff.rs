//! What a change of configuration changes, in sentences.

use sluicegate_config::{Change, Source};

use crate::good;

fn changes(old: &str, new: &str) -> Vec<Change> {
    good(old).changes_to(&good(new))
}

/// The kinds and sentences of a change of one limit, which is written in place of `LIMIT`.
#[track_caller]
fn of_limit(old: &str, new: &str) -> Vec<(&'static str, String)> {
    let text = |keys: &str| {
        format!(
            "external: {{ http: {{ url: http://a }} }}\nlimits:\n  - {{ name: base, key: global, rate: 9/s }}\n  - {{ name: a, {keys} }}\n"
        )
    };
    let changes = changes(&text(old), &text(new));
    assert!(
        changes.iter().all(|change| change.key == "limits.a"),
        "{changes:#?}"
    );
    let told = changes.into_iter();
    told.map(|change| (change.kind.name(), change.message))
        .collect()
}

#[test]
fn the_same_in_other_words_is_no_change() {
    for (old, new) in [
        (
            Source::embedded().text.as_str(),
            Source::embedded().text.as_str(),
        ),
        ("", "store: { kind: local }\nlog: { format: text }\n"),
        (
            "limits: [{ name: a, key: client_ip, rate: 60/m }]",
            "limits: [{ name: a, key: [client_ip], average: 1, period: 1000ms, burst: 60, mode: enforce, enabled: true }]",
        ),
        ("traces: { enabled: false }", ""),
        (
            "proxy: { listen: '127.0.0.1:1', timeouts: { idle: 1m } }",
            "proxy: { listen: ['127.0.0.1:1'], timeouts: { idle: 60s }, routes: [{ host: a, upstream: echo, enabled: false }] }",
        ),
    ] {
        assert_eq!(changes(old, new), [], "{new}");
    }
}

#[test]
fn numbers_are_tighter_or_looser_or_both() {
    let quota = "key: client_ip, ";
    for (old, new, kind, sentence) in [
        (
            "rate: 10/s, burst: 20",
            "rate: 5/s, burst: 20",
            "tighter",
            "a is tighter: at most 20 requests at once and 5 a second, for each client address; \
             it was at most 20 requests at once and 10 a second",
        ),
        (
            "rate: 10/s, burst: 20",
            "rate: 10/s, burst: 30",
            "looser",
            "a is looser: at most 30 requests at once and 10 a second, for each client address; \
             it was at most 20 requests at once and 10 a second",
        ),
        (
            "rate: 10/s, burst: 20",
            "rate: 20/s, burst: 10",
            "changed",
            "a admits fewer at once and more in the long run: at most 10 requests at once and 20 a second, \
             for each client address; it was at most 20 requests at once and 10 a second",
        ),
        (
            "average: 0",
            "rate: 10/s",
            "tighter",
            "a is tighter: at most 10 requests at once and 10 a second, for each client address; it was no limit",
        ),
        (
            "rate: 10/s",
            "average: 0",
            "looser",
            "a is looser: no limit, for each client address; it was at most 10 requests at once and 10 a second",
        ),
        (
            "rate: 10/s",
            "rate: 10/s, algorithm: fixed_window",
            "changed",
            "a counts in another way: at most 10 requests in each 1s of the clock, for each client address; \
             it was at most 10 requests at once and 10 a second",
        ),
    ] {
        let told = of_limit(&format!("{quota}{old}"), &format!("{quota}{new}"));
        assert_eq!(told, [(kind, sentence.to_owned())], "{old} → {new}");
    }
}

#[test]
fn modes_keys_and_rules_are_told() {
    let limit = |rest: &str| format!("key: client_ip, rate: 10/s{rest}");
    for (old, new, kind, sentence) in [
        (
            ", mode: shadow",
            "",
            "tighter",
            "a rejects requests now: it was only watched",
        ),
        (
            "",
            ", mode: shadow",
            "looser",
            "a is only watched now: it no longer rejects",
        ),
        (
            "",
            ", match: { path: /api }",
            "changed",
            "a applies below /api now, and to all requests before",
        ),
        (
            ", replaces: base",
            "",
            "changed",
            "a takes the place of none now, and base before",
        ),
        (
            "",
            ", quota_from: external",
            "changed",
            "a has its numbers from the limits service now, and the file before",
        ),
        (
            "",
            ", factor: { claim: plan }",
            "changed",
            "a is divided by the claim plan of the caller; before, a is the same for all callers",
        ),
        (
            "",
            ", on_missing_key: shared",
            "changed",
            "requests without the key of a share one counter now, and are rejected before",
        ),
        (
            ", replaces: base, on_missing_key: shared",
            ", replaces: base, on_missing_key: skip",
            "changed",
            "requests without the key of a are charged to base now, and share one counter before",
        ),
        (
            "",
            ", on_failure: open",
            "changed",
            "while the store is away, for a requests pass unchecked now; before, requests are refused with 503",
        ),
        (
            "",
            ", enabled: false",
            "removed",
            "a is off now: it was at most 10 requests at once and 10 a second, for each client address, \
             and is neither enforced nor counted",
        ),
        (
            ", enabled: false",
            "",
            "added",
            "a is on now: at most 10 requests at once and 10 a second, for each client address",
        ),
    ] {
        let told = of_limit(&limit(old), &limit(new));
        assert_eq!(told, [(kind, sentence.to_owned())], "{old} → {new}");
    }
    let told = of_limit(
        "key: client_ip, rate: 10/s",
        "key: [principal, method], rate: 10/s",
    );
    assert_eq!(
        told[0],
        (
            "new_counters",
            "a counts for each principal and method now, and for each client address before: its counters start anew"
                .to_owned()
        )
    );
    let told = of_limit(
        "key: client_ip, rate: 10/m, algorithm: sliding_window",
        "key: client_ip, rate: 10/h, algorithm: sliding_window",
    );
    let kinds: Vec<&str> = told.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["tighter", "new_counters"], "{told:#?}");
}

#[test]
fn limits_come_and_go_and_change_their_names() {
    let limit =
        |name: &str, rate: &str| format!("{{ name: {name}, key: client_ip, rate: {rate} }}");
    let text = |limits: &[String]| format!("limits: [{}]", limits.join(", "));
    let (a, b, c) = (limit("a", "1/s"), limit("b", "2/s"), limit("c", "3/s"));
    let told = |old: &[String], new: &[String]| -> Vec<String> {
        let changes = changes(&text(old), &text(new));
        let told = changes.into_iter();
        told.map(|change| format!("{} {}: {}", change.kind.name(), change.key, change.message))
            .collect()
    };
    assert_eq!(
        told(std::slice::from_ref(&a), &[a.clone(), b.clone()]),
        [
            "added limits.b: b is new: at most 2 requests at once and 2 a second, for each client address"
        ]
    );
    assert_eq!(
        told(&[a.clone(), b.clone()], std::slice::from_ref(&b)),
        [
            "removed limits.a: a is gone: it was at most 1 request at once and 1 a second, for each client address"
        ]
    );
    assert_eq!(
        told(&[a.clone(), b.clone()], &[a.clone(), limit("d", "2/s")]),
        ["new_counters limits.d: b is called d now: its counters start anew"]
    );
    assert_eq!(
        told(&[a.clone(), b.clone(), c.clone()], &[a, c, b]),
        [
            "changed limits: the limits are in another order: of those that replace the same limit with equally long paths, the first wins"
        ]
    );
}

#[test]
fn settings_and_lists_are_told_with_their_keys() {
    let limits = "limits: [{ name: a, key: client_ip, rate: 1/s }]\n";
    for (old, new, expected) in [
        (
            "proxy: { listen: '127.0.0.1:1', upstream: 'http://a', max_body: 1KiB }",
            "proxy: { listen: '127.0.0.1:2', upstream: 'http://b', timeouts: { idle: 90s } }",
            &[
                "changed proxy.listen: proxy.listen is 127.0.0.1:2 now, and was 127.0.0.1:1",
                "changed proxy.max_body: proxy.max_body is not set any more, and was 1024",
                "changed proxy.timeouts.idle: proxy.timeouts.idle is 90s now, and was 1m",
                "changed proxy.upstream: proxy.upstream is http://b:80 now, and was http://a:80",
            ][..],
        ),
        (
            "access: { deny: { cidrs: 10.0.0.0/8 }, allow: { keys: [ann, ben] } }",
            "access: { deny: { cidrs: [10.0.0.0/8, 192.0.2.0/24] }, allow: { keys: ann } }",
            &[
                "tighter access.deny.cidrs: clients of 192.0.2.0/24 are rejected with 403 now",
                "tighter access.allow.keys: the principal ben is no longer exempt from all limits",
            ],
        ),
        (
            "store: { kind: redis, redis: { endpoints: a } }",
            "store: { kind: redis, key_prefix: b, redis: { endpoints: a } }",
            &[
                "new_counters store: counters are kept in another place or under other names: all of them start anew",
                "changed store.key_prefix: store.key_prefix is b now, and was sluicegate",
            ],
        ),
        (
            "client_ip: { ipv4_prefix: 32 }",
            "client_ip: { ipv4_prefix: 24 }",
            &[
                "new_counters limits.a: a counts addresses by other prefixes (client_ip.ipv4_prefix, ipv6_prefix): \
                 their counters start anew",
            ],
        ),
    ] {
        let changes = changes(&format!("{limits}{old}"), &format!("{limits}{new}"));
        let told: Vec<String> = changes
            .iter()
            .map(|change| format!("{} {}: {}", change.kind.name(), change.key, change.message))
            .collect();
        assert_eq!(told, expected, "{new}");
    }
}

/// Every setting of the example is compared: whichever is taken out, a change is told, unless its
/// value is the default.
#[test]
fn no_setting_of_the_example_is_overlooked() {
    let example = include_str!("../../../../docs/examples/sluicegate.yaml");
    let whole = good(example);
    for (from, to) in [
        ("listen: \"0.0.0.0:8080\"", "listen: \"0.0.0.0:8081\""),
        ("cert: cert.pem", "cert: other.pem"),
        ("drain: 30s", "drain: 31s"),
        ("max_connections: 10000", "max_connections: 9999"),
        ("token_file: admin.token", "token_file: other.token"),
    ] {
        let changed = example.replacen(from, to, 1);
        assert_ne!(changed, example, "{from}");
        let changes = whole.changes_to(&good(&changed));
        assert_eq!(changes.len(), 1, "{from}: {changes:#?}");
    }
}

#[test]
fn another_secret_is_a_change_and_not_shown() {
    let with = |key: &str, header: &str| {
        good(&format!(
            "principals: {{ jwt: {{ jwks_url: 'https://a/b?v=1&key={key}' }} }}\n\
             limits: [{{ name: a, key: global, rate: 1/s, match: {{ headers: {{ x-api-key: {header} }} }} }}]"
        ))
    };
    let changes = with("hunter2", "old").changes_to(&with("hunter3", "new"));
    let told: Vec<&str> = changes
        .iter()
        .map(|change| change.message.as_str())
        .collect();
    let expected = "principals.jwt.jwks_url has another secret now: https://a:443/b?v=1&key=***";
    assert!(told.contains(&expected), "{told:#?}");
    let expected = "a applies with x-api-key: *** now, with another secret";
    assert!(told.contains(&expected), "{told:#?}");
    let all = told.join("\n");
    assert!(
        !all.contains("hunter") && !all.contains("old") && !all.contains("new,"),
        "{all}"
    );
}
