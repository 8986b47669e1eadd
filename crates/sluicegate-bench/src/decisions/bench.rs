//! A run: takes the turns, reports the results, and keeps them in the page.

use std::time::Duration;

use super::args::DecisionsBenchOptions;
use super::contestants::DecisionsContestant;
use super::loads::{DecisionsLoad, LOADS};
use super::measure::{self, TurnConditions};
use super::picture;
use super::programs::{DecisionsProgram, DecisionsPrograms};
use crate::event_counts::CountableEvents;
use crate::page::{self, PerformancePage};
use crate::progress::Progress;
use crate::report::Report;
use crate::samples::{ServerCell, ServerContestant, ServerRow};
use crate::turns::in_turns;

/// The results of one run.
#[derive(Default)]
pub struct DecisionsResults {
    pub rows: Vec<ServerRow<DecisionsContestant>>,
    /// Contestants and loads that could not be measured, and why.
    pub absent: Vec<String>,
    /// Events that could not be counted, and why.
    pub uncounted: Vec<String>,
}

pub fn run(options: &DecisionsBenchOptions) -> Result<(), String> {
    let programs = DecisionsPrograms::find(options)?;
    for absent in &programs.absent {
        eprintln!("left out: {absent}");
    }
    let results = measured(options, &programs)?;
    let report = Report::on_decisions(&results);
    print!("{}", report.to_text());
    if options.server.may_write() && results.absent.is_empty() {
        let page = PerformancePage {
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

fn measured(
    options: &DecisionsBenchOptions,
    programs: &DecisionsPrograms,
) -> Result<DecisionsResults, String> {
    let loads: Vec<DecisionsLoad> = LOADS
        .into_iter()
        .filter(|load| options.server.run.includes(load.name))
        .collect();
    if loads.is_empty() {
        return Err("--only: no load has this in its name (`--help` lists them)".to_string());
    }
    let events = CountableEvents::probe();
    let callgrind = options.server.instruction_counter(&events);
    let conditions = TurnConditions {
        clients: &programs.clients,
        duration: Duration::from_secs(if options.server.run.is_quick { 1 } else { 2 }),
        events: &events,
    };
    let turns: usize = loads
        .iter()
        .map(|load| taking_part(programs, load).len())
        .sum();
    let rounds = options.server.run.rounds();
    let mut progress = Progress::new(turns * rounds);
    let mut results = DecisionsResults {
        absent: programs.absent.clone(),
        uncounted: callgrind.uncounted(&events),
        ..DecisionsResults::default()
    };
    for load in &loads {
        let mut row = measured_row(&conditions, programs, load, rounds, &mut progress)?;
        if let Some(callgrind) = callgrind.tool() {
            let cells = row.cells.iter_mut().zip(taking_part(programs, load));
            // Redis is so slow under callgrind that its client gives up.
            for (cell, program) in
                cells.filter(|(cell, _)| cell.contestant != DecisionsContestant::Redis)
            {
                let counted = measure::instructions(&conditions, program, load, callgrind);
                let name = program.contestant.name();
                let failed = cell.set_instructions(counted, load.name, name);
                results.uncounted.extend(failed);
            }
        }
        results.rows.push(row);
    }
    progress.finish();
    Ok(results)
}

/// Every contestant under one load.
fn measured_row(
    conditions: &TurnConditions<'_>,
    programs: &DecisionsPrograms,
    load: &DecisionsLoad,
    rounds: usize,
    progress: &mut Progress,
) -> Result<ServerRow<DecisionsContestant>, String> {
    let contestants = taking_part(programs, load);
    let names: Vec<&str> = contestants
        .iter()
        .map(|program| program.contestant.name())
        .collect();
    let mut cells: Vec<ServerCell<DecisionsContestant>> = contestants
        .iter()
        .map(|program| ServerCell::new(program.contestant))
        .collect();
    in_turns(rounds, &names, load.name, progress, |place| {
        let sample = measure::sample(conditions, contestants[place], load)?;
        cells[place].samples.push(sample);
        Ok(())
    })?;
    Ok(ServerRow {
        name: load.name,
        cells,
    })
}

fn taking_part<'a>(
    programs: &'a DecisionsPrograms,
    load: &DecisionsLoad,
) -> Vec<&'a DecisionsProgram> {
    programs
        .contestants
        .iter()
        .filter(|program| program.contestant.speaks(load.protocol))
        .collect()
}
