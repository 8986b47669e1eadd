//! The access log: one line per request, as JSON or text.
//!
//! Idea: the thread of a request formats its line and puts it into a bounded queue; one thread
//! takes lines out in batches and writes them. Invariants: no request ever waits for a terminal, a
//! pipe or a disk; the memory for lines is bounded by count and by bytes; a line that finds no room
//! is dropped and counted, never cut. Writing directly would be simpler, and one blocked pipe would
//! then stop the whole gateway.

#[cfg(feature = "fuzz-internals")]
pub(crate) mod fuzz_internals;
mod line_format;
mod writer;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sluicegate::http::RateLimitLine;
use sluicegate_config::LogFormat;

use super::metrics::Metrics;
use writer::{LogBacklog, LogWriter};

/// The facts of a request that are logged. None of them is a secret.
#[derive(Clone, Copy, Debug)]
pub struct AccessLogEntry<'a> {
    /// The id of the request; the server behind gets it as `X-Request-Id`.
    pub request_id: &'a str,
    /// The id of its trace, if it was traced.
    pub trace_id: Option<&'a str>,
    /// The address of the client, found behind trusted proxies; `None` when it is not known.
    pub client_ip: Option<IpAddr>,
    /// The other end of the connection.
    pub peer: SocketAddr,
    /// The method of the request.
    pub method: &'a str,
    /// The host that the request names.
    pub host: Option<&'a str>,
    /// The normalized path, as it was limited and forwarded.
    pub path: &'a str,
    /// The status of the response.
    pub status: u16,
    /// The outcome, by its name in the metrics.
    pub verdict: &'static str,
    /// The limit that denied it.
    pub limit: Option<&'a str>,
    /// The principal, if the caller has one.
    pub principal: Option<&'a str>,
    /// The address of the server that answered it.
    pub upstream: Option<&'a str>,
    /// The time from the end of the request's header to the end of its response.
    pub took: Duration,
    /// The bytes of the response body that were sent.
    pub bytes_out: u64,
}

/// A handle of the access log. Clones share it.
///
/// Up to 16,384 lines and 8 MiB wait for the writer. Beyond that, lines are dropped and counted in
/// `sluicegate_access_log_dropped_total`.
#[derive(Clone, Debug)]
pub struct AccessLog {
    format: LogFormat,
    /// The queue to the writer.
    lines: SyncSender<Vec<u8>>,
    backlog: Arc<LogBacklog>,
    /// Receives once when the writer has ended.
    ended: Arc<Mutex<Receiver<()>>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    /// The most lines that wait.
    const LINES_MAX: usize = 16_384;
    /// The most bytes that wait, as allocated.
    const BYTES_MAX: usize = 8 << 20;
    /// The first allocation of a line, in bytes; most lines fit.
    const LINE_BYTES: usize = 448;
    /// The longest that [`AccessLog::close`] waits.
    const CLOSE_MAX: Duration = Duration::from_secs(2);

    /// Starts a log that writes to standard output.
    pub fn start(format: LogFormat, metrics: Arc<Metrics>) -> io::Result<Self> {
        Self::start_to(io::stdout(), format, metrics)
    }

    /// Starts a log that writes to `out`, from a thread of its own.
    pub fn start_to(
        out: impl io::Write + Send + 'static,
        format: LogFormat,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let (lines, waiting) = mpsc::sync_channel(Self::LINES_MAX);
        let (end, ended) = mpsc::channel();
        let backlog = Arc::new(LogBacklog::default());
        let writer = LogWriter {
            lines: waiting,
            backlog: Arc::clone(&backlog),
            metrics: Arc::clone(&metrics),
            out,
        };
        let run = move || {
            writer.run();
            // The handle may be gone already.
            let _ = end.send(());
        };
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(run)?;
        Ok(Self {
            format,
            lines,
            backlog,
            ended: Arc::new(Mutex::new(ended)),
            metrics,
        })
    }

    /// Logs a request.
    pub fn write(&self, entry: &AccessLogEntry<'_>) {
        if !self.has_room() {
            return self.metrics.access_log_dropped(1);
        }
        let mut line = Vec::with_capacity(Self::LINE_BYTES);
        match self.format {
            LogFormat::Json => line_format::json(&mut line, entry, SystemTime::now()),
            LogFormat::Text => line_format::text(&mut line, entry, SystemTime::now()),
        }
        self.send(line);
    }

    /// Logs a rejection as a line that starts with `RATE_LIMIT`; with JSON, as the message of an
    /// object.
    pub fn rate_limit_line(&self, rejected: &RateLimitLine<'_>) {
        if !self.has_room() {
            return self.metrics.access_log_dropped(1);
        }
        let mut line = Vec::with_capacity(Self::LINE_BYTES);
        match self.format {
            LogFormat::Json => line_format::rate_limit_json(&mut line, rejected, SystemTime::now()),
            LogFormat::Text => line_format::rate_limit_text(&mut line, rejected),
        }
        self.send(line);
    }

    /// Waits until everything is written, but no longer than two seconds, because nobody may be
    /// reading. Lines that are logged later are dropped.
    pub fn close(self) {
        self.backlog.closing.store(true, Release);
        // An empty line wakes a sleeping writer. If the queue is full, the writer is awake anyway.
        let _ = self.lines.try_send(Vec::new());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(Self::CLOSE_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("nobody reads the access log: its last lines are lost");
        }
    }

    /// Returns true when there is room. Checked before a line is formatted, so that lines that
    /// nobody reads cost nothing; a few lines too many may pass at the same moment.
    fn has_room(&self) -> bool {
        self.backlog.bytes.load(Relaxed) < Self::BYTES_MAX && !self.backlog.closing.load(Acquire)
    }

    /// Queues a line. Its bytes are counted first, so that the writer never subtracts what was not
    /// added yet.
    fn send(&self, line: Vec<u8>) {
        let size = line.capacity();
        self.backlog.bytes.fetch_add(size, Relaxed);
        if self.lines.try_send(line).is_err() {
            self.backlog.bytes.fetch_sub(size, Relaxed);
            self.metrics.access_log_dropped(1);
        }
    }
}
