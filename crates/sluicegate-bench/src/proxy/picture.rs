//! The picture of `bench proxy`: processor time per request.

use super::contestants::Who;
use super::loads::LOADS;
use super::results::Results;
use crate::plot::{Chart, Series, Unit};
use crate::samples::{Contestant, group};

/// All loads but those that differ from another only by more connections.
pub fn svg(results: &Results) -> String {
    let rows = results.rows.iter().filter(|row| is_shown(row.name));
    let chart = Chart {
        title: "µs of processor time of the proxy per request (logarithmic)",
        description: "Processor time of the proxy per request in µs, by load and contestant",
        unit: Unit::Microseconds,
        series: Who::ALL
            .map(|who| Series {
                name: who.name(),
                note: "",
                colour: colour(who),
            })
            .into(),
        groups: rows.map(|row| group(row, &Who::ALL)).collect(),
    };
    chart.svg()
}

const CONNECTIONS_SHOWN_MAX: usize = 64;

fn is_shown(name: &str) -> bool {
    LOADS
        .iter()
        .any(|load| load.name == name && load.connections <= CONNECTIONS_SHOWN_MAX)
}

const fn colour(who: Who) -> &'static str {
    match who {
        Who::Sluicegate => "#12a37f",
        Who::Nginx => "#4f83cc",
        Who::Haproxy => "#d9792b",
        Who::Envoy => "#9b72c7",
    }
}
