//! Stores: every kind and topology, and the mistakes in them.

use sluicegate_config::{
    KeyLayout, Redis, RedisClock, RedisMode, RedisTls, SecretSource, ServerTls, StoreKind,
};
use sluicegate_core::Nanos;

use crate::{bad, good, wrong};

#[track_caller]
fn redis(keys: &str) -> Redis {
    match good(&format!("store: {{ kind: redis, redis: {{ {keys} }} }}"))
        .store
        .kind
    {
        StoreKind::Redis(redis) => *redis,
        local => panic!("expected redis, got {local:?}"),
    }
}
#[test]
fn every_name_of_a_store_is_known() {
    let local = StoreKind::Local {
        max_keys: 1_000_000,
        sweep: Nanos::MINUTE,
    };
    for kind in [
        "local",
        "governor",
        "memory",
        "in-memory",
        "",
        "  ",
        " Local ",
        "LOCAL",
        "Memory",
        " IN-MEMORY ",
    ] {
        assert_eq!(
            good(&format!("store: {{ kind: \"{kind}\" }}")).store.kind,
            local,
            "{kind:?}"
        );
    }
    assert_eq!(good("").store.kind, local);
    assert_eq!(
        good("store: { local: { max_keys: 5, sweep: 1s } }")
            .store
            .kind,
        StoreKind::Local {
            max_keys: 5,
            sweep: Nanos::SECOND
        }
    );
    for kind in ["redis", " Redis ", "REDIS"] {
        let redis = good(&format!(
            "store: {{ kind: \"{kind}\", redis: {{ endpoints: a }} }}"
        ));
        assert!(matches!(redis.store.kind, StoreKind::Redis(_)), "{kind:?}");
    }
    assert_eq!(
        wrong("store: { kind: dynamo }"),
        "store.kind: unknown value \"dynamo\" (expected local or redis)"
    );
    assert_eq!(
        wrong("store: { local: { max_keys: 0 } }"),
        "store.local.max_keys: must be 1 to 1000000000 (got 0)"
    );
}

#[test]
fn redis_has_its_defaults() {
    let expected = Redis {
        mode: RedisMode::Standalone,
        endpoints: vec!["rl-0:6379".into()],
        username: None,
        password: None,
        database: 0,
        tls: None,
        deadline: Nanos::from_millis(50),
        connect_timeout: Nanos::SECOND,
        recovery_base: Nanos::from_millis(50),
        recovery_cap: Nanos::SECOND,
        key_prefix: "sluicegate".into(),
        key_layout: KeyLayout::Readable,
        clock: RedisClock::Server,
    };
    assert_eq!(redis("endpoints: [\"rl-0:6379\"]"), expected);
    assert_eq!(
        redis(
            "endpoints: \"rl-0:6379\", username: \"\", password_file: \"\", tls: { enabled: false, ca_file: \"\" }"
        ),
        expected
    );
    assert_eq!(redis("url: \"redis://rl-0:6379\""), expected);
    assert_eq!(redis("endpoints: [a, b]").mode, RedisMode::Replication);
}

#[test]
fn everything_redis_can_be_told_arrives() {
    let config = good(
        r#"
store:
  kind: redis
  deadline: 20ms
  key_prefix: rl
  key_layout: compact
  clock: replica
  redis:
    mode: sentinel
    endpoints: [s-0, "s-1:26379"]
    username: ann
    password_file: redis.pw
    database: 3
    sentinel: { master: mymaster, username: bob, password_env: SENTINEL_PASSWORD }
    tls: { enabled: true, ca_file: ca.pem, cert: own.pem, key: own.key, server_name: redis.internal }
    connect_timeout: 2s
    recovery: { base: 1s, cap: 30s }
"#,
    );
    let expected = Redis {
        mode: RedisMode::Sentinel {
            master: "mymaster".into(),
            username: Some("bob".into()),
            password: Some(SecretSource::Env("SENTINEL_PASSWORD".into())),
        },
        endpoints: vec!["s-0".into(), "s-1:26379".into()],
        username: Some("ann".into()),
        password: Some(SecretSource::File("/etc/sluicegate/redis.pw".into())),
        database: 3,
        tls: Some(RedisTls {
            ca_file: Some("/etc/sluicegate/ca.pem".into()),
            client: Some(ServerTls {
                cert: "/etc/sluicegate/own.pem".into(),
                key: "/etc/sluicegate/own.key".into(),
            }),
            server_name: Some("redis.internal".into()),
        }),
        deadline: Nanos::from_millis(20),
        connect_timeout: Nanos::from_secs(2),
        recovery_base: Nanos::SECOND,
        recovery_cap: Nanos::from_secs(30),
        key_prefix: "rl".into(),
        key_layout: KeyLayout::Compact,
        clock: RedisClock::Replica,
    };
    assert_eq!(config.store.kind, StoreKind::Redis(Box::new(expected)));
}

#[test]
fn a_url_says_where_redis_is() {
    let read = redis("url: \"rediss+sentinel://a,b:1/mymaster/4\", password_env: P");
    let sentinel = RedisMode::Sentinel {
        master: "mymaster".into(),
        username: None,
        password: None,
    };
    assert_eq!(
        (read.mode, read.database, read.tls),
        (sentinel, 4, Some(RedisTls::default()))
    );
    assert_eq!(read.endpoints, ["a", "b:1"]);
    assert_eq!(redis("url: \"redis://a,b/2\"").mode, RedisMode::Replication);
    assert_eq!(
        redis("url: \"redis+cluster://a,b\"").mode,
        RedisMode::Cluster
    );
    assert!(
        redis("url: \"rediss://a\", tls: { ca_file: ca.pem }")
            .tls
            .unwrap()
            .ca_file
            .is_some()
    );
    for (url, message) in [
        ("rl-0:6379", "must begin with redis://"),
        ("http://a", "must begin with redis://"),
        ("redis+x://a", "must begin with redis://"),
        ("redis://", "the host is missing"),
        ("redis://a:b", "invalid port: must be 1 to 65535"),
        ("redis://a/x", "invalid database: must be a number"),
        ("redis://a/+1", "invalid database: must be a number"),
        ("redis://:hunter2@a", "must not contain a user or password"),
        ("redis://a?timeout=1", "must have no query"),
        (
            "redis+sentinel://a",
            "must name the primary after the hosts",
        ),
        ("redis+cluster://a/1", "a cluster has only database 0"),
    ] {
        let reported = wrong(&format!(
            "store: {{ kind: redis, redis: {{ url: \"{url}\" }} }}"
        ));
        assert!(
            reported.starts_with(&format!("store.redis.url: {message}")),
            "{url}: {reported}"
        );
    }
    let twice = "store: { kind: redis, redis: { url: \"redis://a\", mode: cluster, endpoints: [b], database: 1, tls: { enabled: true } } }";
    assert_eq!(bad(twice).len(), 4, "{:#?}", bad(twice));
}

#[test]
fn what_is_wrong_with_redis_is_told() {
    for (keys, message) in [
        (
            "endpoints: []",
            "store.redis.endpoints: must name at least one host:port",
        ),
        (
            "endpoints: [\"a:b\"]",
            "store.redis.endpoints[0]: invalid port: must be 1 to 65535",
        ),
        (
            "endpoints: [\"u:p@a\"]",
            "store.redis.endpoints[0]: must not contain a user or password",
        ),
        (
            "endpoints: [a, a]",
            "store.redis.endpoints[1]: is listed twice",
        ),
        (
            "mode: standalone, endpoints: [a, b]",
            "store.redis.endpoints: must name one server in mode standalone",
        ),
        (
            "mode: cluster, endpoints: [a], database: 1",
            "store.redis.database: a cluster has only database 0",
        ),
        (
            "mode: sentinel, endpoints: [a]",
            "store.redis.sentinel: is missing: mode sentinel needs sentinel.master",
        ),
        (
            "mode: sentinel, endpoints: [a], sentinel: {}",
            "store.redis.sentinel.master: is missing: the name of the primary at the sentinels",
        ),
        (
            "mode: sentinel, endpoints: [a], sentinel: { master: \"a b\" }",
            "store.redis.sentinel.master: expected letters, digits, '.', '-' and '_' (got \"a b\")",
        ),
        (
            "endpoints: [a], sentinel: { master: m }",
            "store.redis.sentinel: applies to mode sentinel only",
        ),
        (
            "mode: ring, endpoints: [a]",
            "store.redis.mode: unknown value \"ring\" (expected standalone, replication, sentinel or cluster)",
        ),
        (
            "endpoints: [a], recovery: { base: 2s, cap: 1s }",
            "store.redis.recovery: base must be at most cap",
        ),
        (
            "endpoints: [a], recovery: { base: 0s }",
            "store.redis.recovery.base: must be 1ms to 1h (got \"0s\")",
        ),
        (
            "endpoints: [a], connect_timeout: 2m",
            "store.redis.connect_timeout: must be 1ms to 1m (got \"2m\")",
        ),
        (
            "endpoints: [a], tls: { cert: x }",
            "store.redis.tls.key: is missing: the file with the private key",
        ),
        (
            "{}",
            "store.redis.endpoints: is missing: at least one host:port, or a url",
        ),
    ] {
        let text = format!("store: {{ kind: redis, redis: {{ {keys} }} }}").replace("{ {} }", "{}");
        assert_eq!(wrong(&text), message);
        // Settings of the store that is not in use are checked as well.
        assert_eq!(wrong(&text.replace("kind: redis", "kind: local")), message);
    }
    for (keys, message) in [
        (
            "deadline: 0ms",
            "store.deadline: must be 1ms to 1m (got \"0ms\")",
        ),
        (
            "key_prefix: \"{a}\"",
            "store.key_prefix: must be at most 64 characters of visible ASCII without braces (got \"{a}\")",
        ),
        ("key_prefix: \"\"", "store.key_prefix: must not be empty"),
        (
            "key_layout: json",
            "store.key_layout: unknown value \"json\" (expected readable, compact, edgequota or edgeguard)",
        ),
        (
            "clock: sun",
            "store.clock: unknown value \"sun\" (expected server or replica)",
        ),
    ] {
        assert_eq!(wrong(&format!("store: {{ {keys} }}")), message);
    }
    assert_eq!(
        wrong("store: { kind: redis }"),
        "store.redis: is missing: kind redis needs a url or endpoints"
    );
}

fn with_layout(layout: &str, more: &str) -> String {
    format!(
        "store: {{ kind: redis, key_layout: {layout}, redis: {{ endpoints: [a] }} }}\nlimits:\n{more}"
    )
}

#[test]
fn limits_that_would_share_counters_under_a_layout_are_refused() {
    let limit = |name: &str, more: &str| format!("  - {{ name: {name}, rate: 1/s, {more} }}\n");
    let route = |name: &str, path: &str| {
        limit(
            name,
            &format!("key: client_ip, replaces: per-ip, match: {{ path: {path} }}"),
        )
    };
    let (all, rest) = (limit("all", "key: global"), limit("rest", "key: global"));
    let per_ip = limit("per-ip", "key: client_ip");
    let by_host = limit("by-host", "key: host");
    let by_tenant = limit("tenant", "key: 'header:X-Tenant'");
    for (layout, limits) in [
        ("edgequota", format!("{all}{rest}{per_ip}")),
        ("edgequota", by_tenant.clone()),
        (
            "edgeguard",
            format!("{per_ip}{all}{rest}{by_host}{by_tenant}"),
        ),
        (
            "edgeguard",
            per_ip.clone() + &route("a", "/a") + &route("b", "/a/"),
        ),
        ("readable", format!("{per_ip}{by_host}{by_tenant}")),
        ("compact", format!("{per_ip}{by_host}{by_tenant}")),
    ] {
        good(&with_layout(layout, &limits));
    }
    for (layout, limits, index) in [
        ("edgequota", format!("{per_ip}{by_host}"), 1),
        ("edgequota", format!("{all}{rest}{by_tenant}"), 2),
        ("edgequota", format!("{by_tenant}{by_host}"), 1),
        (
            "edgeguard",
            per_ip.clone() + &limit("b", "key: client_ip"),
            1,
        ),
        (
            "edgeguard",
            per_ip.clone() + &route("a", "/a") + &route("b", "/a"),
            2,
        ),
    ] {
        let message = wrong(&with_layout(layout, &limits));
        let place = format!("limits[{index}].key: could share counters with limits[");
        assert!(message.contains(&place), "{message}");
        assert!(
            message.contains(&format!("key_layout {layout}")),
            "{message}"
        );
    }
    // In this process counters have no names.
    good(&format!("limits:\n{per_ip}{by_host}"));
}

#[test]
fn values_of_ours_stay_out_of_the_names_of_edge_quota() {
    for prefix in ["rl:edgequota", "rl:edgequota:x"] {
        let text = format!(
            "store: {{ kind: redis, key_layout: edgequota, key_prefix: '{prefix}', redis: {{ endpoints: [a] }} }}"
        );
        let message = wrong(&text);
        assert!(
            message.contains("store.key_prefix: rl:edgequota is"),
            "{message}"
        );
        good(&text.replace("edgequota,", "readable,"));
    }
    good(
        "store: { kind: redis, key_layout: edgequota, key_prefix: rl, redis: { endpoints: [a] } }",
    );
}
