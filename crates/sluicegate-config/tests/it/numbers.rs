//! Every number and text of a configuration, fuzzed: refused, or usable.

use proptest::prelude::*;
use sluicegate_config::{Config, StoreKind};
use sluicegate_core::{Nanos, Outcome, Timestamp, algorithm};

use crate::try_load;

/// Values that are often mishandled, of every kind.
fn odd_value() -> impl Strategy<Value = String> {
    let fixed = [
        "0",
        "-0",
        "1",
        "-1",
        "1.0",
        "0.5",
        "-1e-9",
        "1e308",
        "1e309",
        "-1e309",
        ".nan",
        ".inf",
        "-.inf",
        "NaN",
        "0x10",
        "0o17",
        "0b1",
        "017",
        "1_000",
        "+5",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
        "true",
        "null",
        "~",
        "\"\"",
        "[]",
        "{}",
        "[1]",
        "{a: 1}",
        "\"1\"",
        "1s",
        "0s",
        "1ns",
        "999us",
        "18446744073709551615ns",
        "584y",
        "585y",
        "1/s",
        "0/s",
        "1/ns",
        "1000000000/s",
        "1000000001/s",
        "18446744073709551615/y",
        "1/584y",
        "3 per week",
        "1/s/s",
        "64KiB",
        "17179869184GiB",
        "off",
        "\"${X}\"",
        "\"$${\"",
        "'\u{0}'",
        "\"\\u0000\"",
        "💥",
        "&a x",
        "*a",
        "!!binary aGk=",
        "!!int 5",
        "!x y",
        "|",
        ">",
        "- 1",
    ];
    prop_oneof![
        4 => prop::sample::select(fixed.to_vec()).prop_map(str::to_owned),
        1 => any::<u64>().prop_map(|number| number.to_string()),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => any::<f64>().prop_map(|number| number.to_string()),
        1 => (any::<u64>(), prop::sample::select(vec!["ns", "us", "ms", "s", "m", "h", "d", "w", "y"]))
            .prop_map(|(number, unit)| format!("{number}{unit}")),
        1 => (any::<u64>(), any::<u32>(), prop::sample::select(vec!["ns", "ms", "s", "m", "h", "d", "w", "y"]))
            .prop_map(|(count, number, unit)| format!("{count}/{number}{unit}")),
        1 => "[ -~]{0,12}",
    ]
}

/// Every key that takes a value, with `VALUE` in its place.
const PLACES: [&str; 55] = [
    "limits: [{ name: a, key: global, rate: VALUE }]",
    "limits: [{ name: a, key: global, rate: VALUE, algorithm: fixed_window }]",
    "limits: [{ name: a, key: global, rate: VALUE, algorithm: sliding_window }]",
    "limits: [{ name: a, key: global, rate: 1/s, burst: VALUE }]",
    "limits: [{ name: a, key: global, rate: 1/y, burst: VALUE }]",
    "limits: [{ name: a, key: global, average: VALUE }]",
    "limits: [{ name: a, key: global, average: VALUE, algorithm: fixed_window }]",
    "limits: [{ name: a, key: global, average: VALUE, algorithm: sliding_window }]",
    "limits: [{ name: a, key: global, average: 1, period: VALUE }]",
    "limits: [{ name: a, key: global, average: 7, period: VALUE, burst: VALUE }]",
    "limits: [{ name: a, key: global, average: 1, period: VALUE, algorithm: fixed_window }]",
    "limits: [{ name: a, key: global, average: 1, period: VALUE, algorithm: sliding_window }]",
    "limits: [{ name: a, key: global, size: VALUE }]",
    "limits: [{ name: a, key: global, size: 1, drip_rate: VALUE }]",
    "limits: [{ name: a, key: global, size: VALUE, drip_size: VALUE }]",
    "limits: [{ name: a, key: global, max: VALUE, duration: 1h }]",
    "limits: [{ name: a, key: global, max: 3, duration: VALUE }]",
    "limits: [{ name: a, key: global, max: 3, duration: 1h, min_interval: VALUE }]",
    "limits: [{ name: a, key: global, min_interval: VALUE }]",
    "limits: [{ name: a, key: global, rate: 1/s, factor: { claim: x, default: VALUE } }]",
    "limits: [{ name: a, key: global, rate: 1/s, on_failure: VALUE }]",
    "limits: [{ name: a, key: global, rate: 1/s, on_failure: { policy: closed, status: VALUE } }]",
    "limits: [{ name: a, key: global, rate: 1/s, fail_open: VALUE }]",
    "limits: [{ name: VALUE, key: global, rate: 1/s }]",
    "limits: [{ name: a, key: VALUE, rate: 1/s }]",
    "limits: [{ name: a, key: [\"path_segment:1\", VALUE], rate: 1/s }]",
    "limits: [{ name: a, key: global, rate: 1/s, match: VALUE }]",
    "limits: [{ name: a, key: global, rate: 1/s, match: { path: VALUE } }]",
    "limits: [{ name: a, key: global, rate: 1/s, match: { headers: VALUE } }]",
    "limits: [{ name: a, key: global, rate: 1/s, replaces: VALUE }]",
    "limits: VALUE",
    "proxy: VALUE",
    "proxy: { listen: VALUE }",
    "proxy: { listen: \"127.0.0.1:0\", upstream: VALUE }",
    "proxy: { listen: \"127.0.0.1:0\", workers: VALUE, max_connections: VALUE, max_headers: VALUE }",
    "proxy: { listen: \"127.0.0.1:0\", max_header_bytes: VALUE, max_target_bytes: VALUE }",
    "proxy: { listen: \"127.0.0.1:0\", max_body: VALUE }",
    "proxy: { listen: \"127.0.0.1:0\", timeouts: { header: VALUE } }",
    "proxy: { listen: \"127.0.0.1:0\", timeouts: { drain: VALUE } }",
    "proxy: { listen: \"127.0.0.1:0\", timeouts: { stalled_client: VALUE, stalled_server: VALUE } }",
    "proxy: { listen: \"127.0.0.1:0\", max_buffered_per_connection: VALUE }",
    "client_ip: { ipv4_prefix: VALUE }",
    "client_ip: { ipv6_prefix: VALUE }",
    "client_ip: { trusted_proxies: VALUE }",
    "principals: { jwt: { jwks_file: a, leeway: VALUE } }",
    "store: { deadline: VALUE }",
    "store: { local: { max_keys: VALUE } }",
    "store: { local: { sweep: VALUE } }",
    "store: { kind: redis, redis: { endpoints: VALUE } }",
    "store: { kind: redis, redis: { url: VALUE } }",
    "store: { kind: redis, redis: { endpoints: a, database: VALUE } }",
    "store: { kind: redis, redis: { endpoints: a, recovery: { base: VALUE, cap: VALUE } } }",
    "store: { kind: redis, redis: { endpoints: a, connect_timeout: VALUE } }",
    "decisions: { http: VALUE }",
    "admin: VALUE",
];

/// Checks the promises of a loaded configuration.
fn is_usable(config: &Config) {
    let now = Timestamp::from_millis(1_700_000_000_000);
    for limit in config.policy.limits() {
        assert!(limit.on_failure.is_some());
        let Some(quota) = limit.quota else { continue };
        let step = algorithm::decide(None, quota, 1, now);
        assert!(
            matches!(step.outcome, Outcome::Allowed { .. }),
            "{quota:?} never allows anything"
        );
        assert!(
            quota.limit() >= 1 && quota.window() > Nanos::ZERO,
            "{quota:?}"
        );
    }
    if let Some(proxy) = &config.proxy {
        assert!(!proxy.listen.is_empty() && proxy.max_connections > 0 && proxy.workers != Some(0));
        assert!(proxy.routes.iter().all(|route| !route.upstreams.is_empty()));
        let last = proxy
            .routes
            .last()
            .expect("there is a route for everything");
        assert!(last.host.is_none() && last.path.is_none());
        assert!((1 << 10..=1 << 20).contains(&proxy.bounds.header_bytes));
        assert!(proxy.timeouts.header > Nanos::ZERO && proxy.timeouts.idle > Nanos::ZERO);
    }
    match &config.store.kind {
        StoreKind::Local { max_keys, sweep } => assert!(*max_keys > 0 && *sweep > Nanos::ZERO),
        StoreKind::Redis(redis) => {
            assert!(!redis.endpoints.is_empty() && redis.deadline > Nanos::ZERO);
            assert!(Nanos::ZERO < redis.recovery_base && redis.recovery_base <= redis.recovery_cap);
        }
    }
    let is_open = config
        .admin
        .listen
        .is_some_and(|listen| !listen.ip().is_loopback());
    assert!(!is_open || config.admin.token_file.is_some());
    let decisions = &config.decisions;
    let is_open = decisions
        .addresses()
        .any(|(_, listen)| !listen.ip().is_loopback());
    let asks_for_certificates = decisions
        .tls
        .as_ref()
        .is_some_and(|tls| tls.client_ca_file.is_some());
    assert!(
        !is_open
            || decisions.token_file.is_some()
            || asks_for_certificates
            || decisions.allow_remote
    );
    assert!(!config.in_words().is_empty());
}

fn refused_or_usable(text: &str) {
    match try_load(text) {
        Ok(config) => is_usable(&config),
        Err(mistakes) => {
            assert!(mistakes.iter().len() > 0);
            assert!(
                mistakes.to_string().lines().count() == mistakes.iter().len(),
                "{mistakes}"
            );
            assert!(!mistakes.render(false).is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn every_value_is_refused_or_usable(place in prop::sample::select(PLACES.to_vec()), value in odd_value()) {
        refused_or_usable(&place.replace("VALUE", &value));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_text_is_refused_or_usable(text in "([a-z]{1,8}|[ \n:{}\\[\\],&*#!|>\"'%@`-]|\\PC){0,60}") {
        refused_or_usable(&text);
    }

    #[test]
    fn a_file_with_something_cut_out_is_refused_or_usable(start in 0..4_000_usize, length in 0..40_usize, put in "[ -~\n]{0,3}") {
        let mut text = include_str!("../../../../docs/examples/sluicegate.yaml").to_owned();
        let floor = |text: &str, at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (start, end) = (floor(&text, start), floor(&text, start + length));
        text.replace_range(start.min(end)..end, &put);
        refused_or_usable(&text);
    }
}
