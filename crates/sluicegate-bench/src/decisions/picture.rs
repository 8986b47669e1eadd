//! The picture of `bench decisions`: processor time per question.

use super::bench::Results;
use super::contestants::Who;
use crate::plot::{Chart, Series, Unit};
use crate::samples::{Contestant, group};

pub fn svg(results: &Results) -> String {
    let chart = Chart {
        title: "µs of processor time of the server per decision (logarithmic)",
        description: "Processor time of the server per decision in µs, by protocol and contestant",
        unit: Unit::Microseconds,
        series: Who::ALL
            .map(|who| Series {
                name: who.name(),
                note: "",
                colour: colour(who),
            })
            .into(),
        groups: results
            .rows
            .iter()
            .map(|row| group(row, &Who::ALL))
            .collect(),
    };
    chart.svg()
}

const fn colour(who: Who) -> &'static str {
    match who {
        Who::Sluicegate => "#12a37f",
        Who::Throttlecrab => "#d9792b",
        Who::Redis => "#c0504d",
    }
}
