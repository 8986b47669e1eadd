//! Bounds that keep one client, or all of them, from taking what the process has.

use sluicegate_config::MemoryBudget;

use crate::{good, schema, wrong};

#[test]
fn a_memory_budget_is_a_size_a_share_or_off() {
    let budget = |value: &str| {
        let text = format!("overload: {{ memory: {value} }}");
        schema::accepts(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        good(&text).overload.memory
    };
    for (value, expected, shown) in [
        ("512MiB", MemoryBudget::Bytes(512 << 20), "512MiB"),
        ("2 GiB", MemoryBudget::Bytes(2 << 30), "2GiB"),
        ("40000000", MemoryBudget::Bytes(40_000_000), "40000000B"),
        ("80%", MemoryBudget::Percent(80), "80%"),
        ("100 %", MemoryBudget::Percent(100), "100%"),
        ("1%", MemoryBudget::Percent(1), "1%"),
        ("off", MemoryBudget::Unlimited, "off"),
        ("false", MemoryBudget::Unlimited, "off"),
    ] {
        let budget = budget(value);
        assert_eq!(budget, expected, "{value}");
        assert_eq!(budget.to_string(), shown, "{value}");
    }
    for text in ["", "overload:", "overload: {}"] {
        assert_eq!(good(text).overload.memory, MemoryBudget::Percent(80));
    }
    for (value, message) in [
        ("0%", "expected a share from 1% to 100% (got \"0%\")"),
        ("101%", "expected a share from 1% to 100% (got \"101%\")"),
        ("1.5%", "expected a share from 1% to 100% (got \"1.5%\")"),
        ("-1%", "expected a share from 1% to 100% (got \"-1%\")"),
        ("1MiB", "must be at least 33554432 (got \"1MiB\")"),
        (
            "much",
            "expected a size, such as 512, 64KiB, 1MiB or 1GiB (got \"much\")",
        ),
    ] {
        let reported = wrong(&format!("overload: {{ memory: {value} }}"));
        assert_eq!(reported, format!("overload.memory: {message}"));
    }
}

#[test]
fn a_client_may_have_a_thousand_connections_unless_told_otherwise() {
    let bound = |setting: &str| {
        let text = format!("proxy: {{ listen: '127.0.0.1:0'{setting} }}");
        good(&text).proxy.unwrap().max_connections_per_client
    };
    assert_eq!(bound(""), Some(1_000));
    assert_eq!(bound(", max_connections_per_client: 7"), Some(7));
    assert_eq!(bound(", max_connections_per_client: 0"), None);
    let reported = wrong("proxy: { listen: '127.0.0.1:0', max_connections_per_client: any }");
    assert_eq!(
        reported,
        "proxy.max_connections_per_client: expected a whole number (got \"any\")"
    );
}

#[test]
fn a_change_of_either_is_told() {
    let limits = "limits: [{ name: a, key: global, rate: 1/s }]\n";
    let old = good(&format!("{limits}proxy: {{ listen: '127.0.0.1:0' }}"));
    let new = good(&format!(
        "{limits}proxy: {{ listen: '127.0.0.1:0', max_connections_per_client: 0 }}\noverload: {{ memory: 1GiB }}"
    ));
    let told: Vec<String> = old
        .changes_to(&new)
        .into_iter()
        .map(|change| change.message)
        .collect();
    assert_eq!(
        told,
        [
            "overload.memory is 1GiB now, and was 80%",
            "proxy.max_connections_per_client is any number now, and was 1000"
        ]
    );
    assert!(
        new.in_words()
            .contains(&"one client address may hold all connections of the proxy".to_owned())
    );
}
