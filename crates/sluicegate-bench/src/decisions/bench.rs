//! A run: which turns are taken, in which order, and what becomes of them.

use std::time::Duration;

use super::args::DecisionsBenchOptions;
use super::contestants::Who;
use super::loads::{LOADS, Load};
use super::measure;
use super::picture;
use super::programs::{Program, Programs};
use crate::page::{self, Page};
use crate::progress::Progress;
use crate::report::Report;
use crate::samples::{Cell, Contestant, Row};
use crate::turns::in_turns;

/// Everything one run found out.
#[derive(Default)]
pub struct Results {
    pub rows: Vec<Row<Who>>,
    /// What could not be measured, and why.
    pub absent: Vec<String>,
}

pub fn run(options: &DecisionsBenchOptions) -> Result<(), String> {
    let programs = Programs::find(options)?;
    for absent in &programs.absent {
        eprintln!("left out: {absent}");
    }
    let results = measured(options, &programs)?;
    let report = Report::on_decisions(&results);
    print!("{}", report.to_text());
    if options.server.may_write() && results.absent.is_empty() {
        let page = Page {
            bench: "decisions",
            report: &report,
            rounds: options.server.run.rounds(),
            note: &format!(". {}", programs.versions()),
            peers: &[],
            caption: "Processor time of the server per decision, by protocol and contestant",
        };
        page::write(&page, &picture::svg(&results))?;
    }
    match report.failure() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn measured(options: &DecisionsBenchOptions, programs: &Programs) -> Result<Results, String> {
    let loads: Vec<Load> = LOADS
        .into_iter()
        .filter(|load| options.server.run.includes(load.name))
        .collect();
    if loads.is_empty() {
        return Err("--only: no load has this in its name (`--help` lists them)".to_string());
    }
    let duration = Duration::from_secs(if options.server.run.is_quick { 1 } else { 2 });
    let turns: usize = loads
        .iter()
        .map(|load| taking_part(programs, load).len())
        .sum();
    let mut progress = Progress::new(turns * options.server.run.rounds());
    let mut results = Results {
        absent: programs.absent.clone(),
        ..Results::default()
    };
    for load in loads {
        let contestants = taking_part(programs, &load);
        let names: Vec<&str> = contestants
            .iter()
            .map(|program| program.who.name())
            .collect();
        let mut cells: Vec<Cell<Who>> = contestants
            .iter()
            .map(|program| Cell::new(program.who))
            .collect();
        in_turns(
            options.server.run.rounds(),
            &names,
            load.name,
            &mut progress,
            |place| {
                cells[place].samples.push(measure::sample(
                    &programs.clients,
                    contestants[place],
                    &load,
                    duration,
                )?);
                Ok(())
            },
        )?;
        results.rows.push(Row {
            name: load.name,
            cells,
        });
    }
    progress.finish();
    Ok(results)
}

fn taking_part<'a>(programs: &'a Programs, load: &Load) -> Vec<&'a Program> {
    programs
        .contestants
        .iter()
        .filter(|program| program.who.speaks(load.protocol))
        .collect()
}
