//! `sluicegate diff`: says in sentences what a change of configuration changes, and for whom.
//!
//! The exit code is that of diff(1): 0 when both files enforce the same, 1 when they differ, and 2
//! when one of them has mistakes.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use sluicegate_config::{Change, Mistakes, StoreKind};
use sluicegate_server::{LoadedConfig, needs_restart};

use crate::check;
use crate::exit_code::{DIFFERENT, FINE, WRONG};
use crate::sanitize::sanitize;

/// Arguments of `sluicegate diff`.
#[derive(Args)]
pub struct Diff {
    /// The configuration file in force, or - for standard input
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The configuration file that takes its place, or - for standard input
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: check::InputArgs,
}

impl Diff {
    /// Prints every difference, or every mistake of both files.
    pub fn run(&self) -> u8 {
        let is_stdin = |path: &PathBuf| path == Path::new("-");
        if is_stdin(&self.old) && is_stdin(&self.new) {
            eprintln!("sluicegate: standard input can be one of the two files, not both");
            return WRONG;
        }
        let read = |path: &PathBuf| check::read_once(Some(path), self.input);
        let (old, new) = match (read(&self.old), read(&self.new)) {
            (Ok(old), Ok(new)) => (old, new),
            (old, new) => {
                let mistakes: Vec<Mistakes> =
                    [old.err(), new.err()].into_iter().flatten().collect();
                self.complain(&mistakes);
                return WRONG;
            }
        };
        let changes = old.config.changes_to(&new.config);
        let restart = needs_restart(&old.config, &new.config);
        match self.json {
            true => println!("{:#}", as_json(&changes, &restart)),
            false => print(&changes, &restart, &new),
        }
        if changes.is_empty() { FINE } else { DIFFERENT }
    }

    fn complain(&self, mistakes: &[Mistakes]) {
        if self.json {
            let all = mistakes.iter().flat_map(check::mistakes_as_json);
            println!("{:#}", json!({ "mistakes": all.collect::<Vec<Value>>() }));
        } else {
            mistakes.iter().for_each(check::show);
        }
    }
}

/// `{ changes, needs_restart }`
fn as_json(changes: &[Change], restart: &[&str]) -> Value {
    let one = |change: &Change| {
        json!({
            "kind": change.kind.name(),
            "key": change.key,
            "message": change.message,
        })
    };
    json!({
        "changes": changes.iter().map(one).collect::<Vec<Value>>(),
        "needs_restart": restart,
    })
}

/// One sentence on each line, and last how the changes come into force.
fn print(changes: &[Change], restart: &[&str], new: &LoadedConfig) {
    if changes.is_empty() {
        println!("nothing changes");
        return;
    }
    changes
        .iter()
        .for_each(|change| println!("{}", sanitize(&change.message)));
    if restart.is_empty() {
        println!("a reload puts all of this in force");
        return;
    }
    let forgotten = match new.config.store.kind {
        StoreKind::Local { .. } => ", which empties the counters of this process",
        StoreKind::Redis(_) => "",
    };
    let need = if restart.len() == 1 { "needs" } else { "need" };
    println!(
        "a reload is not enough: {} {need} a restart{forgotten}",
        restart.join(", ")
    );
}
