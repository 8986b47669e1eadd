//! The picture of `bench local`.

use super::contestants::LocalContestant;
use super::keys::KeyKind;
use super::results::{LocalCell, LocalResults};
use crate::plot::{Bar, BarGroup, Chart, ChartSeries, ChartUnit};
use crate::rate::ExpectedAnswer;

/// The figures with one thread and allowed, by address; throttlecrab by text, which is all it takes.
pub fn svg(results: &LocalResults) -> String {
    let chart = Chart {
        title: "ns per decision (processor time, one thread, allowed; logarithmic)",
        description: "Processor time per decision in ns, by load and contestant",
        unit: ChartUnit::Nanoseconds,
        series: SHOWN
            .map(|contestant| ChartSeries {
                name: contestant.name(),
                note: note(contestant),
                colour: colour(contestant),
            })
            .into(),
        groups: groups(results),
    };
    chart.svg()
}

const SHOWN: [LocalContestant; 5] = [
    LocalContestant::Sluicegate,
    LocalContestant::Governor,
    LocalContestant::Throttlecrab,
    LocalContestant::Pingora,
    LocalContestant::MutexMap,
];

fn groups(results: &LocalResults) -> Vec<BarGroup> {
    let mut groups: Vec<BarGroup> = Vec::new();
    for row in results
        .rows
        .iter()
        .filter(|row| row.threads == 1 && row.answer == ExpectedAnswer::Allowed)
    {
        let cells = row
            .cells
            .iter()
            .filter(|cell| key_of(cell.contestant) == row.key);
        let bars = cells.filter_map(bar);
        match groups.iter_mut().find(|group| group.name == row.load) {
            Some(group) => group.bars.extend(bars),
            None => groups.push(BarGroup {
                name: row.load.to_string(),
                bars: bars.collect(),
            }),
        }
    }
    for group in &mut groups {
        group.bars.sort_by_key(|bar| bar.series);
    }
    groups
}

fn bar(cell: &LocalCell) -> Option<Bar> {
    let series = SHOWN
        .iter()
        .position(|contestant| *contestant == cell.contestant)?;
    Some(Bar {
        series,
        value: cell.cpu_ns(),
    })
}

fn key_of(contestant: LocalContestant) -> KeyKind {
    if contestant == LocalContestant::Throttlecrab {
        KeyKind::String
    } else {
        KeyKind::IpAddr
    }
}

fn note(contestant: LocalContestant) -> &'static str {
    match contestant {
        LocalContestant::Throttlecrab => " (text keys)",
        LocalContestant::Pingora => " (sketch)",
        _ => "",
    }
}

fn colour(contestant: LocalContestant) -> &'static str {
    match contestant {
        LocalContestant::Sluicegate => "#12a37f",
        LocalContestant::Governor => "#4f83cc",
        LocalContestant::Throttlecrab => "#d9792b",
        LocalContestant::Pingora => "#9b72c7",
        LocalContestant::MutexMap | LocalContestant::FullPath | LocalContestant::TwoLimits => {
            "#8a9099"
        }
    }
}
