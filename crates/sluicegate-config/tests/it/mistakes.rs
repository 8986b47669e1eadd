//! Files with mistakes: all of them are reported, each with its place.

use crate::{bad, good, try_load, wrong};

const MANY: &str = r#"proxy:
  listen: "127.0.0.1:80800"
  timeouts: { idle: 1M }
  max_conections: 5
client_ip:
  trusted_proxies: [10.0.0.0/33]
limits:
  - name: a
    key: [client_ip]
    rate: 10/s
    brust: 3
  - name: a
    key: [client_ip]
    rate: 10/s
    burst: 0
    mode: [shadow]
external: {}
"#;

#[test]
fn all_mistakes_are_told_at_once_with_line_and_column() {
    let reported = try_load(MANY).unwrap_err().to_string();
    let expected = r#"
sluicegate.yaml:2:11: proxy.listen: expected an IP address and port, such as 127.0.0.1:8080 (got "127.0.0.1:80800")
sluicegate.yaml:3:21: proxy.timeouts.idle: expected a number and a unit (ns, us, ms, s, m, h, d), such as 30s, 1.5s or 1m30s (got "1M")
sluicegate.yaml:4:3: proxy: unknown key `max_conections`, did you mean `max_connections`?
sluicegate.yaml:6:21: client_ip.trusted_proxies[0]: expected addresses such as 10.0.0.0/8 or 2001:db8::/32 (got "10.0.0.0/33")
sluicegate.yaml:11:5: limits[0]: unknown key `brust`, did you mean `burst`?
sluicegate.yaml:12:11: limits[1].name: "a" is also the name of limits[0]
sluicegate.yaml:15:12: limits[1].burst: must be at least 1; write 1 for a burst of one request, or leave it out for those of one period (got 0)
sluicegate.yaml:16:11: limits[1].mode: expected text (got a list)
sluicegate.yaml:17:11: external: needs http or grpc: the service to ask"#;
    assert_eq!(reported, expected.trim_start());
}

#[test]
fn mistakes_are_shown_in_the_text_and_counted() {
    let mistakes = try_load(MANY).unwrap_err();
    let shown = mistakes.render(false);
    assert!(
        shown.contains("limits[1].burst: must be at least 1; write 1 for a burst of one request, or leave it out for those of one period (got 0)"),
        "{shown}"
    );
    assert!(shown.contains("sluicegate.yaml:15:12"), "{shown}");
    assert!(shown.contains("15 |     burst: 0\n"), "{shown}");
    assert!(shown.ends_with("sluicegate.yaml: 9 mistakes\n"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert!(mistakes.render(true).contains('\u{1b}'));
    assert_eq!(mistakes.iter().len(), 9);
    let one = mistakes.iter().next().unwrap();
    assert_eq!((one.path(), one.place()), ("proxy.listen", Some((2, 11))));
}

#[test]
fn a_line_that_is_too_long_to_be_shown_is_told_by_its_place() {
    let text = format!(
        "{{ log: {{ format: xml }}, access: {{ allow: {{ keys: [{}] }} }} }}",
        "a, ".repeat(500)
    );
    let shown = try_load(&text).unwrap_err().render(false);
    let expected =
        "error: sluicegate.yaml:1:18: log.format: unknown value \"xml\" (expected text or json)";
    assert!(shown.starts_with(expected) && shown.len() < 300, "{shown}");
}

#[test]
fn places_are_right_behind_letters_of_several_bytes() {
    let text = "limits: [{ name: a, key: \"header:ä\", rate: 1/s, burst: 0 }] # ü\n";
    let mistakes = try_load(text).unwrap_err();
    let places: Vec<_> = mistakes.iter().map(|mistake| mistake.place()).collect();
    assert_eq!(places, [Some((1, 26)), Some((1, 56))]);
    assert!(mistakes.render(false).contains("# ü"));
}

#[test]
fn a_key_that_stands_there_twice_is_refused_beside_the_other_mistakes() {
    let reported = bad("store: {}\nlimits: []\nstore: {}\nlog: { format: xml }\n");
    assert_eq!(
        reported,
        [
            "the key \"store\" occurs twice",
            "log.format: unknown value \"xml\" (expected text or json)"
        ]
    );
}

#[test]
fn what_is_no_yaml_is_refused_with_its_place() {
    for text in [
        "a: [",
        "a: b: c",
        "\t- x",
        "{",
        "a: \"",
        "- a\nb: c",
        "&a *a",
        "a: *b",
        "a: !!int x",
    ] {
        let mistakes = try_load(text).unwrap_err();
        assert_eq!(mistakes.iter().len(), 1, "{mistakes}");
        assert!(!mistakes.to_string().contains('\n'), "{mistakes}");
        assert!(mistakes.render(false).ends_with("1 mistake\n"));
    }
    assert_eq!(wrong("- a"), "expected a section (got a list)");
    assert_eq!(wrong("just text"), "expected a section (got \"just text\")");
    let control = try_load("log: \"\u{1b}\"").unwrap_err();
    assert!(
        !(control.to_string() + &control.render(false)).contains('\u{1b}'),
        "{control}"
    );
    let several = wrong("limits: []\n---\nlimits: []\n");
    assert!(several.contains("multiple"), "{several}");
}

#[test]
fn an_empty_file_is_a_configuration_without_proxy_and_limits() {
    for text in ["", "# nothing\n", "limits: []\n", "{}"] {
        let config = good(text);
        assert!(config.proxy.is_none() && config.policy.limits().is_empty());
        assert_eq!(config.admin.listen, "127.0.0.1:9090".parse().ok());
    }
}

#[test]
fn a_key_without_a_value_is_refused_and_a_section_without_keys_is_not() {
    assert_eq!(
        wrong("limits:\n"),
        "limits: has no value; leave the key out"
    );
    assert_eq!(
        wrong("log:\n  format:\n"),
        "log.format: has no value; leave the key out"
    );
    good("store:\nresponse:\nlog:\nadmin:\nclient_ip:\nprincipals:\naccess:\n");
}

#[test]
fn unknown_keys_are_told_in_every_section() {
    for (text, message) in [
        ("limit: []", "unknown key `limit`, did you mean `limits`?"),
        ("stores: {}", "unknown key `stores`, did you mean `store`?"),
        (
            "store: { redis: { endpoints: a, tls: { ca: x } } }",
            "store.redis.tls: unknown key `ca`",
        ),
        (
            "log: { colour: red }",
            "log: unknown key `colour` (known: format, access, rate_limit_line)",
        ),
        ("\"a\\nb\": 1", "unknown key `a\\nb` (known: "),
    ] {
        let reported = wrong(text);
        assert!(reported.starts_with(message), "{reported}");
    }
    assert_eq!(
        bad("logs: {}\nadmins: {}\nstore: { kinds: redis }\n").len(),
        3
    );
}

#[test]
fn aliases_work_within_bounds() {
    let text =
        "limits:\n  - &one { name: a, key: [client_ip], rate: 1/s }\n  - { <<: *one, name: b }\n";
    let config = good(text);
    assert_eq!(
        config.policy.limits()[1].quota,
        config.policy.limits()[0].quota
    );
    assert_eq!(config.policy.limits()[1].name, "b");
}
