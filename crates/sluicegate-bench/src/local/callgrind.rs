//! Instructions per decision: a number that does not depend on what else the machine does.

use std::hint::black_box;

use super::contestants::{BenchLimiter, LocalContestant};
use super::keys::{Key, KeyKind};
use super::loads::LocalLoad;
use super::measure::fill;
use super::results::InstructionCount;
use crate::child;
use crate::rate::ExpectedAnswer;

/// Counts one contestant under one load. Two runs of different length, so that everything but the decisions cancels.
pub fn counted(
    contestant: LocalContestant,
    key: KeyKind,
    load: &LocalLoad,
) -> Result<InstructionCount, String> {
    let few = collected(contestant, key, load, FEW)?;
    let many = collected(contestant, key, load, MANY)?;
    let per_decision = (many - few) / (MANY - FEW) as f64;
    Ok(InstructionCount {
        contestant,
        key,
        load: load.name,
        per_decision,
    })
}

/// Succeeds when callgrind can be run; the error says why it cannot.
pub fn available() -> Result<(), String> {
    match std::process::Command::new("valgrind")
        .arg("--version")
        .output()
    {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err("valgrind is not installed".to_string()),
    }
}

const FEW: usize = 10_000;
const MANY: usize = 110_000;
const TOOL: [&str; 4] = [
    "valgrind",
    "--tool=callgrind",
    "--callgrind-out-file=/dev/null",
    "--toggle-collect=*counted_section*",
];

fn collected(
    contestant: LocalContestant,
    key: KeyKind,
    load: &LocalLoad,
    decisions: usize,
) -> Result<f64, String> {
    let decisions = decisions.to_string();
    let arguments = [
        "count",
        "--contestant",
        contestant.id(),
        "--key",
        key.name(),
        "--load",
        load.id,
        "--n",
        decisions.as_str(),
    ];
    let errors = child::errors_under(&TOOL, &arguments)?;
    parse_collected(&errors)
        .ok_or_else(|| format!("callgrind of {}: no count in: {errors}", contestant.name()))
}

/// The number after `Collected :`, which callgrind prints last.
fn parse_collected(errors: &str) -> Option<f64> {
    let line = errors.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// The child's side: fills the contestant, then decides as often as it was told, where callgrind looks.
pub fn run_counted<K: Key>(contestant: LocalContestant, load: &LocalLoad, decisions: usize) {
    let load = LocalLoad { decisions, ..*load };
    let Some(limiter) =
        contestant.build::<K>(load.rate(ExpectedAnswer::Allowed), load.keys as usize)
    else {
        return;
    };
    fill(&*limiter, &load, ExpectedAnswer::Allowed);
    let stream = load.stream::<K>();
    // One whole walk and the rest: the number of decisions need not be a multiple of the stretch.
    let chunk = stream.chunk(0);
    counted_section(&*limiter, chunk, decisions / chunk.len());
    counted_section(&*limiter, &chunk[..decisions % chunk.len()], 1);
}

#[inline(never)]
fn counted_section<K>(limiter: &dyn BenchLimiter<K>, stream: &[K], passes: usize) {
    black_box(limiter.walk(stream, passes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_the_last_lines() {
        let errors = "==12== \n==12== Events    : Ir\n==12== Collected : 4815162\n==12== \n==12== I   refs:      4,815,162\n";
        assert_eq!(parse_collected(errors), Some(4_815_162.0));
        assert_eq!(parse_collected("==12== killed"), None);
    }
}
