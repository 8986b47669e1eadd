//! `cost` of a limit, and every way to get it wrong.

use sluicegate_core::{Cost, HeaderCost};

use crate::limits::one;
use crate::schema::accepts;
use crate::{bad, good};

#[test]
fn a_cost_arrives_as_a_number_or_a_header() {
    let header = || HeaderCost::new("x-cost");
    for (cost, expected) in [
        ("5", Cost::Fixed(5)),
        ("1", Cost::default()),
        ("{ header: X-Cost }", header().into()),
        (
            "{ header: X-Cost, default: 2, max: 100 }",
            header().default(2).max(100).into(),
        ),
    ] {
        let text = one(&format!("rate: 10/s, cost: {cost}"));
        accepts(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        assert_eq!(good(&text).policy.limits()[0].cost, expected, "{cost}");
    }
}

#[test]
fn costs_that_make_no_sense_are_refused_with_a_way_out() {
    let hint = "a request that costs nothing is not limited: say which requests are with match, or turn the limit off with enabled: false (got 0)";
    for (cost, message) in [
        ("0", format!("cost: must be at least 1; {hint}")),
        ("-1", "cost: must be at least 1 (got -1)".to_owned()),
        ("1.5", "cost: expected a whole number (got 1.5)".to_owned()),
        (
            "much",
            "cost: expected a whole number (got \"much\")".to_owned(),
        ),
        (
            "[1]",
            "cost: expected a whole number (got a list)".to_owned(),
        ),
        (
            "{ default: 1 }",
            "cost.header: is missing: the header that holds the cost, a whole number".to_owned(),
        ),
        (
            "{ header: a b }",
            "cost.header: expected a header name (got \"a b\")".to_owned(),
        ),
        (
            "{ header: X-Cost, default: 0 }",
            format!("cost.default: must be at least 1; {hint}"),
        ),
        (
            "{ header: X-Cost, max: 0 }",
            format!("cost.max: must be at least 1; {hint}"),
        ),
        (
            "{ header: X-Cost, most: 7 }",
            "cost: unknown key `most` (known: header, default, max)".to_owned(),
        ),
    ] {
        let text = one(&format!("rate: 10/s, cost: {cost}"));
        assert_eq!(bad(&text), [format!("limits[0].{message}")], "{cost}");
        assert!(accepts(&text).is_err(), "the schema accepts {cost}");
    }
    for (cost, message) in [
        (
            "11",
            "cost: must be at most 10, all that the limit ever holds (got 11): no request would ever pass",
        ),
        (
            "{ header: X-Cost, default: 5, max: 4 }",
            "cost: max must be at least 5, the cost of a request without the header",
        ),
    ] {
        let text = one(&format!("rate: 10/s, cost: {cost}"));
        assert_eq!(bad(&text), [format!("limits[0].{message}")], "{cost}");
    }
}

/// The message has no names in it, so it is told as it is.
#[test]
fn a_cost_is_refused_with_its_reason_also_where_names_are_hidden() {
    let source =
        crate::source("limits: [{ name: \"${file:name}\", key: global, rate: 1/s, cost: 7 }]");
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("name"), "secret-name\n").unwrap();
    let source = sluicegate_config::Source {
        base_dir: directory.path().to_owned(),
        ..source
    };
    let mistakes = sluicegate_config::load(&source, &|_| None).unwrap_err();
    assert_eq!(
        mistakes.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "limits[0].cost: must be at most 1, all that the limit ever holds (got 7): no request would ever pass"
        ]
    );
}

#[test]
fn costs_are_told_and_compared() {
    let told = |keys: &str| {
        let words = good(&one(&format!("rate: 10/s, {keys}"))).in_words();
        words
            .into_iter()
            .filter(|line| line.starts_with("a: ") || line.starts_with("at a"))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        told("cost: 5"),
        [
            "a: at most 10 units at once and 10 a second, for each client address",
            "at a, each request costs 5 units"
        ]
    );
    assert_eq!(
        told("cost: { header: X-Cost, default: 2, max: 100 }")[1],
        "at a, each request costs the units in the header x-cost, at least 2 and at most 100"
    );
    assert_eq!(
        told("cost: 1"),
        ["a: at most 10 requests at once and 10 a second, for each client address"]
    );
    let changes = |old: &str, new: &str| {
        let config = |keys: &str| good(&one(&format!("rate: 10/s, {keys}")));
        let changes = config(old).changes_to(&config(new));
        let told = changes.into_iter();
        told.map(|change| (change.kind.name(), change.message))
            .collect::<Vec<_>>()
    };
    assert_eq!(changes("cost: 1", "mode: enforce"), []);
    assert_eq!(
        changes("cost: 1", "cost: 5"),
        [(
            "tighter",
            "at a, each request costs 5 units now; before, each request costs 1 unit".to_owned()
        )]
    );
    assert_eq!(changes("cost: 5", "cost: 2")[0].0, "looser");
    assert_eq!(changes("cost: 5", "cost: { header: x }")[0].0, "changed");
}
