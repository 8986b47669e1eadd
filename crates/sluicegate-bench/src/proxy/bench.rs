//! A run: takes the turns, reports the results, and keeps them in the page.

use std::time::Duration;

use super::args::ProxyBenchOptions;
use super::backend::Backend;
use super::contestants::ProxyContestant;
use super::external::{OUTSIDE, QuotaServices};
use super::loads::{ClientProtocol, IDLE, IDLE_CONNECTIONS, LOADS, ProxyLoad};
use super::measure::{self, RunConditions};
use super::open_files;
use super::picture;
use super::programs::ProxyPrograms;
use super::results::{ExternalQuotaRound, IdleCell, ProxyResults};
use crate::page::{self, PerformancePage};
use crate::progress::Progress;
use crate::report::Report;
use crate::samples::{ServerCell, ServerContestant, ServerRow};
use crate::turns::in_turns;

pub fn run(options: &ProxyBenchOptions) -> Result<(), String> {
    open_files::make_room_for(OPEN_FILES)?;
    let programs = ProxyPrograms::find(options);
    for absent in &programs.absent {
        eprintln!("left out: {absent}");
    }
    let results = measured(options, &programs)?;
    let report = Report::on_proxy(&results);
    print!("{}", report.to_text());
    if may_write(options, &results) {
        let page = PerformancePage {
            bench: "proxy",
            report: &report,
            rounds: options.server.run.rounds(),
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

/// False when a contestant is missing: an incomplete table never replaces a complete one.
fn may_write(options: &ProxyBenchOptions, results: &ProxyResults) -> bool {
    options.server.may_write() && results.absent.is_empty()
}

/// The client's side of the idle connections, the backend's side of those that a contestant opens meanwhile, and
/// some to spare.
const OPEN_FILES: u64 = IDLE_CONNECTIONS as u64 + 3_000;

fn measured(options: &ProxyBenchOptions, programs: &ProxyPrograms) -> Result<ProxyResults, String> {
    let chosen = ChosenSections::by(options)?;
    let has_client =
        |load: &ProxyLoad| load.protocol == ClientProtocol::Http1 || programs.h2load.is_ok();
    let loads: Vec<ProxyLoad> = chosen.loads.into_iter().filter(has_client).collect();
    let turns = loads.len() + usize::from(chosen.idle);
    let turns = turns * programs.contestants.len() + usize::from(chosen.external);
    let backend = Backend::start()?;
    let mut run = ProxyRun {
        rounds: options.server.run.rounds(),
        programs,
        names: programs
            .contestants
            .iter()
            .map(|program| program.contestant.name())
            .collect(),
        conditions: RunConditions {
            backend: &backend,
            h2load: programs.h2load.as_deref().ok(),
            duration: Duration::from_secs(if options.server.run.is_quick { 1 } else { 2 }),
        },
        progress: Progress::new(turns * options.server.run.rounds()),
    };
    let mut results = ProxyResults {
        absent: programs.absent.clone(),
        ..ProxyResults::default()
    };
    for load in &loads {
        results.rows.push(run.row(load)?);
    }
    if chosen.idle {
        results.idle = run.idle()?;
    }
    if chosen.external {
        results.external = run.external()?;
    }
    run.progress.finish();
    Ok(results)
}

/// The loads and sections that `--only` leaves in.
struct ChosenSections {
    loads: Vec<ProxyLoad>,
    idle: bool,
    external: bool,
}

impl ChosenSections {
    fn by(options: &ProxyBenchOptions) -> Result<Self, String> {
        let includes = |name: &str| options.server.run.includes(name);
        let chosen = Self {
            loads: LOADS
                .into_iter()
                .filter(|load| includes(load.name))
                .collect(),
            idle: includes(IDLE),
            external: includes(OUTSIDE),
        };
        if chosen.loads.is_empty() && !chosen.idle && !chosen.external {
            let advice = "--only: no load or section has this in its name (`--help` lists them)";
            return Err(advice.to_string());
        }
        Ok(chosen)
    }
}

/// A run under way: what all of its turns share.
struct ProxyRun<'a> {
    rounds: usize,
    programs: &'a ProxyPrograms,
    /// The names of the contestants, in the same order as their programs.
    names: Vec<&'a str>,
    conditions: RunConditions<'a>,
    progress: Progress,
}

impl ProxyRun<'_> {
    /// Every contestant under one load.
    fn row(&mut self, load: &ProxyLoad) -> Result<ServerRow<ProxyContestant>, String> {
        let (conditions, contestants) = (&self.conditions, &self.programs.contestants);
        let cells = contestants
            .iter()
            .map(|program| ServerCell::new(program.contestant));
        let mut cells: Vec<ServerCell<ProxyContestant>> = cells.collect();
        in_turns(
            self.rounds,
            &self.names,
            load.name,
            &mut self.progress,
            |place| {
                let sample = measure::sample(conditions, &contestants[place], load)?;
                cells[place].samples.push(sample);
                Ok(())
            },
        )?;
        Ok(ServerRow {
            name: load.name,
            cells,
        })
    }

    /// Every contestant's memory with idle connections.
    fn idle(&mut self) -> Result<Vec<IdleCell>, String> {
        let (conditions, contestants) = (&self.conditions, &self.programs.contestants);
        let cells = contestants
            .iter()
            .map(|program| IdleCell::new(program.contestant));
        let mut cells: Vec<IdleCell> = cells.collect();
        in_turns(
            self.rounds,
            &self.names,
            IDLE,
            &mut self.progress,
            |place| {
                let sample = measure::idle_sample(conditions, &contestants[place])?;
                cells[place].samples.push(sample);
                Ok(())
            },
        )?;
        Ok(cells)
    }

    /// Ours with quotas from a service; nothing when our program is absent.
    fn external(&mut self) -> Result<Vec<ExternalQuotaRound>, String> {
        let contestants = &self.programs.contestants;
        let ours = contestants
            .iter()
            .find(|program| program.contestant == ProxyContestant::Sluicegate);
        let mut rounds = Vec::new();
        let Some(ours) = ours else {
            return Ok(rounds);
        };
        let services = QuotaServices::start()?;
        let conditions = &self.conditions;
        in_turns(
            self.rounds,
            &["sluicegate"],
            OUTSIDE,
            &mut self.progress,
            |_| {
                rounds.push(services.round(conditions, ours, rounds.len())?);
                Ok(())
            },
        )?;
        Ok(rounds)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn a_run_without_everybody_leaves_the_page_alone() {
        let options = ProxyBenchOptions::try_parse_from([""; 0]).unwrap();
        assert!(may_write(&options, &ProxyResults::default()));
        let absent = vec!["Envoy: not found".to_string()];
        assert!(!may_write(
            &options,
            &ProxyResults {
                absent,
                ..ProxyResults::default()
            }
        ));
    }
}
