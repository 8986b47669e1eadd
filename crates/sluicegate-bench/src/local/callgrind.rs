//! Instructions per decision: a number that does not depend on what else the machine does.

use std::hint::black_box;

use super::contestants::{Contestant, Who};
use super::keys::{Key, KeyKind};
use super::loads::Load;
use super::measure::fill;
use super::results::Instructions;
use crate::child;
use crate::rate::Answer;

/// Counts one contestant under one load. Two runs of different length, so that everything but the decisions cancels.
pub fn counted(who: Who, key: KeyKind, load: &Load) -> Result<Instructions, String> {
    let few = collected(who, key, load, FEW)?;
    let many = collected(who, key, load, MANY)?;
    let per_decision = (many - few) / (MANY - FEW) as f64;
    Ok(Instructions {
        who,
        key,
        load: load.name,
        per_decision,
    })
}

/// Whether callgrind can be run, or what to say instead.
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

fn collected(who: Who, key: KeyKind, load: &Load, decisions: usize) -> Result<f64, String> {
    let decisions = decisions.to_string();
    let arguments = [
        "count",
        "--contestant",
        who.id(),
        "--key",
        key.name(),
        "--load",
        load.id,
        "--n",
        decisions.as_str(),
    ];
    let errors = child::errors_under(&TOOL, &arguments)?;
    parse_collected(&errors)
        .ok_or_else(|| format!("callgrind of {}: no count in: {errors}", who.name()))
}

/// The number after `Collected :`, which callgrind prints last.
fn parse_collected(errors: &str) -> Option<f64> {
    let line = errors.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// The child's side: fills the contestant, then decides as often as it was told, where callgrind looks.
pub fn run_counted<K: Key>(who: Who, load: &Load, decisions: usize) {
    let load = Load { decisions, ..*load };
    let Some(contestant) = who.build::<K>(load.rate(Answer::Allowed), load.keys as usize) else {
        return;
    };
    fill(&*contestant, &load, Answer::Allowed);
    let stream = load.stream::<K>();
    // One whole walk and the rest: the number of decisions need not be a multiple of the stretch.
    let chunk = stream.chunk(0);
    counted_section(&*contestant, chunk, decisions / chunk.len());
    counted_section(&*contestant, &chunk[..decisions % chunk.len()], 1);
}

#[inline(never)]
fn counted_section<K>(contestant: &dyn Contestant<K>, stream: &[K], passes: usize) {
    black_box(contestant.walk(stream, passes));
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
