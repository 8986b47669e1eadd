//! Runs a program that must end by itself, within a time limit.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::watchdog;

/// A program that takes longer than this beyond its time is taken for hung.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a program and returns what it printed, if it ended well and in time.
pub fn finish(name: &str, command: &mut Command, expected: Duration) -> Result<String, String> {
    finish_with_bytes(name, command, expected)
        .map(|printed| String::from_utf8_lossy(&printed).into_owned())
}

/// The same for a program that prints no text.
pub fn finish_with_bytes(
    name: &str,
    command: &mut Command,
    expected: Duration,
) -> Result<Vec<u8>, String> {
    finish_within(name, command, expected + PATIENCE)
}

fn finish_within(name: &str, command: &mut Command, timeout: Duration) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{name}: {error}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    watchdog::watch(child.id());
    let mut output = child
        .stdout
        .take()
        .ok_or_else(|| format!("{name}: no standard output"))?;
    // Beside us, so that a program that prints much does not wait for us.
    let printed = thread::spawn(move || {
        let mut bytes = Vec::new();
        output.read_to_end(&mut bytes).map(|_| bytes)
    });
    let deadline = Instant::now() + timeout;
    let ended = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) if status.success() => break Ok(()),
            Some(status) => break Err(format!("{name}: {status}")),
            None if Instant::now() > deadline => {
                break Err(format!("{name}: no end of it in time"));
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    watchdog::forget(child.id());
    let _already_ended = child.kill();
    let _nothing_to_learn = child.wait();
    ended?;
    printed
        .join()
        .map_err(|_| format!("{name}: what it printed was lost"))?
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_given_up() {
        let failure = finish_within(
            "sleep",
            Command::new("sleep").arg("60"),
            Duration::from_millis(20),
        );
        assert_eq!(failure, Err("sleep: no end of it in time".to_string()));
        assert_eq!(
            finish("x", &mut Command::new("false"), PATIENCE),
            Err("x: exit status: 1".to_string())
        );
        assert_eq!(
            finish("x", Command::new("echo").arg("a"), PATIENCE),
            Ok("a\n".to_string())
        );
    }
}
