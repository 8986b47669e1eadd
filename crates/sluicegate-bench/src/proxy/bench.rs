//! A run: which turns are taken, in which order, and what becomes of them.

use std::time::Duration;

use super::backend::Backend;
use super::contestants::Who;
use super::loads::{IDLE, IDLE_CONNECTIONS, LOADS, Load, Protocol};
use super::measure::{self, Course};
use super::open_files;
use super::outside::{OUTSIDE, Services};
use super::picture;
use super::programs::Programs;
use super::results::{IdleCell, Results};
use crate::page::{self, Page};
use crate::progress::Progress;
use crate::report::Report;
use crate::samples::{Cell, Contestant, Row};
use crate::server_args::Options;
use crate::turns::in_turns;

pub fn run(options: &Options) -> Result<(), String> {
    open_files::make_room_for(OPEN_FILES)?;
    let programs = Programs::find(options);
    for absent in &programs.absent {
        eprintln!("left out: {absent}");
    }
    let results = measured(options, &programs)?;
    let report = Report::on_proxy(&results);
    print!("{}", report.to_text());
    if may_write(options, &results) {
        let page = Page {
            bench: "proxy",
            report: &report,
            rounds: options.rounds,
            note: &format!(". {}", programs.versions()),
            peers: &[],
            caption: "Processor time of the proxy per request, by load and contestant",
        };
        page::write(&page, &picture::svg(&results))?;
    }
    match report.failure() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// Figures that somebody is missing from never replace whole ones.
fn may_write(options: &Options, results: &Results) -> bool {
    options.writes_page && results.absent.is_empty()
}

/// The client's side of the idle connections, the backend's side of those that a contestant opens meanwhile, and
/// whatever else is open.
const OPEN_FILES: u64 = IDLE_CONNECTIONS as u64 + 3_000;

fn measured(options: &Options, programs: &Programs) -> Result<Results, String> {
    let has_client = |load: &Load| load.protocol == Protocol::Http1 || programs.h2load.is_ok();
    let chosen: Vec<Load> = LOADS
        .into_iter()
        .filter(|load| options.includes(load.name))
        .collect();
    let (measures_idle, measures_outside) = (options.includes(IDLE), options.includes(OUTSIDE));
    if chosen.is_empty() && !measures_idle && !measures_outside {
        return Err(
            "--only: no load or section has this in its name (`--help` lists them)".to_string(),
        );
    }
    let loads: Vec<Load> = chosen.into_iter().filter(has_client).collect();
    let backend = Backend::start()?;
    let course = Course {
        backend: &backend,
        h2load: programs.h2load.as_deref().ok(),
        duration: Duration::from_secs(if options.is_quick { 1 } else { 2 }),
    };
    let turns = loads.len() + usize::from(measures_idle);
    let turns = turns * programs.contestants.len() + usize::from(measures_outside);
    let mut progress = Progress::new(turns * options.rounds);
    let names: Vec<&str> = programs
        .contestants
        .iter()
        .map(|program| program.who.name())
        .collect();
    let mut results = Results {
        absent: programs.absent.clone(),
        ..Results::default()
    };
    for load in loads {
        let mut cells: Vec<Cell<Who>> = programs
            .contestants
            .iter()
            .map(|program| Cell::new(program.who))
            .collect();
        in_turns(options.rounds, &names, load.name, &mut progress, |place| {
            cells[place].samples.push(measure::sample(
                &course,
                &programs.contestants[place],
                &load,
            )?);
            Ok(())
        })?;
        results.rows.push(Row {
            name: load.name,
            cells,
        });
    }
    if measures_idle {
        results.idle = programs
            .contestants
            .iter()
            .map(|program| IdleCell::new(program.who))
            .collect();
        in_turns(options.rounds, &names, IDLE, &mut progress, |place| {
            results.idle[place]
                .samples
                .push(measure::idle_sample(&course, &programs.contestants[place])?);
            Ok(())
        })?;
    }
    if measures_outside
        && let Some(ours) = programs
            .contestants
            .iter()
            .find(|program| program.who == Who::Sluicegate)
    {
        let services = Services::start()?;
        in_turns(
            options.rounds,
            &["sluicegate"],
            OUTSIDE,
            &mut progress,
            |_| {
                let number = results.outside.len();
                results.outside.push(services.round(&course, ours, number)?);
                Ok(())
            },
        )?;
    }
    progress.finish();
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::super::args::SPEC;
    use super::*;
    use crate::server_args::{Task, parse};

    #[test]
    fn a_run_without_everybody_leaves_the_page_alone() {
        let Ok(Task::Bench(options)) = parse(SPEC, std::iter::empty()) else {
            panic!("no words are fine")
        };
        assert!(may_write(&options, &Results::default()));
        let absent = vec!["Envoy: not found".to_string()];
        assert!(!may_write(
            &options,
            &Results {
                absent,
                ..Results::default()
            }
        ));
    }
}
