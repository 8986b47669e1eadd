//! One line per request, written by a thread of its own so that no request waits for a terminal, a pipe or a disk.

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

/// What is said about a request. Nothing in it is a secret.
#[derive(Clone, Copy, Debug)]
pub struct AccessLogEntry<'a> {
    /// The id that was given to the request, here and to the server behind.
    pub request_id: &'a str,
    /// The trace that its span belongs to, if it was traced.
    pub trace_id: Option<&'a str>,
    /// The caller's address.
    pub client_ip: Option<IpAddr>,
    /// Who connected.
    pub peer: SocketAddr,
    /// The method.
    pub method: &'a str,
    /// The host.
    pub host: Option<&'a str>,
    /// The path as it was limited and forwarded.
    pub path: &'a str,
    /// What the caller was answered.
    pub status: u16,
    /// What became of the request, as in the metrics.
    pub verdict: &'static str,
    /// The limit that refused it.
    pub limit: Option<&'a str>,
    /// Who the caller is.
    pub principal: Option<&'a str>,
    /// The server that answered it.
    pub upstream: Option<&'a str>,
    /// From the end of its header to the end of its answer.
    pub took: Duration,
    /// The size of the answer's body.
    pub bytes_out: u64,
}

/// The access log. Clones share it.
///
/// Lines wait in memory for the thread that writes them, up to 16,384 lines and 8 MiB. Beyond that they are dropped and
/// counted in `sluicegate_access_log_dropped_total`.
#[derive(Clone, Debug)]
pub struct AccessLog {
    format: LogFormat,
    lines: SyncSender<Vec<u8>>,
    backlog: Arc<LogBacklog>,
    ended: Arc<Mutex<Receiver<()>>>,
    metrics: Arc<Metrics>,
}

impl AccessLog {
    const LINES_MAX: usize = 16_384;
    const BYTES_MAX: usize = 8 << 20;
    /// Most lines fit, so that most are one allocation.
    const LINE_BYTES: usize = 448;
    /// How long a program that ends waits for a reader.
    const CLOSE_MAX: Duration = Duration::from_secs(2);

    /// Writes to standard output.
    pub fn start(format: LogFormat, metrics: Arc<Metrics>) -> io::Result<Self> {
        Self::start_to(io::stdout(), format, metrics)
    }

    /// Writes elsewhere.
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
            // Nobody may be waiting for the end.
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

    /// Adds a line about a request.
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

    /// Adds the line that starts with `RATE_LIMIT`, as it is or as the message of a JSON object.
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

    /// Waits until everything is written, but no longer than two seconds: nobody may be reading. What is logged later is
    /// dropped.
    pub fn close(self) {
        self.backlog.closing.store(true, Release);
        // A writer that sleeps is woken by a line; where there is no room for one, it is awake.
        let _ = self.lines.try_send(Vec::new());
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(Self::CLOSE_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the access log has no reader, its last lines are lost");
        }
    }

    /// Looked at before a line is made, so that lines nobody reads cost nothing.
    fn has_room(&self) -> bool {
        self.backlog.bytes.load(Relaxed) < Self::BYTES_MAX && !self.backlog.closing.load(Acquire)
    }

    fn send(&self, line: Vec<u8>) {
        let size = line.capacity();
        self.backlog.bytes.fetch_add(size, Relaxed);
        if self.lines.try_send(line).is_err() {
            self.backlog.bytes.fetch_sub(size, Relaxed);
            self.metrics.access_log_dropped(1);
        }
    }
}
