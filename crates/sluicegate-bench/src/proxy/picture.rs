//! The picture of `bench proxy`: processor time per request.

use super::contestants::ProxyContestant;
use super::loads::{ClientProtocol, LOADS, ProxyLoad, TlsUse};
use super::results::ProxyResults;
use crate::plot::{BarGroup, Chart, ChartSeries, ChartUnit};
use crate::samples::{ServerContestant, ServerRow, group};

/// All loads but those that differ from another only by more connections, or are about handshakes.
pub fn svg(results: &ProxyResults) -> String {
    let rows = results.rows.iter().filter(|row| is_shown(row.name));
    let chart = Chart {
        title: "µs of processor time of the proxy per request (logarithmic)",
        description: "Processor time of the proxy per request in µs, by load and contestant",
        unit: ChartUnit::Microseconds,
        series: ProxyContestant::ALL
            .map(|contestant| ChartSeries {
                name: contestant.name(),
                note: "",
                colour: colour(contestant),
            })
            .into(),
        groups: rows.map(shortened).collect(),
    };
    chart.svg()
}

/// Without the number of connections, which is the same wherever it is in the name and too wide here.
fn shortened(row: &ServerRow<ProxyContestant>) -> BarGroup {
    let mut group = group(row, &ProxyContestant::ALL);
    if let Some(name) = group.name.strip_suffix(", 64 connections") {
        group.name = name.to_string();
    }
    group
}

const CONNECTIONS_SHOWN_MAX: usize = 64;

fn is_shown(name: &str) -> bool {
    LOADS.iter().any(|load| {
        load.name == name && load.connections <= CONNECTIONS_SHOWN_MAX && !is_handshake(load)
    })
}

const fn is_handshake(load: &ProxyLoad) -> bool {
    matches!(
        load.protocol,
        ClientProtocol::Tls(TlsUse::FullHandshakes | TlsUse::ResumedHandshakes)
    )
}

const fn colour(contestant: ProxyContestant) -> &'static str {
    match contestant {
        ProxyContestant::Sluicegate => "#12a37f",
        ProxyContestant::Nginx => "#4f83cc",
        ProxyContestant::Haproxy => "#d9792b",
        ProxyContestant::Envoy => "#9b72c7",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_shown_once_under_a_name_that_fits() {
        let rows = LOADS.map(|load| ServerRow {
            name: load.name,
            cells: Vec::new(),
        });
        let shown: Vec<String> = rows
            .iter()
            .filter(|row| is_shown(row.name))
            .map(|row| shortened(row).name)
            .collect();
        let expected = [
            "allowed",
            "rejected",
            "mixed, 20 limits",
            "64 KiB POST",
            "1 MiB answer",
            "h2, allowed",
            "h2, rejected",
            "TLS, allowed",
        ];
        assert_eq!(shown, expected);
    }
}
