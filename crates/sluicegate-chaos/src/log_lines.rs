//! The lines that the library logs, for scenarios that count them.

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing_subscriber::fmt::MakeWriter;

/// Everything that was logged in this process since the first scenario that asked for it.
#[derive(Clone, Debug, Default)]
pub struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    /// Begins to keep what all threads log; a second call keeps it in the same place.
    pub fn start() -> Self {
        static LINES: OnceLock<LogLines> = OnceLock::new();
        let start = || {
            let lines = Self::default();
            let subscriber = tracing_subscriber::fmt()
                .with_writer(lines.clone())
                .with_ansi(false)
                .finish();
            tracing::subscriber::set_global_default(subscriber)
                .expect("nobody else in this program keeps a log");
            lines
        };
        LINES.get_or_init(start).clone()
    }

    /// The lines since the last call.
    pub fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.bytes());
        let text = String::from_utf8_lossy(&bytes);
        text.lines().map(str::to_owned).collect()
    }

    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
