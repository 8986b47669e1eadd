//! Values from the environment and from files: filled in, and never shown.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use sluicegate_config::{Config, Mistakes, SecretSource, Source, StoreKind, load};

use crate::source;

fn load_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, Mistakes> {
    let env = |name: &str| {
        variables
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    };
    load(&source(text), &env)
}

fn load_in(directory: &Path, text: &str) -> Result<Config, Mistakes> {
    load(
        &Source {
            base_dir: directory.to_owned(),
            ..source(text)
        },
        &|_| None,
    )
}

#[test]
fn variables_are_filled_in_also_where_numbers_stand() {
    let text = r#"
proxy: { listen: "${HOST:-127.0.0.1}:${PORT}", max_connections: "${CONNECTIONS}", max_body: "${BODY}" }
store: { kind: "${STORE:-local}" }
log: { access: "${ACCESS}" }
limits: [{ name: "${NAME:-a}", key: client_ip, rate: "${RATE}", burst: "${BURST:-7}" }]
"#;
    let variables = [
        ("PORT", "81"),
        ("CONNECTIONS", "9"),
        ("BODY", "1MiB"),
        ("ACCESS", "true"),
        ("RATE", "3/s"),
        ("NAME", ""),
    ];
    let config = load_with(text, &variables).unwrap();
    let proxy = config.proxy.unwrap();
    assert_eq!(proxy.listen, ["127.0.0.1:81".parse().unwrap()]);
    assert_eq!(
        (proxy.max_connections, proxy.bounds.body_bytes),
        (9, Some(1 << 20))
    );
    assert!(config.log.access);
    let limit = &config.policy.limits()[0];
    assert_eq!(
        (limit.name.as_str(), limit.quota.unwrap().limit()),
        ("a", 7)
    );
}

#[test]
fn a_dollar_by_itself_stays_and_two_are_an_escape() {
    let text =
        r#"access: { allow: { keys: ["$5", "a$", "$${NAME}", "$$", "x${A:-}y", "${A:-$}"] } }"#;
    let config = load_with(text, &[]).unwrap();
    assert_eq!(
        config.access.allow.keys,
        ["$5", "a$", "${NAME}", "$$", "xy", "$"]
    );
}

#[test]
fn what_is_filled_in_is_not_looked_at_again() {
    let config = load_with("access: { allow: { keys: [\"${A}\"] } }", &[("A", "${B}")]).unwrap();
    assert_eq!(config.access.allow.keys, ["${B}"]);
}

#[test]
fn a_reference_that_leads_nowhere_is_a_mistake_at_its_place() {
    let text = "limits:\n  - name: ${NAME}\n    key: [client_ip]\n    rate: ${file:rate}\n    burst: ${1}\n    mode: ${A\n";
    let reported = load_with(text, &[]).unwrap_err().to_string();
    let lines: Vec<&str> = reported.lines().collect();
    assert_eq!(lines.len(), 4, "{reported}");
    assert_eq!(
        lines[0],
        "sluicegate.yaml:2:11: limits[0].name: there is no variable NAME in the environment; ${NAME:-default} gives it a \
         default"
    );
    assert!(
        lines[1].starts_with("sluicegate.yaml:4:11: limits[0].rate: cannot read \"rate\": "),
        "{reported}"
    );
    assert!(lines[2].contains(
        "limits[0].burst: expected ${NAME}, ${NAME:-default} or ${file:path} (got \"${1}\")"
    ));
    assert!(
        lines[3].contains("limits[0].mode: expected a } after ${"),
        "{reported}"
    );
}

#[test]
fn a_file_gives_its_first_line() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("burst"), "12\r\nsecond line\n").unwrap();
    fs::write(directory.path().join("binary"), [0xff, 0xfe]).unwrap();
    fs::write(directory.path().join("long"), "x".repeat(100_000)).unwrap();
    let with = |value: &str| {
        let text = format!(
            "limits: [{{ name: a, key: client_ip, rate: 1/s, burst: \"${{file:{value}}}\" }}]"
        );
        load_in(directory.path(), &text)
    };
    assert_eq!(
        with("burst").unwrap().policy.limits()[0]
            .quota
            .unwrap()
            .limit(),
        12
    );
    for (file, why) in [
        ("missing", "cannot read \"missing\": "),
        (".", "it is not a regular file"),
        ("/dev/zero", "it is not a regular file"),
        ("binary", "its first line is not UTF-8"),
        ("long", "its first line is longer than 64 KiB"),
    ] {
        let reported = with(file).unwrap_err().to_string();
        assert!(reported.contains(why), "{reported}");
    }
}

#[test]
fn many_references_to_a_long_value_are_refused() {
    let text = format!(
        "access: {{ allow: {{ keys: [{}] }} }}",
        "\"${A}\", ".repeat(1_000)
    );
    let reported = load_with(&text, &[("A", &"x".repeat(60_000))]).unwrap_err();
    assert!(
        reported
            .iter()
            .any(|mistake| mistake.message().contains("exceed 4 MiB in total"))
    );
    let reported = load_with("log: { format: \"${A}\" }", &[("A", &"x".repeat(70_000))])
        .unwrap_err()
        .to_string();
    assert_eq!(
        reported,
        "sluicegate.yaml:1:16: log.format: A is longer than 64 KiB"
    );
}

#[test]
fn values_from_outside_are_not_shown() {
    for (value, message) in [
        (
            "store: { kind: ${X} }",
            "store.kind: unknown value from the environment (expected local or redis)",
        ),
        (
            "proxy: { listen: ${X} }",
            "proxy.listen: expected an IP address and port, such as 127.0.0.1:8080 (value from the environment)",
        ),
        (
            "client_ip: { trusted_proxies: ${X} }",
            "client_ip.trusted_proxies: expected addresses such as 10.0.0.0/8 or 2001:db8::/32 (value from the environment)",
        ),
        (
            "store: { deadline: ${X} }",
            "store.deadline: expected a number and a unit (ns, us, ms, s, m, h, d), such as 30s, 1.5s or 1m30s (value from the environment)",
        ),
    ] {
        let text = value.replace("${X}", "\"${X}\"");
        let mistakes = load_with(&text, &[("X", "hunter2")]).unwrap_err();
        assert_eq!(mistakes.iter().next().unwrap().to_string(), message);
    }
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("secret"), "hunter2\n").unwrap();
    let mistakes = load_in(directory.path(), "store: { kind: \"${file:secret}\" }").unwrap_err();
    assert_eq!(
        mistakes.to_string(),
        "sluicegate.yaml:1:16: store.kind: unknown value from a file (expected local or redis)"
    );
    assert!(!mistakes.render(false).contains("hunter2"));
}

#[test]
fn a_password_stands_in_a_file_or_a_variable_and_nowhere_else() {
    let password = |keys: &str| {
        let text = format!("store: {{ kind: redis, redis: {{ endpoints: [rl-0], {keys} }} }}");
        let config = load_with(&text, &[("REDIS_PASSWORD", "hunter2")]).map_err(|mistakes| {
            assert!(
                !mistakes.render(false).contains("hunter2")
                    && !mistakes.to_string().contains("hunter2")
            );
            mistakes
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        })?;
        let StoreKind::Redis(redis) = &config.store.kind else {
            panic!("expected redis")
        };
        assert!(!format!("{config:?}").contains("hunter2"));
        Ok::<_, String>(redis.password.clone())
    };
    let env = SecretSource::Env("REDIS_PASSWORD".into());
    let file = SecretSource::File(PathBuf::from("/etc/sluicegate/redis.pw"));
    assert_eq!(
        password("password_env: REDIS_PASSWORD"),
        Ok(Some(env.clone()))
    );
    assert_eq!(password("password_file: redis.pw"), Ok(Some(file)));
    assert_eq!(password("password: \"${REDIS_PASSWORD}\""), Ok(Some(env)));
    assert_eq!(password("password_file: \"\""), Ok(None));
    let advice = "store.redis.password: must not be written in the file: use password_file, password_env or ${NAME}";
    for literal in [
        "hunter2",
        "\"hunter2\"",
        "\"x${REDIS_PASSWORD}\"",
        "\"${OTHER:-hunter2}\"",
    ] {
        assert_eq!(
            password(&format!("password: {literal}")),
            Err(advice.to_owned()),
            "{literal}"
        );
    }
    assert!(
        password("password: 12345")
            .unwrap_err()
            .contains("must not be written in the file")
    );
    assert!(
        password("passwrod: hunter2")
            .unwrap_err()
            .contains("did you mean `password`?")
    );
    assert!(
        password("password_env: A, password_file: b")
            .unwrap_err()
            .contains("more than one of")
    );
    assert!(
        password("username: ann")
            .unwrap_err()
            .contains("username: needs a password_file or password_env")
    );
}

proptest! {
    /// No message and no snippet shows a value from outside, at any key.
    #[test]
    fn no_value_from_outside_is_ever_shown(
        place in 0..46_usize,
        secret in "[a-z]{3}[ -~]{0,8}(#|/s|:1)?[a-z0-9]{6}",
    ) {
        let keys = [
            "proxy.listen", "proxy.upstream", "proxy.max_body", "proxy.workers", "proxy.timeouts.idle", "admin.listen",
            "admin", "decisions.http", "decisions.allow_remote", "client_ip.header", "client_ip.ipv4_prefix", "principals.on_invalid", "principals.required",
            "principals.jwt.header", "principals.jwt.algorithms", "access.deny.cidrs", "store.kind", "store.on_failure",
            "store.on_failure.policy", "store.on_failure.status", "store.fail_open", "store.key_prefix",
            "store.redis.url", "store.redis.endpoints", "store.redis.mode", "store.redis.password",
            "store.redis.sentinel.master", "store.redis.tls.server_name", "store.local.max_keys", "limits.name",
            "limits.key", "limits.rate", "limits.burst", "limits.replaces", "limits.match.path", "limits.match.hosts",
            "limits.match.methods", "limits.factor.default", "limits.mode", "response.headers", "log.format", "limits",
            "store.redis.recovery.base", "store.redis.username", "proxy.routes.host", "limits.max", "limits.drip_rate", "limits.period",
        ];
        let mut text = "\"${SECRET}\"".to_owned();
        for key in keys[place].rsplit('.') {
            text = match key {
                "limits" if keys[place] != "limits" => format!("{{ limits: [{text}] }}"),
                key => format!("{{ {key}: {text} }}"),
            };
        }
        if let Err(mistakes) = load_with(&text, &[("SECRET", &secret)]) {
            let shown = mistakes.to_string() + &mistakes.render(false);
            prop_assert!(!shown.contains(&secret), "{shown}");
            prop_assert!(!shown.contains(&secret.escape_debug().to_string()), "{shown}");
        }
    }
}
