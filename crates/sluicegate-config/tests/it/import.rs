//! Files of envoyproxy/ratelimit, converted to our format.

use sluicegate_config::import::{Format, Imported, convert};
use sluicegate_config::{Config, Mistakes, Source, load};

fn source(text: &str) -> Source {
    Source {
        name: "theirs.yaml".to_owned(),
        text: text.to_owned(),
        ..Source::embedded()
    }
}

fn imported(text: &str) -> (Imported, Config) {
    let imported = envoy_ratelimit(&source(text)).expect("it is imported");
    let config = load(&source(&imported.yaml), &|_| None).expect("ours is right");
    (imported, config)
}

fn envoy_ratelimit(source: &Source) -> Result<Imported, Mistakes> {
    convert(Format::EnvoyRatelimit, source)
}

fn mistakes(text: &str) -> Mistakes {
    envoy_ratelimit(&source(text)).expect_err("something is wrong")
}

#[test]
fn a_tree_of_descriptors_becomes_limits_that_replace_each_other() {
    let (imported, config) = imported(
        "
domain: edge
descriptors:
  - key: user
    rate_limit: { unit: second, requests_per_unit: 10 }
  - key: user
    value: vip
    rate_limit: { unit: minute, requests_per_unit: 600, name: very important }
    shadow_mode: true
  - key: path
    value: /slow
    descriptors:
      - key: status
        value: 404
        rate_limit: { unit: month, requests_per_unit: 5 }
      - key: user
        rate_limit: { unlimited: true }
",
    );
    let limits = config.policy.limits();
    let names: Vec<&str> = limits.iter().map(|limit| limit.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "user",
            "very-important",
            "path--slow.status-404",
            "path--slow.user"
        ]
    );
    for lines in [
        "  - name: \"user\"\n    match: { domain: \"edge\" }\n    key: [\"descriptor:user\"]\n    # differs: ratelimit counts in windows",
        "    rate: 10/s\n    burst: 10\n",
        "    replaces: \"user\"\n    match: { domain: \"edge\", descriptor: { \"user\": \"vip\" } }\n    key: [global]\n",
        "    rate: 600/m\n    burst: 600\n    mode: shadow\n",
        "descriptor: { \"path\": \"/slow\", \"status\": \"404\" } }\n    key: [global]\n",
        "    # differs: a month is 30 days and a year 365, not those of the calendar\n    rate: 5/30d\n    burst: 5\n",
        "    match: { domain: \"edge\", descriptor: { \"path\": \"/slow\" } }\n    key: [\"descriptor:user\"]\n    average: 0 # unlimited\n",
    ] {
        assert!(
            imported.yaml.contains(lines),
            "{lines}\nin\n{}",
            imported.yaml
        );
    }
    let differences = imported.differences.join("\n");
    assert!(
        differences.contains("windows of the clock") && differences.contains("a month is 30 days"),
        "{differences}"
    );
}

#[test]
fn what_has_no_counterpart_is_told() {
    let (imported, config) = imported(
        "
domain: edge
descriptors:
  - { key: a, value: 'x*', rate_limit: { unit: second, requests_per_unit: 1 } }
  - { key: b, rate_limit: { unit: second, requests_per_unit: 0 } }
  - { key: c, detailed_metric: true, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: b }] } }
  - key: d
    descriptors: [{ key: e, value: y, rate_limit: { unit: second, requests_per_unit: 1 } }]
  - key: d
    value: x
    descriptors: [{ key: e, rate_limit: { unit: second, requests_per_unit: 2 } }]
",
    );
    assert_eq!(config.policy.limits().len(), 3);
    let differences = [imported.differences, imported.not_carried_over]
        .concat()
        .join("\n");
    for reported in [
        "descriptors[0]: a limit cannot match values by prefix (\"x*\")",
        "descriptors[1].rate_limit: a limit cannot block everything",
        "descriptors[2].detailed_metric: our metrics",
        "descriptors[2].rate_limit.replaces: a limit replaces",
        "d.e-y and d-x.e are both charged where both cover a descriptor",
    ] {
        assert!(
            differences.contains(reported),
            "{reported}\nin\n{differences}"
        );
    }
}

#[test]
fn mistakes_are_told_with_their_places() {
    let reported = mistakes(
        "domain: edge\ndescriptors:\n  - kee: user\n  - { key: user, rate_limit: { unit: fortnight, requests_per_unit: x } }\n",
    )
    .to_string();
    for place in [
        "3:5: descriptors[0].key: is missing",
        "descriptors[0]",
        "fortnight",
        "descriptors[1].rate_limit.requests_per_unit",
    ] {
        assert!(reported.contains(place), "{place}\nin\n{reported}");
    }
    assert!(
        mistakes("descriptors: []")
            .to_string()
            .contains("domain: is missing")
    );
    assert!(
        mistakes("domain: [")
            .to_string()
            .starts_with("theirs.yaml:")
    );
}
