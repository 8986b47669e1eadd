//! The thread that writes the access log.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use crate::telemetry::metrics::Metrics;

/// What waits to be written.
#[derive(Debug, Default)]
pub(super) struct LogBacklog {
    /// The memory of all lines that wait.
    pub(super) bytes: AtomicUsize,
    /// Whether the log ends with what is there.
    pub(super) closing: AtomicBool,
}

pub(super) struct LogWriter<W> {
    pub(super) lines: Receiver<Vec<u8>>,
    pub(super) backlog: Arc<LogBacklog>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) out: W,
}

/// Written in one go.
const BATCH_BYTES: usize = 64 * 1024;
/// While requests come, lines are fetched so often. A writer that waited for each line would have to be woken for each, and
/// waking it costs the request more than the line does.
const TICK: Duration = Duration::from_millis(10);
/// Without a line for so long, the next one wakes the writer.
const QUIET: Duration = Duration::from_secs(1);

impl<W: Write> LogWriter<W> {
    /// Until the log is closed or everybody has let go of it.
    pub(super) fn run(mut self) {
        let mut batch = LineBatch::default();
        let mut latest_line = Instant::now();
        loop {
            // Asked for first: what was logged before the log was closed is there now.
            let is_closing = self.backlog.closing.load(Acquire);
            let is_abandoned = self.fetch(&mut batch);
            if batch.lines > 0 {
                latest_line = Instant::now();
                self.write(&mut batch);
            } else if is_closing || is_abandoned {
                return;
            } else if latest_line.elapsed() < QUIET {
                thread::sleep(TICK);
            } else {
                let Ok(line) = self.lines.recv() else { return };
                batch.add(&line);
            }
        }
    }

    /// Takes what is there, as far as it fits. Whether nobody can add any more.
    fn fetch(&mut self, batch: &mut LineBatch) -> bool {
        while batch.text.len() < BATCH_BYTES {
            match self.lines.try_recv() {
                Ok(line) => batch.add(&line),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            }
        }
        false
    }

    fn write(&mut self, batch: &mut LineBatch) {
        let written = self
            .out
            .write_all(&batch.text)
            .and_then(|()| self.out.flush());
        if written.is_err() {
            self.metrics.access_log_dropped(batch.lines);
        }
        self.backlog.bytes.fetch_sub(batch.bytes, Relaxed);
        batch.clear();
    }
}

/// Lines that are written together.
#[derive(Default)]
struct LineBatch {
    text: Vec<u8>,
    lines: u64,
    bytes: usize,
}

impl LineBatch {
    /// An empty line only wakes the writer.
    fn add(&mut self, line: &Vec<u8>) {
        self.text.extend_from_slice(line);
        self.lines += u64::from(!line.is_empty());
        self.bytes += line.capacity();
    }

    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(2 * BATCH_BYTES);
        (self.lines, self.bytes) = (0, 0);
    }
}
