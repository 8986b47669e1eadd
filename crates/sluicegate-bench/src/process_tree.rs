//! A process and everything that descends from it, seen from outside through `/proc`.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Signal, kill_process};

/// Processes and their descendants, as they are at the moment of asking.
#[derive(Clone, Debug)]
pub struct ProcessTree {
    roots: Vec<u32>,
}

/// The fields of `/proc/N/stat` that matter here.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessStat {
    parent: u32,
    /// Of all threads, in ticks of the clock.
    user_ticks: u64,
    system_ticks: u64,
}

/// Processor time, apart by who used it. The kernel knows the sum exactly; it divides it by what it
/// meets at the ticks of its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// In user mode.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

impl CpuTime {
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    /// The time since an earlier reading. A part of the division may be corrected backwards.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }
}

impl ProcessTree {
    pub fn of(root: u32) -> Self {
        Self { roots: vec![root] }
    }

    /// Both together, where two programs do the work of one.
    pub fn with(mut self, other: Self) -> Self {
        self.roots.extend(other.roots);
        self
    }

    /// The roots first, every process before its children.
    pub fn processes(&self) -> Vec<u32> {
        let all = all_processes();
        let mut found = self.roots.clone();
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(
                all.iter()
                    .filter(|(_, stat)| stat.parent == parent)
                    .map(|(process, _)| *process),
            );
            next += 1;
        }
        found
    }

    /// Processor time used so far.
    pub fn cpu(&self) -> Result<CpuTime, String> {
        let mut ticks = [0, 0];
        for process in self.processes() {
            let stat = stat(process).ok_or_else(|| format!("process {process} went away"))?;
            ticks[0] += stat.user_ticks;
            ticks[1] += stat.system_ticks;
        }
        let per_second = clock_ticks_per_second() as f64;
        let [user, system] = ticks.map(|ticks| Duration::from_secs_f64(ticks as f64 / per_second));
        Ok(CpuTime { user, system })
    }

    /// Resident memory; what several processes share is counted once.
    pub fn memory_bytes(&self) -> Result<u64, String> {
        let shares = self.processes().into_iter().map(|process| {
            let path = format!("/proc/{process}/smaps_rollup");
            let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
            proportional_bytes(&text).ok_or_else(|| format!("{path}: not understood"))
        });
        shares.sum()
    }

    /// Kills the roots before their descendants, so that nobody is started again.
    pub fn kill(&self) {
        for process in self.processes() {
            if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
                let _already_gone = kill_process(process, Signal::KILL);
            }
        }
    }
}

fn all_processes() -> Vec<(u32, ProcessStat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes
        .filter_map(|process| Some((process, stat(process)?)))
        .collect()
}

fn stat(process: u32) -> Option<ProcessStat> {
    ProcessStat::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

impl ProcessStat {
    /// The name in parentheses may hold anything, so the fields are counted from its end.
    fn parse(text: &str) -> Option<Self> {
        let (_, after_name) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let number = |field: usize| fields.get(field)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            user_ticks: number(11)?,
            system_ticks: number(12)?,
        })
    }
}

/// The line `Pss:  N kB`: pages that n processes share count for one nth in each.
fn proportional_bytes(smaps_rollup: &str) -> Option<u64> {
    let line = smaps_rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1_024)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that has a child and tells its number.
    fn shell_with_child() -> (Child, u32) {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("there is a shell");
        let mut line = String::new();
        let mut output = std::io::BufReader::new(shell.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        (shell, line.trim().parse().unwrap())
    }

    #[test]
    fn a_name_cannot_shift_the_fields() {
        let text = "7 (a) b) c) S 42 7 7 0 -1 4194560 1 0 0 0 300 200 9 9 20 0 1";
        assert_eq!(
            ProcessStat::parse(text),
            Some(ProcessStat {
                parent: 42,
                user_ticks: 300,
                system_ticks: 200
            })
        );
        assert_eq!(ProcessStat::parse("7 (a) S 42"), None);
    }

    #[test]
    fn descendants_are_found_measured_and_killed() {
        let (mut shell, child) = shell_with_child();
        let tree = ProcessTree::of(shell.id());
        assert_eq!(tree.processes(), [shell.id(), child]);
        let both = ProcessTree::of(std::process::id()).with(tree.clone());
        assert!(
            both.processes()
                .starts_with(&[std::process::id(), shell.id()])
        );
        assert!(tree.memory_bytes().unwrap() > 0);
        assert!(tree.cpu().is_ok());
        tree.kill();
        assert!(!shell.wait().unwrap().success());
        sluicegate_testkit::wait_until(Duration::from_secs(5), "the child is gone", || {
            let state = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
    }

    #[test]
    fn processor_time_of_a_busy_process_is_seen() {
        let tree = ProcessTree::of(std::process::id());
        let before = tree.cpu().unwrap();
        sluicegate_testkit::wait_until(Duration::from_secs(30), "50 ms are used", || {
            std::hint::black_box(
                (0..200_000_u64).fold(0, |sum, number| sum ^ number.wrapping_mul(sum | 1)),
            );
            tree.cpu().unwrap().since(&before).user >= Duration::from_millis(50)
        });
    }

    #[test]
    fn time_is_told_apart_and_never_runs_backwards() {
        let time = |user, system| CpuTime {
            user: Duration::from_millis(user),
            system: Duration::from_millis(system),
        };
        assert_eq!(time(30, 90).since(&time(10, 40)), time(20, 50));
        assert_eq!(time(30, 90).since(&time(40, 40)), time(0, 50));
        assert_eq!(time(30, 90).total(), Duration::from_millis(120));
    }

    #[test]
    fn shared_pages_are_counted_once() {
        assert_eq!(
            proportional_bytes("0-1 [rollup]\nRss:  900 kB\nPss:     12 kB\nPss_Anon: 3 kB\n"),
            Some(12_288)
        );
        assert_eq!(proportional_bytes("Rss: 1 kB\n"), None);
    }
}
