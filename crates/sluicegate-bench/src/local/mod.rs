//! `bench local`: runs what the command line asks for, prints it, and keeps it in the page.

mod args;
mod callgrind;
mod contestants;
mod keys;
mod loads;
mod matching;
mod measure;
mod memory;
mod picture;
mod report;
mod results;
mod two_limits;

use std::net::IpAddr;
use std::process::ExitCode;

use self::args::{LocalBenchOptions, LocalChildTask, LocalCommand};
use self::contestants::LocalContestant;
use self::keys::KeyKind;
use self::loads::{KeyPattern, LOADS, LocalLoad, MILLION, TEN_MILLION};
use self::results::{LocalResults, LocalRow};
use self::two_limits::TWO_LIMITS;
use crate::exit_code::run_bench;
use crate::page::{self, PerformancePage};
use crate::progress::Progress;
use crate::report::Report;

/// Measures the in-process engine beside its peers; `arguments` are the words after the program's name.
pub fn local(arguments: impl Iterator<Item = String>) -> ExitCode {
    run_bench("local", arguments, |command: LocalCommand| {
        match command.child {
            None => return bench(&command.options),
            Some(LocalChildTask::Count {
                contestant,
                key,
                load,
                n,
            }) => match key {
                KeyKind::IpAddr => callgrind::run_counted::<IpAddr>(contestant, &load, n),
                KeyKind::String => callgrind::run_counted::<String>(contestant, &load, n),
                KeyKind::U64 => callgrind::run_counted::<u64>(contestant, &load, n),
            },
            Some(LocalChildTask::Memory { contestant, key, n }) => match key {
                KeyKind::IpAddr => memory::print_use::<IpAddr>(contestant, n),
                KeyKind::String => memory::print_use::<String>(contestant, n),
                KeyKind::U64 => memory::print_use::<u64>(contestant, n),
            },
        }
        Ok(())
    })
}

fn bench(options: &LocalBenchOptions) -> Result<(), String> {
    let results = measured(options)?;
    let report = Report::on_local(&results);
    print!("{}", report.to_text());
    if options.run.may_write() {
        let page = PerformancePage {
            bench: "local",
            report: &report,
            rounds: options.run.rounds(),
            note: if options.run.is_quick {
                ", a quick run: shorter rounds, nothing with 10 M keys"
            } else {
                ""
            },
            peers: &["governor", "throttlecrab", "pingora-limits"],
            caption: "Cost per decision, by load and contestant",
        };
        page::write(&page, &picture::svg(&results))?;
    }
    match report.failure() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn measured(options: &LocalBenchOptions) -> Result<LocalResults, String> {
    let loads = chosen_loads(options);
    let memory = chosen_memory(options);
    let counts = chosen_counts(options);
    let steps = |load: &LocalLoad| {
        KeyKind::ALL.len()
            * if load.pattern == KeyPattern::New {
                1
            } else {
                2
            }
    };
    let mut progress =
        Progress::new(loads.iter().map(steps).sum::<usize>() + memory.len() + counts.len() + 1);

    let mut results = LocalResults::default();
    for load in &loads {
        for key in KeyKind::ALL {
            results
                .rows
                .extend(rows(load, key, options.run.rounds(), &mut progress));
        }
    }
    for (contestant, key, keys) in memory {
        progress.step(&format!(
            "bytes per key, {}, {} keys",
            contestant.name(),
            key.name()
        ));
        results
            .memory
            .extend(memory::measured(contestant, key, keys)?);
    }
    if !counts.is_empty() {
        results.not_counted = callgrind::available().err();
    }
    for (contestant, key, load) in counts {
        progress.step(&format!(
            "instructions, {}, {}",
            contestant.name(),
            load.name
        ));
        if results.not_counted.is_none() {
            results
                .instructions
                .push(callgrind::counted(contestant, key, &load)?);
        }
    }
    if options.run.includes(TWO_LIMITS) {
        progress.step(TWO_LIMITS);
        let load = LocalLoad::by_id("hot").ok_or("no load has a hot key")?;
        let with_callgrind = !options.no_callgrind && callgrind::available().is_ok();
        results.two_limits = Some(two_limits::measured(&load, with_callgrind)?);
    }
    if options.run.includes("matching") {
        results.matching = matching::measured(options.run.rounds());
    }
    progress.finish();
    Ok(results)
}

fn rows(load: &LocalLoad, key: KeyKind, rounds: usize, progress: &mut Progress) -> Vec<LocalRow> {
    let on_row = |label: &str| progress.step(label);
    match key {
        KeyKind::IpAddr => measure::rows::<IpAddr>(load, rounds, on_row),
        KeyKind::String => measure::rows::<String>(load, rounds, on_row),
        KeyKind::U64 => measure::rows::<u64>(load, rounds, on_row),
    }
}

/// How much shorter the rounds of a quick run are.
const QUICK_FACTOR: usize = 5;

fn chosen_loads(options: &LocalBenchOptions) -> Vec<LocalLoad> {
    let chosen = LOADS
        .into_iter()
        .filter(|load| options.run.includes(load.name));
    if options.run.is_quick {
        return chosen
            .filter(|load| load.keys < TEN_MILLION)
            .map(|load| load.shortened(QUICK_FACTOR))
            .collect();
    }
    chosen.collect()
}

fn chosen_memory(options: &LocalBenchOptions) -> Vec<(LocalContestant, KeyKind, u32)> {
    if !options.run.includes("bytes per key") {
        return Vec::new();
    }
    let sizes: &[u32] = if options.run.is_quick {
        &[MILLION]
    } else {
        &[MILLION, TEN_MILLION]
    };
    let of_size = |keys: &u32| {
        contestants_by_key()
            .map(|(contestant, key)| (contestant, key, *keys))
            .collect::<Vec<_>>()
    };
    sizes.iter().flat_map(of_size).collect()
}

/// Everybody with every key, except where the key makes no difference or is not taken.
fn contestants_by_key() -> impl Iterator<Item = (LocalContestant, KeyKind)> {
    let pairs = KeyKind::ALL
        .into_iter()
        .flat_map(|key| LocalContestant::ALL.map(|contestant| (contestant, key)));
    pairs.filter(|(contestant, key)| match contestant {
        LocalContestant::Sluicegate | LocalContestant::Governor | LocalContestant::MutexMap => true,
        LocalContestant::Throttlecrab => *key == KeyKind::String,
        LocalContestant::Pingora | LocalContestant::FullPath | LocalContestant::TwoLimits => {
            *key == KeyKind::IpAddr
        }
    })
}

fn chosen_counts(options: &LocalBenchOptions) -> Vec<(LocalContestant, KeyKind, LocalLoad)> {
    if options.no_callgrind || !options.run.includes("instructions") {
        return Vec::new();
    }
    let loads: Vec<LocalLoad> = ["hot", "10k"]
        .into_iter()
        .filter_map(LocalLoad::by_id)
        .collect();
    let pairs = contestants_by_key().filter(|(_, key)| *key != KeyKind::U64);
    pairs
        .flat_map(|(contestant, key)| {
            loads
                .iter()
                .map(move |load| (contestant, key, *load))
                .collect::<Vec<_>>()
        })
        .collect()
}
