//! The picture of `bench redis`: what a decision costs the client and Redis where most callers wait.

use super::contestants::RedisContestant;
use super::loads::CALLERS;
use super::results::{RedisResults, RedisRow};
use super::targets::ProcessorTime;
use crate::plot::{Bar, BarGroup, Chart, ChartSeries, ChartUnit};

pub fn svg(results: &RedisResults) -> String {
    let busiest = CALLERS[CALLERS.len() - 1];
    let rows = results.rows.iter().filter(|row| row.callers == busiest);
    let chart = Chart {
        title: "ns of processor time per decision (512 callers; logarithmic)",
        description: "Processor time per decision of client and Redis in ns, by load and contestant",
        unit: ChartUnit::Nanoseconds,
        series: RedisContestant::TIMED
            .map(|contestant| ChartSeries {
                name: contestant.name(),
                note: "",
                colour: colour(contestant),
            })
            .into(),
        groups: rows
            .flat_map(|row| {
                [ProcessorTime::Client, ProcessorTime::Redis].map(|cost| group(row, cost))
            })
            .collect(),
    };
    chart.svg()
}

fn group(row: &RedisRow, cost: ProcessorTime) -> BarGroup {
    let bars = RedisContestant::TIMED
        .into_iter()
        .enumerate()
        .filter_map(|(series, contestant)| {
            let ns = row.cell(contestant)?.median(cost.of()) * 1e3;
            Some(Bar { series, value: ns })
        });
    BarGroup {
        name: format!("{}: {}", row.load.name(), cost.name()),
        bars: bars.collect(),
    }
}

const fn colour(contestant: RedisContestant) -> &'static str {
    match contestant {
        RedisContestant::Sluicegate | RedisContestant::SluicegateCompact => "#12a37f",
        RedisContestant::Gcra => "#4f83cc",
        RedisContestant::HashBucket => "#d9792b",
    }
}
