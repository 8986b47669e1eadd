//! Another configuration for a running process: read, checked, put in force, told.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use sluicegate_config::Config;

use crate::admin::ConfigVersion;
use crate::configuration::{Applied, Configuration, files_of};
use crate::reload::{self, Watcher};
use crate::telemetry::metrics::ReloadResult;

/// A configuration, and the text that says it.
pub struct Loaded {
    /// What is to be in force.
    pub config: Config,
    /// The YAML it was read from.
    pub text: String,
}

/// Reads the configuration; an error is every mistake, one on each line.
pub type ReadAgain = Box<dyn Fn() -> Result<Loaded, String> + Send + Sync>;

/// Long enough for who writes a file in pieces; a reload takes no less.
const MOMENT: Duration = Duration::from_millis(10);
const TRIES: usize = 10;

/// Nothing but space and comments: a file that was cut off before it was written anew, or lost.
fn says_nothing(text: &str) -> bool {
    text.lines()
        .map(str::trim)
        .all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

/// Reads and applies configurations, one at a time, whoever asks for it.
pub(crate) struct Reloader {
    configuration: Arc<Configuration>,
    file: Option<PathBuf>,
    read_again: ReadAgain,
    running: Mutex<Running>,
}

struct Running {
    content: Content,
    applied: Applied,
    since: SystemTime,
    text: String,
    words: Vec<String>,
    /// The mistakes of the last attempt that was refused, unless another was accepted since.
    last_error: Option<(SystemTime, Vec<String>)>,
    /// Follows the files that were read; none for the built-in configuration.
    watcher: Option<Watcher>,
}

/// What a configuration is made of: two that are equal say the same.
///
/// Made of a text that was read and of files that will be: a file that changes in between is then read as another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    text: [u8; 32],
    /// Of the files that the text names; `None` for one that cannot be read.
    named: Vec<Option<[u8; 32]>>,
}

impl Content {
    pub(crate) fn of(loaded: &Loaded) -> Self {
        Self::new(loaded.text.as_bytes(), &files_of(&loaded.config))
    }

    fn new(text: &[u8], named: &[PathBuf]) -> Self {
        let named = named
            .iter()
            .map(|file| reload::hash_of(file).ok())
            .collect();
        Self {
            text: Sha256::digest(text).into(),
            named,
        }
    }

    fn text_in_digits(&self) -> String {
        let mut digits = String::with_capacity(64);
        for byte in self.text {
            let _ = write!(digits, "{byte:02x}");
        }
        digits
    }
}

/// What a process begins with.
pub(crate) struct Begun {
    content: Content,
    text: String,
    words: Vec<String>,
}

impl Begun {
    pub(crate) fn with(loaded: &Loaded) -> Self {
        Self {
            content: Content::of(loaded),
            text: loaded.text.clone(),
            words: loaded.config.in_words(),
        }
    }
}

/// The configuration in force, for people.
pub(crate) struct Told {
    pub(crate) version: ConfigVersion,
    pub(crate) file: Option<PathBuf>,
    /// As it was written, with its secrets.
    pub(crate) text: String,
    pub(crate) words: Vec<String>,
    pub(crate) last_error: Option<(SystemTime, Vec<String>)>,
}

/// How an attempt to read the configuration again went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// Another configuration is in force.
    Applied(Applied),
    /// The files say what is in force already.
    Unchanged(Applied),
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied(applied) => applied.fmt(f),
            Self::Unchanged(applied) => write!(f, "unchanged: {applied}"),
        }
    }
}

impl Reloader {
    /// For a gate with a configuration of this content.
    pub(crate) fn new(
        configuration: Arc<Configuration>,
        begun: Begun,
        file: Option<PathBuf>,
        read_again: ReadAgain,
    ) -> Self {
        let Begun {
            content,
            text,
            words,
        } = begun;
        let gate = &configuration.gate;
        gate.metrics.set_config_hash(&content.text);
        let applied = Applied {
            version: gate.snapshot().version,
            needs_restart: Vec::new(),
        };
        let since = SystemTime::now();
        let running = Running {
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

    /// Reads the configuration again whenever one of its files changes.
    pub(crate) fn watch(self: &Arc<Self>) -> std::io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
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
        let changed_meanwhile = running.content != self.content_now(file);
        drop(running);
        if changed_meanwhile {
            // The log says how it went.
            let _ = self.reload();
        }
        Ok(())
    }

    /// Reads the configuration again and puts it in force, or leaves everything as it is and says why.
    pub(crate) fn reload(&self) -> Result<Reloaded, String> {
        let mut running = self.running();
        let reloaded = self.read_and_apply(&mut running);
        match &reloaded {
            Ok(Reloaded::Applied(applied)) => {
                self.configuration
                    .gate
                    .metrics
                    .reloaded(ReloadResult::Applied);
                tracing::info!(
                    version = applied.version,
                    "the configuration was read again"
                );
                for name in &applied.needs_restart {
                    tracing::warn!(
                        "{name} has changed in the file and stays as it was until a restart"
                    );
                }
            }
            Ok(Reloaded::Unchanged(applied)) => {
                self.configuration
                    .gate
                    .metrics
                    .reloaded(ReloadResult::Unchanged);
                tracing::info!(
                    version = applied.version,
                    "the configuration was read again and is the same"
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
                tracing::error!("the configuration in force stays: {mistakes}");
            }
        }
        reloaded
    }

    fn read_and_apply(&self, running: &mut Running) -> Result<Reloaded, String> {
        let mut loaded = (self.read_again)()?;
        let mut content = Content::of(&loaded);
        // Several may ask for the same change: the watcher, a signal, an operator.
        if content == running.content {
            running.last_error = None;
            return Ok(Reloaded::Unchanged(running.applied.clone()));
        }
        // Somebody may still be writing: what was read must be there a moment later too.
        for _ in 0..TRIES {
            std::thread::sleep(MOMENT);
            let again = (self.read_again)()?;
            let content_again = Content::of(&again);
            let is_settled = content_again == content;
            (loaded, content) = (again, content_again);
            if is_settled {
                break;
            }
        }
        if says_nothing(&loaded.text) {
            return Err("the file is empty: nothing would be limited and nobody served".to_owned());
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
        Ok(Reloaded::Applied(applied))
    }

    /// All that there is to say about the configuration in force.
    pub(crate) fn told(&self) -> Told {
        let version = self.version();
        let running = self.running();
        Told {
            version,
            file: self.file.clone(),
            text: running.text.clone(),
            words: running.words.clone(),
            last_error: running.last_error.clone(),
        }
    }

    /// Which configuration runs.
    pub(crate) fn version(&self) -> ConfigVersion {
        let running = self.running();
        let hash = running.content.text_in_digits();
        ConfigVersion {
            number: running.applied.version,
            hash,
            loaded_at: running.since,
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        self.file
            .iter()
            .cloned()
            .chain(self.configuration.files())
            .collect()
    }

    /// What the files of the running configuration hold now.
    fn content_now(&self, file: &Path) -> Content {
        Content::new(
            &std::fs::read(file).unwrap_or_default(),
            &self.configuration.files(),
        )
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Running> {
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

    fn loaded(text: &str) -> Loaded {
        let source = Source {
            name: "test".to_owned(),
            text: text.to_owned(),
            base_dir: PathBuf::new(),
        };
        let config = load(&source, &|_| None).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        Loaded {
            config,
            text: text.to_owned(),
        }
    }

    const BEFORE: &str = "admin: off\nlimits: [{ name: a, key: client_ip, rate: 1/s }]\n";

    /// Reloads once from a file that holds these texts, one after the other; returns what came of it and how many limits hold.
    fn reloaded_from(texts: &'static [&'static str]) -> (Result<Reloaded, String>, usize) {
        let first = loaded(BEFORE);
        let begun = Begun::with(&first);
        let configuration = Configuration::start(&first.config, None, BACKGROUND.handle().clone());
        let configuration = Arc::new(configuration.unwrap());
        let next = Mutex::new(texts.iter());
        let last = texts.last().unwrap();
        let read_again = Box::new(move || Ok(loaded(next.lock().unwrap().next().unwrap_or(last))));
        let reloaded = Reloader::new(Arc::clone(&configuration), begun, None, read_again).reload();
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
                matches!(reloaded, Ok(Reloaded::Applied(Applied { version: 2, .. }))),
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
            assert!(says_nothing(nothing), "{nothing:?}");
        }
        for something in ["{}", "limits: []", "# a\nadmin: off"] {
            assert!(!says_nothing(something), "{something:?}");
        }
    }
}
