//! The picture of `bench proxy`: processor time per request.

use super::contestants::ProxyContestant;
use super::loads::{ClientProtocol, LOADS, ProxyLoad, TlsUse};
use super::results::ProxyResults;
use crate::plot::{Chart, ChartSeries, ChartUnit};
use crate::samples::{ServerContestant, group};

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
        groups: rows.map(|row| group(row, &ProxyContestant::ALL)).collect(),
    };
    chart.svg()
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
