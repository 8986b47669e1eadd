//! The picture of `bench redis`: what a decision costs the client and Redis where most callers wait.

use super::contestants::Who;
use super::loads::CALLERS;
use super::results::{Results, Row};
use super::targets::Cost;
use crate::plot::{Bar, Chart, Group, Series, Unit};

pub fn svg(results: &Results) -> String {
    let busiest = CALLERS[CALLERS.len() - 1];
    let rows = results.rows.iter().filter(|row| row.callers == busiest);
    let chart = Chart {
        title: "ns of processor time per decision (512 callers; logarithmic)",
        description: "Processor time per decision of client and Redis in ns, by load and contestant",
        unit: Unit::Nanoseconds,
        series: Who::TIMED
            .map(|who| Series {
                name: who.name(),
                note: "",
                colour: colour(who),
            })
            .into(),
        groups: rows
            .flat_map(|row| [Cost::Client, Cost::Redis].map(|cost| group(row, cost)))
            .collect(),
    };
    chart.svg()
}

fn group(row: &Row, cost: Cost) -> Group {
    let bars = Who::TIMED
        .into_iter()
        .enumerate()
        .filter_map(|(series, who)| {
            let ns = row.cell(who)?.median(cost.of()) * 1e3;
            Some(Bar { series, value: ns })
        });
    Group {
        name: format!("{}: {}", row.load.name(), cost.name()),
        bars: bars.collect(),
    }
}

const fn colour(who: Who) -> &'static str {
    match who {
        Who::Sluicegate | Who::SluicegateCompact => "#12a37f",
        Who::Gcra => "#4f83cc",
        Who::HashBucket => "#d9792b",
    }
}
