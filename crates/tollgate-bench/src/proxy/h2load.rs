//! The client of HTTP/2: `h2load`, one thread, with a line in its log for every answer.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tollgate_testkit::watchdog;

use super::loads::{H2_STREAMS, Load};
use super::results::Tally;

/// Asks for so long, which is rounded to whole seconds. What is under way at the end is not counted.
pub fn ask(h2load: &Path, target: SocketAddr, load: &Load, duration: Duration) -> Result<Tally, String> {
    let directory = watchdog::temporary_directory("h2load-");
    let log = directory.path().join("log");
    let seconds = duration.as_secs().max(1);
    let mut command = Command::new(h2load);
    command
        .args(["--threads", "1", "--clients", &load.connections.to_string()])
        .args(["--max-concurrent-streams", &H2_STREAMS.to_string(), "--duration", &seconds.to_string()])
        .arg(format!("--log-file={}", log.display()))
        .arg(format!("http://{target}{}", load.request.path()));
    finish(&mut command, Duration::from_secs(seconds) + PATIENCE)?;
    let text = fs::read_to_string(&log).map_err(|error| format!("h2load: its log: {error}"))?;
    let tally = Tally { wall: Duration::from_secs(seconds), ..tally_of(&text)? };
    if tally.done() == 0 {
        return Err("h2load: nothing was answered".to_string());
    }
    Ok(tally)
}

/// Whoever takes longer than this beyond the time it was given does not answer.
const PATIENCE: Duration = Duration::from_secs(20);

fn finish(command: &mut Command, timeout: Duration) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("h2load: {error}");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(failed)?;
    watchdog::watch(child.id());
    let deadline = Instant::now() + timeout;
    let ended = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => break Ok(()),
            Some(status) => break Err(format!("h2load: {status}")),
            None if Instant::now() > deadline => break Err("h2load: no end of it in time".to_string()),
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    watchdog::forget(child.id());
    let _already_ended = child.kill();
    let _nothing_to_learn = child.wait();
    ended
}

/// Counts lines of `start time`, `status` and `response time`, both times in µs.
fn tally_of(log: &str) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for line in log.lines() {
        let [_, status, took_us, ..] = line.split('\t').collect::<Vec<_>>()[..] else {
            return Err(format!("h2load: a line of its log is not understood: {line}"));
        };
        match status {
            "200" => tally.allowed += 1,
            "429" => tally.rejected += 1,
            _ => tally.other += 1,
        }
        let took_us = took_us.parse().map_err(|_| format!("h2load: no time in its log: {line}"))?;
        tally.latencies.record(Duration::from_micros(took_us));
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_not_end_is_given_up() {
        let failure = finish(Command::new("sleep").arg("60"), Duration::from_millis(20));
        assert_eq!(failure, Err("h2load: no end of it in time".to_string()));
        assert_eq!(finish(&mut Command::new("false"), PATIENCE), Err("h2load: exit status: 1".to_string()));
        assert_eq!(finish(&mut Command::new("true"), PATIENCE), Ok(()));
    }

    #[test]
    fn the_log_is_counted_by_status() {
        let tally =
            tally_of("1700000000000001\t200\t1500\n1700000000000002\t429\t80\n1700000000000003\t503\t9\n").unwrap();
        assert_eq!((tally.allowed, tally.rejected, tally.other), (1, 1, 1));
        assert_eq!(tally.latencies.max(), Duration::from_micros(1_500));
        assert!(tally_of("what\n").is_err());
    }
}
