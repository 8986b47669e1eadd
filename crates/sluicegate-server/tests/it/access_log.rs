//! The access log with a reader, without one, and with one that has stopped.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may unwrap like the tests themselves"
)]

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use http::StatusCode;
use sluicegate::http::RateLimitLine;
use sluicegate_config::LogFormat;
use sluicegate_gate::telemetry::{AccessLog, AccessLogEntry, Metrics};

/// Nothing here takes that long unless it never comes.
const LONG: Duration = Duration::from_secs(20);

fn entry(path: &str) -> AccessLogEntry<'_> {
    AccessLogEntry {
        request_id: "0af7651916cd43dd",
        trace_id: None,
        client_ip: Some("203.0.113.7".parse().unwrap()),
        peer: SocketAddr::from(([10, 0, 0, 1], 4711)),
        method: "GET",
        host: Some("a.example"),
        path,
        status: 200,
        verdict: "forwarded",
        limit: None,
        principal: None,
        upstream: Some("127.0.0.1:3000"),
        took: Duration::from_micros(1234),
        bytes_out: 17,
    }
}

/// Passes on what is written.
struct Passing(Sender<Vec<u8>>);

impl Write for Passing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .send(bytes.to_vec())
            .map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until it is let go, like a pipe that nobody reads.
#[derive(Clone, Default)]
struct Stuck(Arc<(Mutex<Option<Vec<u8>>>, Condvar)>);

impl Stuck {
    fn let_go(&self) {
        *self.0.0.lock().unwrap() = Some(Vec::new());
        self.0.1.notify_all();
    }
}

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self
            .0
            .1
            .wait_while(self.0.0.lock().unwrap(), |written| written.is_none())
            .unwrap();
        written.as_mut().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn dropped(metrics: &Metrics) -> u64 {
    let text = metrics.encode();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("sluicegate_access_log_dropped_total "));
    value.unwrap().parse().unwrap()
}

fn all(pieces: &Receiver<Vec<u8>>) -> Vec<String> {
    let text: Vec<u8> = pieces.try_iter().flatten().collect();
    String::from_utf8(text)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn what_was_logged_before_the_end_is_written_in_order() {
    let (pass, pieces) = mpsc::channel();
    let metrics = Metrics::new();
    let log = AccessLog::start_to(Passing(pass), LogFormat::Json, Arc::clone(&metrics)).unwrap();
    for place in 0..10_000 {
        log.write(&entry(&format!("/{place}")));
    }
    log.clone().close();
    let lines = all(&pieces);
    assert_eq!(lines.len(), 10_000);
    for (place, line) in lines.iter().enumerate() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["path"], format!("/{place}"));
    }
    assert_eq!(dropped(&metrics), 0);
    log.write(&entry("/late"));
    assert_eq!(dropped(&metrics), 1, "what comes after the end is counted");
}

#[test]
fn a_line_appears_soon_without_another_one_behind_it() {
    let (pass, pieces) = mpsc::channel();
    let log = AccessLog::start_to(Passing(pass), LogFormat::Text, Metrics::new()).unwrap();
    log.write(&entry("/first"));
    let line = String::from_utf8(pieces.recv_timeout(LONG).unwrap()).unwrap();
    assert!(
        line.contains(" path=/first ") && line.ends_with('\n'),
        "{line:?}"
    );
    // After a second without a line the writer has to be woken.
    assert!(pieces.recv_timeout(Duration::from_millis(1_200)).is_err());
    log.write(&entry("/second"));
    let line = String::from_utf8(pieces.recv_timeout(LONG).unwrap()).unwrap();
    assert!(line.contains(" path=/second "), "{line:?}");
}

#[test]
fn a_reader_that_has_stopped_holds_up_nobody_and_lines_beyond_the_bound_are_counted() {
    let (out, metrics) = (Stuck::default(), Metrics::new());
    let log = AccessLog::start_to(out.clone(), LogFormat::Text, Arc::clone(&metrics)).unwrap();
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25_000).for_each(|_| log.write(&entry("/x"))));
        }
    });
    assert!(started.elapsed() < LONG);
    let lost = dropped(&metrics);
    assert!(
        lost >= 100_000 - 16_384 - 1_000,
        "only so many lines wait: {lost}"
    );
    out.let_go();
    log.close();
    let written = out.0.0.lock().unwrap().take().unwrap();
    let lines = written.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(lines + lost, 100_000, "every line is written or counted");
}

#[test]
fn long_lines_wait_within_a_bound_of_bytes() {
    let (out, metrics) = (Stuck::default(), Metrics::new());
    let log = AccessLog::start_to(out.clone(), LogFormat::Json, Arc::clone(&metrics)).unwrap();
    let long = "\u{1}".repeat(100_000);
    for _ in 0..5_000 {
        log.write(&entry(&long));
    }
    let lost = dropped(&metrics);
    assert!(
        lost > 4_000,
        "5,000 lines of 12 KiB are more than 8 MiB: {lost}"
    );
    out.let_go();
    log.close();
    let written = out.0.0.lock().unwrap().take().unwrap();
    assert!(written.len() < 9 << 20, "{}", written.len());
}

#[test]
fn the_end_does_not_wait_for_a_reader_that_never_comes() {
    let out = Stuck::default();
    let log = AccessLog::start_to(out.clone(), LogFormat::Text, Metrics::new()).unwrap();
    log.write(&entry("/x"));
    let started = Instant::now();
    log.close();
    assert!(started.elapsed() < LONG);
    out.let_go();
}

#[test]
fn a_reader_that_went_away_costs_lines_and_nothing_else() {
    let (pass, pieces) = mpsc::channel();
    drop(pieces);
    let metrics = Metrics::new();
    let log = AccessLog::start_to(Passing(pass), LogFormat::Text, Arc::clone(&metrics)).unwrap();
    (0..100).for_each(|_| log.write(&entry("/x")));
    log.close();
    assert_eq!(dropped(&metrics), 100);
}

#[test]
fn rejections_have_their_own_line_in_both_forms() {
    for format in [LogFormat::Text, LogFormat::Json] {
        let (pass, pieces) = mpsc::channel();
        let log = AccessLog::start_to(Passing(pass), format, Metrics::new()).unwrap();
        log.rate_limit_line(&RateLimitLine {
            client_ip: Some("203.0.113.50".parse().unwrap()),
            host: Some("Y.Z\r\nRATE_LIMIT forged\u{1b}[2J"),
            path: "/W\"",
            status: StatusCode::TOO_MANY_REQUESTS,
        });
        log.close();
        let lines = all(&pieces);
        let [line] = &lines[..] else {
            panic!("{lines:?}")
        };
        let message = match format {
            LogFormat::Text => line.clone(),
            LogFormat::Json => {
                let object: serde_json::Value = serde_json::from_str(line).unwrap();
                object["message"].as_str().unwrap().to_owned()
            }
        };
        let expected = "RATE_LIMIT client_ip=203.0.113.50 host=Y.Z%0D%0ARATE_LIMIT%20forged%1B[2J path=/W%22 status=429";
        assert_eq!(message, expected);
    }
}
