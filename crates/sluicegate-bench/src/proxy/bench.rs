//! A run: takes the turns, reports the results, and keeps them in the page.

use std::time::Duration;

use sluicegate_testkit::TlsFiles;

use super::args::ProxyBenchOptions;
use super::backend::Backend;
use super::contestants::ProxyContestant;
use super::external::{OUTSIDE, QuotaServices};
use super::latency::{self, LATENCY, LatencyCell, LatencyRow, RATES};
use super::loads::{ClientProtocol, IDLE, IDLE_CONNECTIONS, LOADS, ProxyLoad};
use super::measure::{self, RunConditions};
use super::open_files;
use super::picture;
use super::programs::{ProxyProgram, ProxyPrograms};
use super::results::{ExternalQuotaRound, IdleCell, ProxyResults};
use super::shared_store::{self, SHARED, SharedStoreContestant};
use crate::callgrind_server::Callgrind;
use crate::event_counts::CountableEvents;
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
    let mut chosen = ChosenSections::by(options)?;
    chosen
        .loads
        .retain(|load| load.protocol != ClientProtocol::Http2 || programs.h2load.is_ok());
    let (backend, tls) = (Backend::start()?, TlsFiles::generate());
    let events = CountableEvents::probe();
    let callgrind = options.server.instruction_counter(&events);
    let turns = chosen.turns(programs) * options.server.run.rounds();
    let mut run = ProxyRun {
        rounds: options.server.run.rounds(),
        programs,
        conditions: RunConditions {
            backend: &backend,
            h2load: programs.h2load.as_deref().ok(),
            duration: Duration::from_secs(if options.server.run.is_quick { 1 } else { 2 }),
            tls: &tls,
            events: &events,
        },
        callgrind: callgrind.tool(),
        uncounted: callgrind.uncounted(&events),
        progress: Progress::new(turns),
    };
    let mut results = ProxyResults {
        absent: programs.absent.clone(),
        ..ProxyResults::default()
    };
    for load in &chosen.loads {
        results.rows.push(run.row(load)?);
    }
    if chosen.latency {
        results.latency = run.latency()?;
    }
    if chosen.idle {
        results.idle = run.idle()?;
    }
    if chosen.shared {
        results.shared_store = vec![run.shared_store()?];
    }
    if chosen.external {
        results.external = run.external()?;
    }
    results.uncounted = run.uncounted;
    run.progress.finish();
    Ok(results)
}

/// The loads and sections that `--only` leaves in.
struct ChosenSections {
    loads: Vec<ProxyLoad>,
    idle: bool,
    external: bool,
    latency: bool,
    shared: bool,
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
            latency: includes(LATENCY),
            shared: includes(SHARED),
        };
        let sections = [chosen.idle, chosen.external, chosen.latency, chosen.shared];
        if chosen.loads.is_empty() && !sections.contains(&true) {
            let advice = "--only: no load or section has this in its name (`--help` lists them)";
            return Err(advice.to_string());
        }
        Ok(chosen)
    }

    /// Turns of one round.
    fn turns(&self, programs: &ProxyPrograms) -> usize {
        let count = |takes_part: &dyn Fn(ProxyContestant) -> bool| {
            let mut contestants = programs.contestants.iter();
            contestants
                .by_ref()
                .filter(|program| takes_part(program.contestant))
                .count()
        };
        let loads = self
            .loads
            .iter()
            .map(|load| count(&|contestant| load.has(contestant)));
        loads.sum::<usize>()
            + usize::from(self.idle) * programs.contestants.len()
            + usize::from(self.external)
            + usize::from(self.latency) * RATES.len() * count(&latency::takes_part)
            + usize::from(self.shared) * shared_store::taking_part(programs).len()
    }
}

/// A run under way: what all of its turns share.
struct ProxyRun<'a> {
    rounds: usize,
    programs: &'a ProxyPrograms,
    conditions: RunConditions<'a>,
    callgrind: Option<&'a Callgrind>,
    /// Events that could not be counted, and why.
    uncounted: Vec<String>,
    progress: Progress,
}

impl<'a> ProxyRun<'a> {
    /// The programs that take part in something, and their names.
    fn taking_part(
        &self,
        takes_part: impl Fn(ProxyContestant) -> bool,
    ) -> (Vec<&'a ProxyProgram>, Vec<&'static str>) {
        let programs = self.programs.contestants.iter();
        let programs: Vec<_> = programs
            .filter(|program| takes_part(program.contestant))
            .collect();
        let names = programs.iter().map(|program| program.contestant.name());
        let names = names.collect();
        (programs, names)
    }

    /// Every contestant under one load.
    fn row(&mut self, load: &ProxyLoad) -> Result<ServerRow<ProxyContestant>, String> {
        let (contestants, names) = self.taking_part(|contestant| load.has(contestant));
        let conditions = &self.conditions;
        let cells = contestants
            .iter()
            .map(|program| ServerCell::new(program.contestant));
        let mut cells: Vec<ServerCell<ProxyContestant>> = cells.collect();
        in_turns(
            self.rounds,
            &names,
            load.name,
            &mut self.progress,
            |place| {
                let sample = measure::sample(conditions, contestants[place], load)?;
                cells[place].samples.push(sample);
                Ok(())
            },
        )?;
        for (cell, program) in cells.iter_mut().zip(contestants) {
            // Envoy takes minutes to start under valgrind.
            let is_countable = program.contestant != ProxyContestant::Envoy;
            if let Some(callgrind) = self.callgrind.filter(|_| is_countable) {
                let counted = measure::instructions(conditions, program, load, callgrind);
                let name = program.contestant.name();
                self.uncounted
                    .extend(cell.set_instructions(counted, load.name, name));
            }
        }
        Ok(ServerRow {
            name: load.name,
            cells,
        })
    }

    /// The time to an answer at fixed rates.
    fn latency(&mut self) -> Result<Vec<LatencyRow>, String> {
        let (contestants, names) = self.taking_part(latency::takes_part);
        let mut rows = Vec::new();
        for per_second in RATES {
            let cells = contestants
                .iter()
                .map(|program| LatencyCell::new(program.contestant));
            let mut cells: Vec<LatencyCell> = cells.collect();
            let conditions = &self.conditions;
            let what = format!("{per_second} requests/s");
            in_turns(self.rounds, &names, &what, &mut self.progress, |place| {
                let sample = latency::sample(conditions, contestants[place], per_second)?;
                cells[place].samples.push(sample);
                Ok(())
            })?;
            rows.push(LatencyRow { per_second, cells });
        }
        Ok(rows)
    }

    /// Those who can count in Redis.
    fn shared_store(&mut self) -> Result<ServerRow<SharedStoreContestant>, String> {
        let contestants = shared_store::taking_part(self.programs);
        let names: Vec<&str> = contestants
            .iter()
            .map(|contestant| contestant.name())
            .collect();
        let mut cells: Vec<_> = contestants
            .iter()
            .map(|one| ServerCell::new(*one))
            .collect();
        let (conditions, programs) = (&self.conditions, self.programs);
        in_turns(self.rounds, &names, SHARED, &mut self.progress, |place| {
            let sample = shared_store::sample(conditions, programs, contestants[place])?;
            cells[place].samples.push(sample);
            Ok(())
        })?;
        Ok(ServerRow {
            name: LOADS[0].name,
            cells,
        })
    }

    /// Every contestant's memory with idle connections.
    fn idle(&mut self) -> Result<Vec<IdleCell>, String> {
        let (contestants, names) = self.taking_part(|_| true);
        let conditions = &self.conditions;
        let cells = contestants
            .iter()
            .map(|program| IdleCell::new(program.contestant));
        let mut cells: Vec<IdleCell> = cells.collect();
        in_turns(self.rounds, &names, IDLE, &mut self.progress, |place| {
            let sample = measure::idle_sample(conditions, contestants[place])?;
            cells[place].samples.push(sample);
            Ok(())
        })?;
        Ok(cells)
    }

    /// Ours with quotas from a service; nothing when our program is absent.
    fn external(&mut self) -> Result<Vec<ExternalQuotaRound>, String> {
        let ours = self.programs.get(ProxyContestant::Sluicegate);
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
