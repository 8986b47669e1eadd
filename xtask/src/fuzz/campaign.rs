//! Runs one target for a while: its corpus grows below `target/fuzz`, and a crash leaves its input there.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::programs;
use super::status::FuzzStatus;
use crate::command::root;

/// The target with a bug that must be found.
pub const PLANTED: &str = "planted";

/// The bounds of a run, the same for each target.
pub struct Campaign {
    /// The folder of the programs.
    pub programs: PathBuf,
    pub seconds: Option<u64>,
    pub runs: Option<u64>,
}

/// What became of a target.
pub struct FuzzResult {
    pub target: String,
    pub status: FuzzStatus,
    /// The inputs at which it crashed, was too slow or took too much memory.
    pub crashes: Vec<PathBuf>,
    /// Everything that it printed.
    pub log: PathBuf,
}

/// Fails unless the planted bug is found: programs without instrumentation would find nothing else either.
pub fn find_planted_bug(programs: &Path) -> Result<(), String> {
    let campaign = Campaign {
        programs: programs.to_owned(),
        seconds: Some(60),
        runs: Some(20_000_000),
    };
    let corpus = programs::folder().join("corpus").join(PLANTED);
    // Found anew each time, and not because it was found before.
    let _ = fs::remove_dir_all(corpus);
    let result = campaign.run(PLANTED)?;
    if result.crashes.is_empty() {
        return Err(format!(
            "the planted bug was not found after {} executions: the programs are not instrumented ({})",
            result.status.executions,
            result.log.display()
        ));
    }
    Ok(())
}

impl Campaign {
    /// Runs a target until a bound is reached or it crashes.
    pub fn run(&self, target: &str) -> Result<FuzzResult, String> {
        let found = |name: &str| programs::folder().join(name).join(target);
        let (corpus, crashes) = (found("corpus"), found("crashes"));
        let log = programs::folder()
            .join("logs")
            .join(format!("{target}.log"));
        for folder in [&corpus, &crashes, &log.with_file_name("")] {
            let failed = |error| format!("{}: {error}", folder.display());
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let before = files_in(&crashes);
        let status = self.search(target, &corpus, &crashes, &log)?;
        let mut crashes = files_in(&crashes);
        crashes.retain(|file| !before.contains(file));
        Ok(FuzzResult {
            target: target.to_string(),
            status,
            crashes,
            log,
        })
    }

    /// The command that runs a target over one input.
    pub fn repeat(&self, target: &str, input: &Path) -> String {
        format!(
            "{} {}",
            self.programs.join(target).display(),
            input.display()
        )
    }

    fn search(
        &self,
        target: &str,
        corpus: &Path,
        crashes: &Path,
        log: &Path,
    ) -> Result<FuzzStatus, String> {
        let program = self.programs.join(target);
        let failed = |error| format!("{}: {error}", program.display());
        let mut command = Command::new(&program);
        command.arg(corpus).args(committed("seeds", target));
        command.args(committed("regressions", target));
        command.arg(format!("-artifact_prefix={}/", crashes.display()));
        command.args(["-timeout=20", "-rss_limit_mb=4096", "-print_final_stats=1"]);
        command.arg(format!("-max_len={}", bytes_max(target)));
        let dictionary = root().join(format!("fuzz/dictionaries/{target}.dict"));
        if dictionary.is_file() {
            command.arg(format!("-dict={}", dictionary.display()));
        }
        command.args(
            self.seconds
                .map(|seconds| format!("-max_total_time={seconds}")),
        );
        command.args(self.runs.map(|runs| format!("-runs={runs}")));
        println!("fuzz: {target}, {}", log.display());
        let mut child = command
            .current_dir(root())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let output = child.stderr.take().expect("it was piped just above");
        let status = follow(target, BufReader::new(output), log)?;
        child.wait().map_err(failed)?;
        Ok(status)
    }
}

/// The longest input. Short ones run several times faster and reach the same code, but for whole files and for
/// values that are cut where they are too long.
fn bytes_max(target: &str) -> usize {
    let needs_long = target.starts_with("config_") || target == "log_lines";
    if needs_long { 4_096 } else { 1_024 }
}

/// Copies what a target prints to its log, and tells from time to time how far it is.
fn follow(target: &str, output: impl BufRead, log: &Path) -> Result<FuzzStatus, String> {
    const BETWEEN: Duration = Duration::from_secs(15);
    let mut copy = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let (mut status, mut told) = (FuzzStatus::default(), Instant::now());
    for line in output.split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        // A disk that is full must not end the search.
        let _ = writeln!(copy, "{line}");
        if status.take(&line) && told.elapsed() > BETWEEN {
            told = Instant::now();
            println!(
                "fuzz: {target}: {} executions, {} a second, coverage {}",
                status.executions, status.per_second, status.coverage
            );
        }
    }
    Ok(status)
}

/// The folder of committed inputs of this kind, if the target has one.
fn committed(kind: &str, target: &str) -> Option<PathBuf> {
    let folder = root().join("fuzz").join(kind).join(target);
    folder.is_dir().then_some(folder)
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.path()).collect()
}
