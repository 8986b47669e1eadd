//! A run: takes the turns, reports the results, and keeps them in the page.

use super::args::RedisBenchOptions;
use super::contestants::RedisContestant;
use super::loads::{CALLERS, RedisLoad};
use super::measure;
use super::picture;
use super::results::{RedisCell, RedisResults, RedisRow, row_title};
use super::turn::TurnLength;
use crate::page::{self, PerformancePage};
use crate::progress::Progress;
use crate::report::Report;

pub fn run(options: &RedisBenchOptions) -> Result<(), String> {
    let version = measure::redis_version()?;
    let results = measured(options)?;
    let report = Report::on_redis(&results);
    print!("{}", report.to_text());
    if options.may_write() {
        let page = PerformancePage {
            bench: "redis",
            report: &report,
            rounds: options.run.rounds(),
            note: &format!(". {version}"),
            peers: &["redis"],
            caption: "Processor time per decision of client and Redis, by load and contestant",
        };
        page::write(&page, &picture::svg(&results))?;
    }
    match report.failure() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn measured(options: &RedisBenchOptions) -> Result<RedisResults, String> {
    let loads = RedisLoad::ALL
        .into_iter()
        .flat_map(|load| CALLERS.map(|callers| (load, callers)));
    let loads: Vec<_> = loads
        .filter(|(load, callers)| options.run.includes(&row_title(*load, *callers)))
        .collect();
    let filled: &[RedisContestant] = if options.run.includes("bytes per key") {
        &RedisContestant::ALL
    } else {
        &[]
    };
    if loads.is_empty() && filled.is_empty() {
        return Err(
            "--only: no load or section has this in its name (`--help` lists them)".to_string(),
        );
    }
    let mut progress = Progress::new(
        loads.len() * options.run.rounds() * RedisContestant::TIMED.len() + filled.len(),
    );
    let mut results = RedisResults::default();
    for (load, callers) in loads {
        results
            .rows
            .push(row(load, callers, options, &mut progress)?);
    }
    for contestant in filled {
        progress.step(&format!("bytes per key, {}", contestant.name()));
        results.memory.push(measure::memory_use(*contestant)?);
    }
    progress.finish();
    Ok(results)
}

/// The contestants take turns, in another order each round.
fn row(
    load: RedisLoad,
    callers: usize,
    options: &RedisBenchOptions,
    progress: &mut Progress,
) -> Result<RedisRow, String> {
    let mut cells = RedisContestant::TIMED.map(RedisCell::new);
    let length = TurnLength::Time(load.duration(options.run.is_quick));
    let threads = options.threads();
    for round in 0..options.run.rounds() {
        for place in 0..cells.len() {
            let cell = &mut cells[(place + round) % RedisContestant::TIMED.len()];
            progress.step(&format!(
                "{}, round {}, {}",
                row_title(load, callers),
                round + 1,
                cell.contestant.name()
            ));
            cell.samples.push(measure::sample(&measure::turn(
                cell.contestant,
                load,
                callers,
                length,
                threads,
            ))?);
        }
    }
    Ok(RedisRow {
        load,
        callers,
        cells: cells.into(),
    })
}
