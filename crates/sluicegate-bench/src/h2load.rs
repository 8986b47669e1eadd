//! The client of HTTP/2: `h2load`, one thread, with a line in its log for every answer.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sluicegate_testkit::watchdog;

use crate::external_command;
use crate::tally::AnswerTally;

/// How it asks.
pub struct StreamPlan<'a> {
    pub connections: usize,
    /// In each connection.
    pub streams: usize,
    /// A POST of a call's message in this file; otherwise a GET.
    pub payload: Option<&'a Path>,
}

/// Asks for so long, which is rounded to whole seconds. What is under way at the end is not counted.
pub fn ask(
    h2load: &Path,
    url: &str,
    asking: &StreamPlan<'_>,
    duration: Duration,
) -> Result<AnswerTally, String> {
    let directory = watchdog::temporary_directory("h2load-");
    let log = directory.path().join("log");
    let seconds = duration.as_secs().max(1);
    let mut command = Command::new(h2load);
    command
        .args([
            "--threads",
            "1",
            "--clients",
            &asking.connections.to_string(),
        ])
        .args([
            "--max-concurrent-streams",
            &asking.streams.to_string(),
            "--duration",
            &seconds.to_string(),
        ])
        .arg(format!("--log-file={}", log.display()));
    if let Some(payload) = asking.payload {
        command.arg(format!("--data={}", payload.display()));
        command.args([
            "--header=content-type: application/grpc",
            "--header=te: trailers",
        ]);
    }
    command.arg(url);
    external_command::finish("h2load", &mut command, Duration::from_secs(seconds))?;
    let text = fs::read_to_string(&log).map_err(|error| format!("h2load: its log: {error}"))?;
    let tally = AnswerTally {
        wall: Duration::from_secs(seconds),
        ..tally_of(&text)?
    };
    if tally.done() == 0 {
        return Err("h2load: nothing was answered".to_string());
    }
    Ok(tally)
}

/// Counts lines of `start time`, `status` and `response time`, both times in µs.
fn tally_of(log: &str) -> Result<AnswerTally, String> {
    let mut tally = AnswerTally::default();
    for line in log.lines() {
        let [_, status, took_us, ..] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!(
                "h2load: a line of its log is not understood: {line}"
            ));
        };
        match status {
            "200" => tally.allowed += 1,
            "429" => tally.rejected += 1,
            _ => tally.other += 1,
        }
        let took_us = took_us
            .parse()
            .map_err(|_| format!("h2load: no time in its log: {line}"))?;
        tally.latencies.record(Duration::from_micros(took_us));
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_counted_by_status() {
        let tally = tally_of(
            "1700000000000001\t200\t1500\n1700000000000002\t429\t80\n1700000000000003\t503\t9\n",
        )
        .unwrap();
        assert_eq!((tally.allowed, tally.rejected, tally.other), (1, 1, 1));
        assert_eq!(tally.latencies.max(), Duration::from_micros(1_500));
        assert!(tally_of("what\n").is_err());
    }
}
