//! The guide names every series there is, with its labels, and no other.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

use std::collections::BTreeMap;

use sluicegate::FailureCounts;
use sluicegate::{BanRule, Limit, Nanos, Policy, Quota};
use sluicegate_gate::external::ExternalCounts;
use sluicegate_gate::telemetry::Metrics;
use sluicegate_gate::telemetry::metrics::CollectedCounts;

const GUIDE: &str = include_str!("../../../../docs/operations.md");

/// A name of a series, its type, its label, and the values of that.
type Series = BTreeMap<String, (String, Vec<String>)>;

/// From what is encoded: by type, each with the labels that a closed set has.
fn encoded() -> Series {
    let metrics = Metrics::new();
    let limit = Limit::per_client("per-ip", Quota::per_second(1).burst(1)).ban(BanRule {
        after: 1,
        within: Nanos::MINUTE,
        lasts: Nanos::MINUTE,
        grow: 1,
        max: Nanos::MINUTE,
    });
    metrics.limits(&Policy::new([limit]).unwrap());
    metrics.collect_from(|| CollectedCounts {
        nodes: vec![("local".to_owned(), true)],
        failures: FailureCounts::default(),
        client_ip_unused: vec![],
        external: Some(ExternalCounts::default()),
        keys_age: Some(std::time::Duration::ZERO),
        ..CollectedCounts::default()
    });
    let text = metrics.encode();
    let mut found = Series::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ["#", "TYPE", name, kind] = words[..] else {
            continue;
        };
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let series = format!("{name}{suffix}");
        let labels = text
            .lines()
            .filter_map(|line| line.strip_prefix(&series)?.strip_prefix('{'));
        let mut words: Vec<String> = labels
            .flat_map(|labels| labels.split('}').next().unwrap().split(','))
            .map(str::to_owned)
            .collect();
        words.sort();
        words.dedup();
        found.insert(series, (kind.to_owned(), words));
    }
    found
}

/// The rows `| series | type | labels | meaning |`.
fn documented() -> BTreeMap<String, (String, String)> {
    let section = GUIDE
        .split_once("\n## Metrics\n")
        .expect("the guide has the section")
        .1;
    let section = section.split("\n## ").next().unwrap();
    let is_row = |row: &&str| row.starts_with("sluicegate_") || row.starts_with("process_");
    let rows = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter(is_row);
    rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let [name, kind, labels, _meaning] = cells[..] else {
            panic!("four cells: {row}")
        };
        (
            name.trim_end_matches('`').to_owned(),
            (kind.to_owned(), labels.to_owned()),
        )
    })
    .collect()
}

#[test]
fn the_guide_names_every_series_with_its_labels_and_no_other() {
    let (encoded, documented) = (encoded(), documented());
    let names: Vec<&String> = encoded.keys().collect();
    assert_eq!(names, documented.keys().collect::<Vec<_>>());
    for (series, (kind, labels)) in &encoded {
        let (documented_kind, documented_labels) = &documented[series];
        assert_eq!(kind, documented_kind, "{series}");
        for label in labels {
            let (name, value) = label.split_once("=\"").unwrap();
            let value = value.trim_end_matches('"');
            // For an open set, the guide names the label alone.
            let is_open = matches!(name, "limit" | "node" | "version");
            assert!(
                documented_labels.contains(&format!("`{name}`")),
                "{series}: {name}"
            );
            assert!(
                is_open || documented_labels.contains(&format!("`{value}`")),
                "{series}: {value}"
            );
        }
        let known = labels.iter().map(|label| label.split_once('=').unwrap());
        let known: Vec<&str> = known
            .flat_map(|(name, value)| [name, value.trim_matches('"')])
            .collect();
        for word in documented_labels.split('`').skip(1).step_by(2) {
            assert!(known.contains(&word), "{series}: {word} is nowhere");
        }
    }
}
