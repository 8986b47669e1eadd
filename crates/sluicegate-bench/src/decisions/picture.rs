//! The picture of `bench decisions`: processor time per question.

use super::bench::DecisionsResults;
use super::contestants::DecisionsContestant;
use crate::plot::{Chart, ChartSeries, ChartUnit};
use crate::samples::{ServerContestant, group};

pub fn svg(results: &DecisionsResults) -> String {
    let chart = Chart {
        title: "µs of processor time of the server per decision (logarithmic)",
        description: "Processor time of the server per decision in µs, by protocol and contestant",
        unit: ChartUnit::Microseconds,
        series: DecisionsContestant::ALL
            .map(|contestant| ChartSeries {
                name: contestant.name(),
                note: "",
                colour: colour(contestant),
            })
            .into(),
        groups: results
            .rows
            .iter()
            .map(|row| group(row, &DecisionsContestant::ALL))
            .collect(),
    };
    chart.svg()
}

const fn colour(contestant: DecisionsContestant) -> &'static str {
    match contestant {
        DecisionsContestant::Sluicegate => "#12a37f",
        DecisionsContestant::Throttlecrab => "#d9792b",
        DecisionsContestant::Redis => "#c0504d",
    }
}
