//! Instructions of a server in user mode, counted by callgrind where the processor's own counter cannot be read.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::event_counts::CountableEvents;
use crate::external_command;
use crate::process_tree::ProcessTree;
use crate::programs::{missing, on_path};

/// Each process writes a file of its own, with its number behind this.
const FILES: &str = "callgrind.";

/// Whether instructions are counted by callgrind in a run, and why not.
pub enum InstructionCounter {
    Callgrind(Callgrind),
    /// The processor counts them, or nobody wants them.
    Unneeded,
    Missing(String),
}

impl InstructionCounter {
    pub fn find() -> Self {
        match Callgrind::find() {
            Ok(callgrind) => Self::Callgrind(callgrind),
            Err(why) => Self::Missing(format!("instructions: {why}")),
        }
    }

    pub const fn tool(&self) -> Option<&Callgrind> {
        match self {
            Self::Callgrind(callgrind) => Some(callgrind),
            Self::Unneeded | Self::Missing(_) => None,
        }
    }

    /// All events that cannot be counted, and why.
    pub fn uncounted(&self, events: &CountableEvents) -> Vec<String> {
        let mut uncounted = events.absent.clone();
        if let Self::Missing(why) = self {
            uncounted.push(why.clone());
        }
        uncounted
    }
}

/// Where valgrind and its control program are.
#[derive(Clone, Debug)]
pub struct Callgrind {
    valgrind: PathBuf,
    control: PathBuf,
}

impl Callgrind {
    fn find() -> Result<Self, String> {
        let find = |binary: &str| on_path(binary).ok_or_else(|| missing(binary, "valgrind"));
        Ok(Self {
            valgrind: find("valgrind")?,
            control: find("callgrind_control")?,
        })
    }

    /// The command that runs a server's program under callgrind; the program's own arguments follow.
    pub fn command(&self, program: &Path, directory: &Path) -> Command {
        let file = directory.join(format!("{FILES}%p"));
        let mut command = Command::new(&self.valgrind);
        command
            .args(["--tool=callgrind", "--quiet"])
            .arg(format!("--callgrind-out-file={}", file.display()))
            .arg(program);
        command
    }

    /// Counts the instructions of all processes of a server while `work` is done. They write into its directory.
    pub fn count<T>(
        &self,
        tree: &ProcessTree,
        directory: &Path,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<(u64, T), String> {
        let processes = tree.processes();
        let tell = |order: &str| {
            processes.iter().try_for_each(|process| {
                let mut command = Command::new(&self.control);
                command.args([order, &process.to_string()]);
                external_command::finish("callgrind_control", &mut command, ORDER_TIME).map(drop)
            })
        };
        tell("--zero")?;
        let done = work()?;
        tell("--dump")?;
        let counted = processes.iter().map(|process| {
            // The first dump after the start has number 1.
            let path = directory.join(format!("{FILES}{process}.1"));
            let text = fs::read_to_string(&path).map_err(|error| format!("callgrind: {error}"))?;
            total_of(&text).ok_or_else(|| format!("callgrind: no total for process {process}"))
        });
        Ok((counted.sum::<Result<u64, String>>()?, done))
    }
}

const ORDER_TIME: Duration = Duration::from_secs(1);

/// The last line of a dump.
fn total_of(dump: &str) -> Option<u64> {
    let total = |line: &str| line.strip_prefix("totals: ")?.trim().parse().ok();
    dump.lines().rev().find_map(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_last_line_of_a_dump() {
        let dump = "# callgrind format\nversion: 1\npid: 11939\npart: 1\n\nevents: Ir\n\
                    summary: 78429740\n\nfn=(12) recv\n0 7\n\ntotals: 78430816\n";
        assert_eq!(total_of(dump), Some(78_430_816));
        assert_eq!(total_of("version: 1\n"), None);
    }

    #[test]
    fn a_tool_that_is_missing_is_named_with_the_events_that_are() {
        let mut events = CountableEvents::default();
        events.absent.push("system calls: no perf".to_string());
        let missing = InstructionCounter::Missing("instructions: no valgrind".to_string());
        assert_eq!(
            missing.uncounted(&events),
            ["system calls: no perf", "instructions: no valgrind"]
        );
        assert!(missing.tool().is_none());
        let uncounted = InstructionCounter::Unneeded.uncounted(&events);
        assert_eq!(uncounted, ["system calls: no perf"]);
    }
}
