//! The thread that writes the access log.
//!
//! While requests come, it fetches what has gathered every few milliseconds. Waiting for each line
//! would be simpler, but then each request would have to wake it, which costs that request more
//! than formatting its line. Only after a quiet second does it sleep until the next line.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use crate::telemetry::metrics::Metrics;

/// The state that the handles and the writer share.
#[derive(Debug, Default)]
pub(super) struct LogBacklog {
    /// The allocated bytes of all lines that wait. Handles add, the writer subtracts.
    pub(super) bytes: AtomicUsize,
    /// True when the log ends after the lines that are there. Set once.
    pub(super) closing: AtomicBool,
}

/// The writing end of the log.
pub(super) struct LogWriter<W> {
    pub(super) lines: Receiver<Vec<u8>>,
    pub(super) backlog: Arc<LogBacklog>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) out: W,
}

/// The bytes of a batch, more or less: one write.
const BATCH_BYTES: usize = 64 * 1024;
/// The pause between two batches while requests come; also the longest delay of a line.
const TICK: Duration = Duration::from_millis(10);
/// After this time without a line the writer sleeps until the next one.
const QUIET: Duration = Duration::from_secs(1);

impl<W: Write> LogWriter<W> {
    /// Writes until the log is closed or all handles are gone.
    pub(super) fn run(mut self) {
        let mut batch = LineBatch::default();
        let mut latest_line = Instant::now();
        loop {
            // Read before the queue: every line that was logged before the close is then in it.
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

    /// Moves lines from the queue to the batch until that is full. Returns true when all handles
    /// are gone.
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

    /// Writes the batch. A failed write loses its lines, which are counted; the next may succeed.
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

/// Lines that are written with one call.
#[derive(Default)]
struct LineBatch {
    text: Vec<u8>,
    /// The number of lines, without empty ones.
    lines: u64,
    /// Their bytes as allocated, to be subtracted from the backlog.
    bytes: usize,
}

impl LineBatch {
    /// Appends a line. An empty one only woke the writer and does not count.
    fn add(&mut self, line: &Vec<u8>) {
        self.text.extend_from_slice(line);
        self.lines += u64::from(!line.is_empty());
        self.bytes += line.capacity();
    }

    /// Empties the batch, and frees the memory of an unusually large one.
    fn clear(&mut self) {
        self.text.clear();
        self.text.shrink_to(2 * BATCH_BYTES);
        (self.lines, self.bytes) = (0, 0);
    }
}
