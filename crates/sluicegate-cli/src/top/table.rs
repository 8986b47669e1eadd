//! One status report as text, for `--once` and for output that is not a terminal.

use super::Order;
use super::status::{StatusReport, rate};

/// Totals, the limits, the first keys, and the bans and overrides in force.
pub fn table(status: &StatusReport, by: Order) -> String {
    let mut out = format!(
        "{} allowed/s, {} denied/s, {} connections, config {}\nstore {}\n",
        rate(&status.allowed),
        rate(&status.denied),
        status.connections,
        status.config,
        status.store
    );
    let limits = status.limits.iter().map(|limit| {
        [
            limit.name.clone(),
            limit.mode.clone(),
            rate(&limit.allowed).to_string(),
            rate(&limit.denied).to_string(),
        ]
    });
    out.push('\n');
    out.push_str(&aligned(
        &["LIMIT", "MODE", "ALLOWED/S", "DENIED/S"],
        limits.collect(),
    ));
    let keys = status.keys.iter().map(|key| {
        [
            key.text.clone(),
            key.requests.to_string(),
            key.denied.to_string(),
        ]
    });
    let first = format!("KEY, BY {}", by.name().to_uppercase());
    out.push('\n');
    out.push_str(&aligned(&[&first, "REQUESTS", "DENIED"], keys.collect()));
    for order in &status.orders {
        out.push_str(&format!("\nin force: {order}"));
    }
    if !status.orders.is_empty() {
        out.push('\n');
    }
    out
}

/// Columns under their names: text aligned to the left, numbers to the right.
fn aligned<const N: usize>(names: &[&str; N], rows: Vec<[String; N]>) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells
            .chain([names[column].chars().count()])
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |cells: [&str; N]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| {
            if cell.parse::<u64>().is_ok() {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let rows = rows
        .iter()
        .map(|row| line(row.each_ref().map(String::as_str)));
    std::iter::once(line(*names)).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::super::status::parse_status;
    use super::super::status::tests::sample_status;
    use super::*;

    #[test]
    fn a_status_report_is_a_table() {
        let wanted = "\
5 allowed/s, 14 denied/s, 12 connections, config version 3 (9c41f7d2)
store redis degraded, down: 127.0.0.1:6379, latency p50 180 µs, p99 900 µs, unavailable for 2 s of the last 5 min

LIMIT       MODE     ALLOWED/S  DENIED/S
per-client  enforce          2         3
sign-in     shadow           0         0

KEY, BY DENIED          REQUESTS  DENIED
per-client:203.0.113.7      1000     900
tenant:\\u{1b}[2J              10       1
per-client:?                   2       0

in force: b-1  client_ip 203.0.113.0/24: refused until later, by ann: scraping
";
        assert_eq!(
            table(&parse_status(&sample_status()), Order::Denied),
            wanted
        );
    }
}
