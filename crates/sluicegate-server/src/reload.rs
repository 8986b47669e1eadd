//! Reloads: a new configuration for a running process is read, checked and put in force.
//!
//! The file watch, a signal and the admin API may ask for a reload at the same time; they take
//! turns. A configuration with any mistake changes nothing, and a configuration with the same
//! content as the one in force is not applied again.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use sluicegate_config::Config;
use sluicegate_gate::telemetry::metrics::ReloadResult;

use crate::configuration::{AppliedConfig, ConfigVersion, Configuration};
use crate::file_hash;
use crate::file_watch::FileWatcher;
use crate::named_files::followed_files;

/// A configuration and its source text.
pub struct LoadedConfig {
    /// The parsed configuration.
    pub config: Config,
    /// The text it was read from.
    pub text: String,
}

/// Reads the configuration anew; the error is a list of all mistakes, one per line.
pub type ConfigReader = Box<dyn Fn() -> Result<LoadedConfig, String> + Send + Sync>;

/// The pause between two reads of a file that may still be written in pieces.
const SETTLE_DELAY: Duration = Duration::from_millis(10);
/// After this many reads a file that keeps changing is taken as it is.
const SETTLE_TRIES: usize = 10;

/// Returns true for a text of nothing but space and comments: a file that was truncated to be
/// written anew, or lost.
fn is_blank(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

/// Reads and applies configurations, one at a time.
pub(crate) struct Reloader {
    configuration: Arc<Configuration>,
    /// The file of the configuration; `None` for the built-in one.
    file: Option<PathBuf>,
    read_again: ConfigReader,
    /// Locked during a reload, so that reloads take turns.
    running: Mutex<RunningConfig>,
}

/// The configuration in force.
struct RunningConfig {
    content: ConfigContent,
    applied: AppliedConfig,
    /// The time it was put in force.
    since: SystemTime,
    /// Its text, with its secrets.
    text: String,
    /// Its limits in words, for people.
    words: Vec<String>,
    /// The mistakes of the last reload, if it failed.
    last_error: Option<(SystemTime, Vec<String>)>,
    /// Watches the files that were read; `None` for the built-in configuration.
    watcher: Option<FileWatcher>,
}

/// The hashes of everything that a configuration is made of; equal hashes mean nothing to do.
///
/// The hashes of the named files are taken before the files are loaded. If a file changes in
/// between, the hash is of the older content, so the next check sees a difference and loads again.
/// Bodies of rejections are loaded with the YAML, and their hashes are of what was read then.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigContent {
    /// The hash of the text.
    text: [u8; 32],
    /// The hashes of the files that it names; `None` for one that cannot be read.
    named: Vec<Option<[u8; 32]>>,
}

impl ConfigContent {
    pub(crate) fn of(loaded: &LoadedConfig) -> Self {
        let bodies = &loaded.config.response.body_files;
        let hash_of = |file: &PathBuf| match bodies.iter().find(|body| body.path == *file) {
            Some(body) => Some(Sha256::digest(&body.text).into()),
            None => file_hash::sha256_of(file).ok(),
        };
        Self {
            text: Sha256::digest(&loaded.text).into(),
            named: followed_files(&loaded.config).iter().map(hash_of).collect(),
        }
    }

    /// The content of files as it is now.
    fn of_files(text: &[u8], named: &[PathBuf]) -> Self {
        let named = named
            .iter()
            .map(|file| file_hash::sha256_of(file).ok())
            .collect();
        Self {
            text: Sha256::digest(text).into(),
            named,
        }
    }

    /// The hash of the text in hexadecimal digits.
    fn text_in_digits(&self) -> String {
        let mut digits = String::with_capacity(64);
        for byte in self.text {
            let _ = write!(digits, "{byte:02x}");
        }
        digits
    }
}

/// The configuration that a process starts with.
pub(crate) struct InitialConfig {
    content: ConfigContent,
    text: String,
    words: Vec<String>,
}

impl InitialConfig {
    pub(crate) fn with(loaded: &LoadedConfig) -> Self {
        Self {
            content: ConfigContent::of(loaded),
            text: loaded.text.clone(),
            words: loaded.config.in_words(),
        }
    }
}

/// The configuration in force, for the admin API.
pub(crate) struct ConfigStatus {
    pub(crate) version: ConfigVersion,
    pub(crate) file: Option<PathBuf>,
    /// Its text, with its secrets, which have to be redacted before it is shown.
    pub(crate) text: String,
    pub(crate) words: Vec<String>,
    pub(crate) last_error: Option<(SystemTime, Vec<String>)>,
}

/// The outcome of a successful reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReloadOutcome {
    /// A new configuration is in force.
    Applied(AppliedConfig),
    /// The files contain what is in force already.
    Unchanged(AppliedConfig),
}

impl fmt::Display for ReloadOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied(applied) => applied.fmt(f),
            Self::Unchanged(applied) => write!(f, "unchanged: {applied}"),
        }
    }
}

impl Reloader {
    /// A reloader for a gate that runs the initial configuration.
    pub(crate) fn new(
        configuration: Arc<Configuration>,
        initial: InitialConfig,
        file: Option<PathBuf>,
        read_again: ConfigReader,
    ) -> Self {
        let InitialConfig {
            content,
            text,
            words,
        } = initial;
        let gate = &configuration.gate;
        gate.metrics.set_config_hash(&content.text);
        let applied = AppliedConfig {
            version: gate.snapshot().version,
            needs_restart: Vec::new(),
        };
        let since = SystemTime::now();
        let running = RunningConfig {
            content,
            applied,
            since,
            text,
            words,
            last_error: None,
            watcher: None,
        };
        Self {
            configuration,
            file,
            read_again,
            running: Mutex::new(running),
        }
    }

    /// Reloads from now on whenever one of the files changes.
    pub(crate) fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let weak = Arc::downgrade(self);
        let on_change = move || {
            if let Some(reloader) = weak.upgrade() {
                // `reload` logs its result itself.
                let _ = reloader.reload();
            }
        };
        let watcher = FileWatcher::start(self.files(), on_change)?;
        let mut running = self.running();
        running.watcher = Some(watcher);
        let changed_meanwhile = running.content != self.content_now(file);
        drop(running);
        if changed_meanwhile {
            // `reload` logs its result itself.
            let _ = self.reload();
        }
        Ok(())
    }

    /// Reads the configuration and puts it in force, or changes nothing and returns the mistakes.
    /// The result is counted and logged here.
    pub(crate) fn reload(&self) -> Result<ReloadOutcome, String> {
        let mut running = self.running();
        let reloaded = self.read_and_apply(&mut running);
        match &reloaded {
            Ok(ReloadOutcome::Applied(applied)) => {
                self.configuration
                    .gate
                    .metrics
                    .reloaded(ReloadResult::Applied);
                tracing::info!(version = applied.version, "configuration reloaded");
                for name in &applied.needs_restart {
                    tracing::warn!("{name} changed in the file, the new value needs a restart");
                }
            }
            Ok(ReloadOutcome::Unchanged(applied)) => {
                self.configuration
                    .gate
                    .metrics
                    .reloaded(ReloadResult::Unchanged);
                tracing::info!(
                    version = applied.version,
                    "configuration reloaded, nothing has changed"
                );
            }
            Err(mistakes) => {
                let lines = mistakes
                    .lines()
                    .filter(|line| !line.trim().is_empty())
                    .map(str::to_owned)
                    .collect();
                running.last_error = Some((SystemTime::now(), lines));
                self.configuration
                    .gate
                    .metrics
                    .reloaded(ReloadResult::Refused);
                tracing::error!("configuration refused, the one in force stays: {mistakes}");
            }
        }
        reloaded
    }

    /// Reads until two reads in a row agree, then applies.
    fn read_and_apply(&self, running: &mut RunningConfig) -> Result<ReloadOutcome, String> {
        let mut loaded = (self.read_again)()?;
        let mut content = ConfigContent::of(&loaded);
        // The watcher, a signal and an operator may all ask for the same change.
        if content == running.content {
            running.last_error = None;
            return Ok(ReloadOutcome::Unchanged(running.applied.clone()));
        }
        // The file may still be written: two reads have to agree.
        for _ in 0..SETTLE_TRIES {
            std::thread::sleep(SETTLE_DELAY);
            let again = (self.read_again)()?;
            let content_again = ConfigContent::of(&again);
            let is_settled = content_again == content;
            (loaded, content) = (again, content_again);
            if is_settled {
                break;
            }
        }
        if is_blank(&loaded.text) {
            return Err(
                "the file is empty: an empty configuration would serve and limit nothing"
                    .to_owned(),
            );
        }
        let words = loaded.config.in_words();
        let applied = self
            .configuration
            .apply(&loaded.config)
            .map_err(|mistakes| mistakes.join("\n"))?;
        self.configuration
            .gate
            .metrics
            .set_config_hash(&content.text);
        running.content = content;
        (running.text, running.words, running.last_error) = (loaded.text, words, None);
        running.applied = applied.clone();
        running.since = SystemTime::now();
        if let Some(watcher) = &running.watcher {
            watcher.set_files(self.files());
        }
        Ok(ReloadOutcome::Applied(applied))
    }

    /// Everything about the configuration in force, for the admin API.
    pub(crate) fn status(&self) -> ConfigStatus {
        let version = self.version();
        let running = self.running();
        ConfigStatus {
            version,
            file: self.file.clone(),
            text: running.text.clone(),
            words: running.words.clone(),
            last_error: running.last_error.clone(),
        }
    }

    /// The version of the configuration in force.
    pub(crate) fn version(&self) -> ConfigVersion {
        let running = self.running();
        let hash = running.content.text_in_digits();
        ConfigVersion {
            number: running.applied.version,
            hash,
            loaded_at: running.since,
        }
    }

    /// The files to watch: the configuration itself and those that it names.
    fn files(&self) -> Vec<PathBuf> {
        self.file
            .iter()
            .cloned()
            .chain(self.configuration.files())
            .collect()
    }

    /// The content of the watched files now.
    fn content_now(&self, file: &Path) -> ConfigContent {
        ConfigContent::of_files(
            &std::fs::read(file).unwrap_or_default(),
            &self.configuration.files(),
        )
    }

    fn running(&self) -> std::sync::MutexGuard<'_, RunningConfig> {
        self.running.lock().expect("no holder of this lock panics")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use sluicegate_config::{Source, load};
    use tokio::runtime::Runtime;

    use super::*;

    static BACKGROUND: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

    fn loaded(text: &str) -> LoadedConfig {
        let source = Source {
            name: "test".to_owned(),
            text: text.to_owned(),
            ..Source::embedded()
        };
        let config = load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        LoadedConfig {
            config,
            text: text.to_owned(),
        }
    }

    const BEFORE: &str = "admin: off\nlimits: [{ name: a, key: client_ip, rate: 1/s }]\n";

    /// Reloads once from a file that holds these texts, one after the other; returns what came of
    /// it and how many limits hold.
    fn reloaded_from(texts: &'static [&'static str]) -> (Result<ReloadOutcome, String>, usize) {
        let first = loaded(BEFORE);
        let initial = InitialConfig::with(&first);
        let configuration = Configuration::start(&first.config, None, BACKGROUND.handle().clone());
        let configuration = Arc::new(configuration.unwrap());
        let next = Mutex::new(texts.iter());
        let last = texts.last().unwrap();
        let read_again = Box::new(move || Ok(loaded(next.lock().unwrap().next().unwrap_or(last))));
        let reloaded =
            Reloader::new(Arc::clone(&configuration), initial, None, read_again).reload();
        let limits = configuration.gate.snapshot().policy.limits().len();
        (reloaded, limits)
    }

    #[test]
    fn what_is_still_being_written_is_not_put_in_force() {
        const WHOLE: &str = "admin: off\nlimits: [{ name: a, key: client_ip, rate: 2/s }, { name: b, key: path, rate: 2/s }]\n";
        for pieces in [
            &["", WHOLE][..],
            &["admin: off\n", WHOLE],
            &["", "admin: off\n", "admin: off\nlimits: []\n", WHOLE],
        ] {
            let (reloaded, limits) = reloaded_from(pieces);
            assert!(
                matches!(
                    reloaded,
                    Ok(ReloadOutcome::Applied(AppliedConfig { version: 2, .. }))
                ),
                "{pieces:?}: {reloaded:?}"
            );
            assert_eq!(limits, 2, "{pieces:?}");
        }
    }

    #[test]
    fn an_empty_file_leaves_what_runs() {
        let (reloaded, limits) = reloaded_from(&["# nothing\n"]);
        assert!(reloaded.unwrap_err().starts_with("the file is empty"));
        assert_eq!(limits, 1);
    }

    #[test]
    fn a_file_without_a_word_says_nothing() {
        for nothing in ["", "\n", "  \n# later\n---\n"] {
            assert!(is_blank(nothing), "{nothing:?}");
        }
        for something in ["{}", "limits: []", "# a\nadmin: off"] {
            assert!(!is_blank(something), "{something:?}");
        }
    }
}
