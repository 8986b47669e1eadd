//! Another configuration for a running process: read, checked, put in force, told.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use tollgate_config::Config;

use crate::admin::ConfigVersion;
use crate::live::{Applied, Gate};
use crate::reload::Watcher;
use crate::telemetry::metrics::ReloadResult;

/// Reads the configuration; an error is every mistake, one on each line.
pub type ReadAgain = Box<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// Reads and applies configurations, one at a time, whoever asks for it.
pub(crate) struct Reloader {
    gate: Arc<Gate>,
    file: Option<PathBuf>,
    read_again: ReadAgain,
    running: Mutex<Running>,
}

struct Running {
    hash: String,
    since: SystemTime,
    /// Follows the files that were read; none for the built-in configuration.
    watcher: Option<Watcher>,
}

impl Reloader {
    pub(crate) fn new(gate: Arc<Gate>, file: Option<PathBuf>, read_again: ReadAgain) -> Self {
        let running = Running { hash: hash(file.as_ref()), since: SystemTime::now(), watcher: None };
        Self { gate, file, read_again, running: Mutex::new(running) }
    }

    /// Reads the configuration again whenever one of its files changes.
    pub(crate) fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        let weak = Arc::downgrade(self);
        let on_change = move || {
            if let Some(reloader) = weak.upgrade() {
                // The log has it already.
                let _ = reloader.reload();
            }
        };
        let watcher = Watcher::start(self.files(), on_change)?;
        let mut running = self.running();
        running.watcher = Some(watcher);
        let changed_meanwhile = running.hash != hash(self.file.as_ref());
        drop(running);
        if changed_meanwhile {
            // The log says how it went.
            let _ = self.reload();
        }
        Ok(())
    }

    /// Reads the configuration again and puts it in force, or leaves everything as it is and says why.
    pub(crate) fn reload(&self) -> Result<Applied, String> {
        let mut running = self.running();
        let hash = hash(self.file.as_ref());
        let applied =
            (self.read_again)().and_then(|config| self.gate.apply(config).map_err(|mistakes| mistakes.join("\n")));
        match &applied {
            Ok(applied) => {
                self.gate.metrics.reloaded(ReloadResult::Applied);
                running.hash = hash;
                running.since = SystemTime::now();
                if let Some(watcher) = &running.watcher {
                    watcher.set_files(self.files());
                }
                tracing::info!(version = applied.version, "the configuration was read again");
                for name in &applied.needs_restart {
                    tracing::warn!("{name} has changed in the file and stays as it was until a restart");
                }
            }
            Err(mistakes) => {
                self.gate.metrics.reloaded(ReloadResult::Refused);
                tracing::error!("the configuration in force stays: {mistakes}");
            }
        }
        applied
    }

    /// Which configuration runs.
    pub(crate) fn version(&self) -> ConfigVersion {
        let running = self.running();
        ConfigVersion { number: self.gate.live().version, hash: running.hash.clone(), loaded_at: running.since }
    }

    fn files(&self) -> Vec<PathBuf> {
        self.file.iter().cloned().chain(self.gate.live().files.iter().cloned()).collect()
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().expect("no holder of this lock panics")
    }
}

/// Of what the file holds now.
fn hash(file: Option<&PathBuf>) -> String {
    let bytes = file.and_then(|file| std::fs::read(file).ok()).unwrap_or_default();
    let mut digits = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
