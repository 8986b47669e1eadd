//! `enabled: false` on limits and sections: checked, and then as if absent.

use sluicegate_core::{QuotaSource, Subject};

use crate::{bad, good, wrong};

#[test]
fn a_limit_that_is_off_is_not_enforced_and_said_to_be_off() {
    let config = good(
        "limits:\n  - { name: a, key: global, rate: 1/s, enabled: false }\n  - { name: b, key: global, rate: 2/s, enabled: true }\n",
    );
    let charges = config.policy.charges_for(&Subject::ANONYMOUS, 1).unwrap();
    let names = charges
        .iter()
        .map(|charge| charge.key.limit().name.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["b"]);
    assert_eq!(config.policy.disabled()[0].name, "a");
    let words = config.in_words();
    assert_eq!(
        words.last().map(String::as_str),
        Some("a is off: neither enforced nor counted")
    );
    assert!(
        !words.iter().any(|words| words.starts_with("a: ")),
        "{words:#?}"
    );
    let none = good("limits: [{ name: a, key: global, rate: 1/s, enabled: false }]");
    let words = none.in_words();
    assert!(
        words.contains(&"there are no limits: every request passes".to_owned()),
        "{words:#?}"
    );
}

#[test]
fn a_limit_that_is_off_is_checked_like_any_other() {
    for (keys, message) in [
        (
            "name: a, key: global, rate: 0/s",
            "limits[0].rate: expected at least 1 unit",
        ),
        ("name: a, key: global", "limits[0]: needs a quota"),
        ("name: a, rate: 1/s", "limits[0].key: is missing"),
        (
            "name: a, key: global, rate: 1/s, brust: 1",
            "limits[0]: unknown key `brust`",
        ),
        (
            "name: a, key: global, rate: 1/s, replaces: b",
            "limits[0].replaces: there is no limit named \"b\"",
        ),
    ] {
        let reported = wrong(&format!("limits: [{{ {keys}, enabled: false }}]"));
        assert!(reported.starts_with(message), "{keys}: {reported}");
    }
    let reported = wrong("limits: [{ name: a, key: global, rate: 1/s, enabled: off }]");
    assert_eq!(
        reported,
        "limits[0].enabled: expected true or false (got \"off\")"
    );
}

#[test]
fn a_limit_may_replace_one_that_is_off() {
    let config = good(
        "limits:\n  - { name: all, key: global, rate: 1/s, enabled: false }\n  \
         - { name: api, key: global, rate: 2/s, replaces: all, match: { path: /api } }\n",
    );
    let charged = |path| {
        let subject = Subject {
            path,
            ..Subject::ANONYMOUS
        };
        config.policy.charges_for(&subject, 1).unwrap().len()
    };
    assert_eq!((charged("/"), charged("/api")), (0, 1));
    let words = config.in_words().join("\n");
    assert!(words.contains("all is off"), "{words}");
    assert!(
        words.contains("api would take the place of all, which is off"),
        "{words}"
    );
}

#[test]
fn sections_that_are_off_are_as_if_absent() {
    let config = good(
        "proxy: { listen: '127.0.0.1:0', enabled: false }\ndecisions: { http: '127.0.0.1:1', enabled: false }\n\
         admin: { enabled: false }\nprincipals: { jwt: { jwks_file: a }, required: true, enabled: false }\n\
         access: { deny: { cidrs: 10.0.0.0/8 }, enabled: false }\ntraces: { otlp: http://a, enabled: false }\n",
    );
    assert!(config.proxy.is_none() && config.decisions.http.is_none());
    assert!(config.admin.listen.is_none() && config.traces.is_none());
    assert!(config.principals.jwt.is_none() && !config.principals.required);
    assert!(config.access.deny.cidrs.is_empty());
    let words = config.in_words();
    for sentence in [
        "the proxy is off",
        "the decision service is off",
        "admin is off",
        "principals is off",
        "access is off",
        "traces is off",
    ] {
        let count = words.iter().filter(|words| *words == sentence).count();
        assert_eq!(count, 1, "{sentence}: {words:#?}");
    }
    let parts = good(
        "proxy: { listen: '127.0.0.1:0', tls: { cert: a, key: b, enabled: false }, routes: [{ host: a, upstream: echo, enabled: false }] }\n\
         decisions: { http: '127.0.0.1:1', tls: { cert: a, key: b, enabled: false } }\n\
         principals: { api_keys: { file: a, enabled: false }, jwt: { jwks_file: a } }\n\
         access: { deny: { cidrs: 10.0.0.0/8, enabled: false }, allow: { keys: ann } }\n\
         limits: [{ name: a, key: global, rate: 1/s, factor: { claim: a, enabled: false } }]\n",
    );
    let proxy = parts.proxy.as_ref().unwrap();
    assert!(proxy.tls.is_none() && proxy.routes.len() == 1);
    assert!(parts.decisions.tls.is_none() && parts.decisions.http.is_some());
    assert!(parts.principals.api_keys.is_none() && parts.principals.jwt.is_some());
    assert!(parts.access.deny.cidrs.is_empty() && parts.access.allow.keys == ["ann"]);
    assert!(parts.policy.limits()[0].factor.is_none());
    assert_eq!(
        parts.switched_off,
        [
            "proxy.routes[0]",
            "proxy.tls",
            "decisions.tls",
            "principals.api_keys",
            "access.deny",
            "limits[0].factor",
        ]
    );
}

#[test]
fn without_the_service_limits_have_their_own_numbers() {
    let text = "external: { http: { url: http://a }, enabled: SWITCH }\n\
                limits: [{ name: a, key: global, rate: 7/s, quota_from: external }]\n";
    let on = good(&text.replace("SWITCH", "true"));
    assert_eq!(on.policy.limits()[0].quota_from, QuotaSource::External);
    let off = good(&text.replace("SWITCH", "false"));
    let limit = &off.policy.limits()[0];
    assert_eq!(limit.quota_from, QuotaSource::Limit);
    assert_eq!(limit.quota.map(|quota| quota.limit()), Some(7));
    assert!(off.external.is_none());
    let words = off.in_words();
    let sentence =
        "external is off: limits that would ask the limits service have their own numbers";
    assert!(words.iter().any(|words| words == sentence), "{words:#?}");
}

#[test]
fn a_section_that_is_off_may_lack_keys_but_not_have_wrong_ones() {
    for text in [
        "proxy: { enabled: false }",
        "external: { enabled: false }",
        "traces: { enabled: false }",
        "proxy: { listen: '127.0.0.1:0', tls: { enabled: false }, routes: [{ enabled: false }] }",
        "principals: { jwt: { enabled: false }, api_keys: { enabled: false } }",
        "decisions: { http: '0.0.0.0:1', enabled: false }",
    ] {
        good(text);
    }
    for (text, message) in [
        (
            "proxy: { enabled: false, listen: nowhere }",
            "proxy.listen: expected an IP address and port",
        ),
        (
            "external: { enabled: false, timeout: 5 }",
            "external.timeout: expected a duration",
        ),
        (
            "traces: { enabled: false, otpl: http://a }",
            "traces: unknown key `otpl`, did you mean `otlp`?",
        ),
        (
            "principals: { jwt: { jwks_file: a, enabled: false }, required: true }",
            "principals.required: needs api_keys or jwt",
        ),
    ] {
        let reported = wrong(text);
        assert!(reported.starts_with(message), "{text}: {reported}");
    }
}

#[test]
fn what_cannot_be_off_says_so() {
    for (text, path) in [
        ("store: { enabled: false }", "store"),
        ("client_ip: { enabled: false }", "client_ip"),
        ("response: { enabled: false }", "response"),
        ("log: { enabled: false }", "log"),
        ("store: { local: { enabled: false } }", "store.local"),
        (
            "proxy: { listen: '127.0.0.1:0', timeouts: { enabled: false } }",
            "proxy.timeouts",
        ),
        (
            "external: { http: { url: http://a, enabled: false } }",
            "external.http",
        ),
        (
            "limits: [{ name: a, key: global, rate: 1/s, match: { enabled: false } }]",
            "limits[0].match",
        ),
    ] {
        assert_eq!(
            wrong(text),
            format!(
                "{path}: unknown key `enabled`: this cannot be turned off; leave it out for its defaults"
            ),
            "{text}"
        );
    }
    assert!(!bad("enabled: false").is_empty());
}
