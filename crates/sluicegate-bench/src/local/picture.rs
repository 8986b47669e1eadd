//! The picture of `bench local`.

use super::contestants::Who;
use super::keys::KeyKind;
use super::results::{Cell, Results};
use crate::plot::{Bar, Chart, Group, Series, Unit};
use crate::rate::Answer;

/// The figures with one thread and allowed, by address; throttlecrab by text, which is all it takes.
pub fn svg(results: &Results) -> String {
    let chart = Chart {
        title: "ns per decision (processor time, one thread, allowed; logarithmic)",
        description: "Processor time per decision in ns, by load and contestant",
        unit: Unit::Nanoseconds,
        series: SHOWN
            .map(|who| Series {
                name: who.name(),
                note: note(who),
                colour: colour(who),
            })
            .into(),
        groups: groups(results),
    };
    chart.svg()
}

const SHOWN: [Who; 5] = [
    Who::Sluicegate,
    Who::Governor,
    Who::Throttlecrab,
    Who::Pingora,
    Who::MutexMap,
];

fn groups(results: &Results) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for row in results
        .rows
        .iter()
        .filter(|row| row.threads == 1 && row.answer == Answer::Allowed)
    {
        let cells = row.cells.iter().filter(|cell| key_of(cell.who) == row.key);
        let bars = cells.filter_map(bar);
        match groups.iter_mut().find(|group| group.name == row.load) {
            Some(group) => group.bars.extend(bars),
            None => groups.push(Group {
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

fn bar(cell: &Cell) -> Option<Bar> {
    let series = SHOWN.iter().position(|who| *who == cell.who)?;
    Some(Bar {
        series,
        value: cell.cpu_ns(),
    })
}

fn key_of(who: Who) -> KeyKind {
    if who == Who::Throttlecrab {
        KeyKind::String
    } else {
        KeyKind::IpAddr
    }
}

fn note(who: Who) -> &'static str {
    match who {
        Who::Throttlecrab => " (text keys)",
        Who::Pingora => " (sketch)",
        _ => "",
    }
}

fn colour(who: Who) -> &'static str {
    match who {
        Who::Sluicegate => "#12a37f",
        Who::Governor => "#4f83cc",
        Who::Throttlecrab => "#d9792b",
        Who::Pingora => "#9b72c7",
        Who::MutexMap | Who::FullPath => "#8a9099",
    }
}
