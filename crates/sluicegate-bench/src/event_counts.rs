//! System calls and instructions of a server, counted by the kernel while it works.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use sluicegate_testkit::watchdog;

use crate::process_tree::ProcessTree;
use crate::programs::{missing, on_path};

/// The events that this machine lets us count. Hardware counters are often missing in virtual
/// machines, and the tracepoint of system calls needs a permission.
#[derive(Clone, Debug, Default)]
pub struct CountableEvents {
    perf: PathBuf,
    names: Vec<&'static str>,
    /// The figures that cannot be had, and why.
    pub absent: Vec<String>,
}

/// Counts of one stretch of work; `None` where the machine does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EventCounts {
    pub system_calls: Option<u64>,
    /// In user mode.
    pub instructions: Option<u64>,
}

const SYSTEM_CALLS: &str = "raw_syscalls:sys_enter";
const INSTRUCTIONS: &str = "instructions:u";

impl CountableEvents {
    /// Tries each event on a short command.
    pub fn probe() -> Self {
        let Some(perf) = on_path("perf") else {
            return Self {
                absent: vec![format!("system calls: {}", missing("perf", "linux-perf"))],
                ..Self::default()
            };
        };
        let works = |event: &&'static str| {
            let command = Command::new(&perf)
                .args(["stat", "-x,", "-e", event, "true"])
                .output();
            command.is_ok_and(|output| {
                output.status.success()
                    && count_of(event, &String::from_utf8_lossy(&output.stderr)).is_some()
            })
        };
        let names: Vec<&str> = [SYSTEM_CALLS, INSTRUCTIONS]
            .into_iter()
            .filter(works)
            .collect();
        let refused = format!(
            "system calls: perf may not count {SYSTEM_CALLS} here (run as root, or lower \
             kernel.perf_event_paranoid to -1)"
        );
        let absent = (!names.contains(&SYSTEM_CALLS)).then_some(refused);
        Self {
            perf,
            names,
            absent: absent.into_iter().collect(),
        }
    }

    /// True when the processor's counter of instructions can be read.
    pub fn has_instructions(&self) -> bool {
        self.names.contains(&INSTRUCTIONS)
    }

    /// Counts the events of a server while `work` is done.
    pub fn count<T>(
        &self,
        tree: &ProcessTree,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<(EventCounts, T), String> {
        if self.names.is_empty() {
            return Ok((EventCounts::default(), work()?));
        }
        let directory = watchdog::temporary_directory("perf-");
        let file = directory.path().join("counts");
        let counting = Counting::start(&self.perf, &self.names, tree, &file)?;
        let done = work()?;
        counting.stop()?;
        let text = fs::read_to_string(&file).map_err(|error| format!("perf: {error}"))?;
        let count = |event| {
            let counted = count_of(event, &text);
            match self.names.contains(&event) {
                true => counted
                    .map(Some)
                    .ok_or(format!("perf: no {event} in: {text}")),
                false => Ok(None),
            }
        };
        let counts = EventCounts {
            system_calls: count(SYSTEM_CALLS)?,
            instructions: count(INSTRUCTIONS)?,
        };
        Ok((counts, done))
    }
}

/// A perf that counts until its own child, a shell, reads a line.
struct Counting {
    perf: Child,
    stdin: ChildStdin,
}

impl Counting {
    /// Returns when the events are counted: perf starts the shell only then.
    fn start(
        perf: &Path,
        events: &[&str],
        tree: &ProcessTree,
        file: &Path,
    ) -> Result<Self, String> {
        let processes: Vec<String> = tree.processes().iter().map(u32::to_string).collect();
        let mut command = Command::new(perf);
        command
            .args(["stat", "-x,", "-e", &events.join(","), "-o"])
            .arg(file)
            .args(["-p", &processes.join(",")])
            .args(["--", "sh", "-c", "echo; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut perf = command.spawn().map_err(|error| format!("perf: {error}"))?;
        watchdog::watch(perf.id());
        let pipes = perf.stdin.take().zip(perf.stdout.take());
        let (stdin, stdout) = pipes.ok_or("perf: a child without pipes")?;
        let counting = Self { perf, stdin };
        wait_for_line(stdout)?;
        Ok(counting)
    }

    fn stop(mut self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("perf: {error}");
        self.stdin.write_all(b"\n").map_err(failed)?;
        let status = self.perf.wait().map_err(failed)?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("perf: {status}")),
        }
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        watchdog::forget(self.perf.id());
        let _already_ended = self.perf.kill();
        let _nothing_to_learn = self.perf.wait();
    }
}

fn wait_for_line(stdout: ChildStdout) -> Result<(), String> {
    let mut line = String::new();
    match BufReader::new(stdout).read_line(&mut line) {
        Ok(read) if read > 0 => Ok(()),
        _ => Err("perf: it ended before it counted".to_string()),
    }
}

/// The first field of the event's line; `None` when perf says `<not supported>` or `<not counted>`.
fn count_of(event: &str, printed: &str) -> Option<u64> {
    let of_event = |line: &&str| line.split(',').nth(2) == Some(event);
    let line = printed.lines().find(of_event)?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed by perf 6.1 in a virtual machine without hardware counters.
    const PRINTED: &str = "# started on Wed Nov 18 13:35:44 2026\n\n\
                           31892,,raw_syscalls:sys_enter,1363428812,100.00,,\n\
                           <not supported>,,instructions:u,0,100.00,,\n";

    #[test]
    fn what_perf_prints_is_understood() {
        assert_eq!(count_of("raw_syscalls:sys_enter", PRINTED), Some(31_892));
        assert_eq!(count_of("instructions:u", PRINTED), None);
        assert_eq!(count_of("cycles", PRINTED), None);
    }

    #[test]
    fn without_events_the_work_is_done_and_nothing_is_invented() {
        let tree = ProcessTree::of(std::process::id());
        let counted = CountableEvents::default().count(&tree, || Ok(7));
        assert_eq!(counted, Ok((EventCounts::default(), 7)));
    }

    #[test]
    fn calls_of_a_process_are_counted_while_the_work_lasts() {
        let events = CountableEvents::probe();
        if !events.names.contains(&SYSTEM_CALLS) {
            assert!(events.absent[0].starts_with("system calls: "));
            return;
        }
        let tree = ProcessTree::of(std::process::id());
        let work = || {
            (0..500).for_each(|_| drop(fs::metadata("/")));
            Ok(())
        };
        let (counts, ()) = events.count(&tree, work).unwrap();
        assert!(counts.system_calls >= Some(500), "{counts:?}");
    }
}
