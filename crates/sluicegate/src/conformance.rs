//! Proves that a store keeps its promises: transcripts of charges and answers, played against it.
//!
//! The same files run against the pure algorithms, the local store and Redis, so that all of them
//! give the same digits. A store of your own joins them with [`run`]:
//!
//! ```
//! use sluicegate::conformance;
//! use sluicegate::{LocalOptions, LocalStore};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let options = LocalOptions { max_keys: 10_000, ..LocalOptions::default() };
//! let report = conformance::run(|| LocalStore::new(options)).await?;
//! assert!(report.answers > 200);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! A transcript reads like this:
//!
//! ```text
//! # One unit per second, three at once. A denied charge costs nothing.
//! limit 1 per 1s burst 3
//! at 0ms    spend 3 => allowed, 0 left
//! at 999ms  spend 1 => denied, retry in 1ms
//! at 1000ms spend 1 => allowed, 0 left
//! ```
//!
//! The statements, one per line:
//!
//! | statement | meaning |
//! |---|---|
//! | `limit a: 1 per 1s burst 3` | a token bucket; a limit without a name is called `a` |
//! | `leaky a: 2 per 1s size 5` | a leaky bucket that drips 2 each second |
//! | `leaky a: 2 per 1s size 5 factor 2` | the same with a caller's factor |
//! | `fixed a: 100 per 1m`, `sliding a: 100 per 1m` | a fixed or sliding window |
//! | `legacy a: max 3 duration 1s min_interval 100ms` | the older settings; each may be left out |
//! | `shadow` before any of these | a limit that is watched and not enforced |
//! | `now` before any of these | the policy is reloaded with other numbers for this limit, and what is owed stays owed in units |
//! | `at 1s spend 2 => …` | 2 units of every limit, all or nothing |
//! | `at 1s spend 1 of a and 2 of b => …` | units of some limits, all or nothing |
//! | `at 1s look 2 => …` | whether so many units are there; none is taken |
//! | `at 1s spend 1 of a and look 2 of b => …` | both in one request |
//! | `at 1s peek => …` | a look, `of a` where there are several limits |
//! | `at 1s refund 2 drawn 50ms ago => …` | units given back; without an age, all of them |
//! | `at 1s reset` | the counters are forgotten |
//! | `as ann: at …` | the same by another caller |
//! | `at 1s 50 times spend 1 => 10 allowed` | many charges at one instant |
//! | `from 0s to 1m every 50ms spend 1 => 128 allowed` | many charges, both ends included |
//!
//! Expectations are separated by commas, and compared exactly: `allowed`, `denied`,
//! `denied by a and b`, `3 left`, `retry in 5ms`, `never`, `full in 2s`, `full`, and `b would deny`
//! for a shadow limit. With several limits, `left` and `full` need `of a`. Nothing else
//! is compared, except denials by shadow limits, which must be mentioned.

mod answer;
mod parse;
mod player;
mod reference;
mod request;

use std::error::Error;
use std::fmt;

use crate::store::{Store, StoreError};

pub use reference::ReferenceStore;

/// Plays every transcript, each against a fresh store; stops at the first that differs.
pub async fn run<S: Store>(make: impl Fn() -> S) -> Result<Report, Failure> {
    let mut report = Report::default();
    for (file, text) in TRANSCRIPTS {
        report.answers += run_text(file, text, make()).await?;
        report.transcripts += 1;
    }
    Ok(report)
}

/// Plays one transcript against a store, and returns how many answers were compared. `file` is the
/// name that a [`Failure`] shows.
///
/// ```
/// use sluicegate::conformance::{ReferenceStore, run_text};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let text = "limit 1 per 1s burst 1\nat 0s spend 1 => denied";
/// let failure = run_text("mine.txt", text, ReferenceStore::new()).await.unwrap_err();
/// assert_eq!((failure.file.as_str(), failure.line), ("mine.txt", 2));
/// # Ok(())
/// # })
/// # }
/// ```
pub async fn run_text<S: Store>(file: &str, text: &str, store: S) -> Result<usize, Failure> {
    let failure = |line, problem| Failure {
        file: file.to_owned(),
        line,
        problem,
    };
    let mut player = player::TranscriptPlayer::new(store);
    for (index, line) in text.lines().enumerate() {
        let statement = parse::statement(line)
            .map_err(|wrong| failure(index + 1, LineProblem::Unreadable(wrong)))?;
        let Some(statement) = statement else { continue };
        player
            .play(statement)
            .await
            .map_err(|problem| failure(index + 1, problem))?;
    }
    Ok(player.answers())
}

/// The size of a run.
///
/// ```
/// use sluicegate::conformance::{self, ReferenceStore, TRANSCRIPTS};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let report = conformance::run(ReferenceStore::new).await?;
/// assert_eq!(report.transcripts, TRANSCRIPTS.len());
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Transcripts that were played to their end.
    pub transcripts: usize,
    /// Answers that were compared.
    pub answers: usize,
}

/// The line at which a store and a transcript differ.
///
/// ```
/// use sluicegate::conformance::{ReferenceStore, run_text};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let text = "limit 1 per 1s burst 1\nat 0s spend 1 => denied";
/// let failure = run_text("mine.txt", text, ReferenceStore::new()).await.unwrap_err();
/// assert_eq!(failure.to_string(), "mine.txt:2: expected denied\n     got allowed, 0 left, full in 1s");
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The name of the transcript.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem of that line.
    pub problem: LineProblem,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.problem)
    }
}

impl Error for Failure {}

/// The problem of a line.
///
/// ```
/// use sluicegate::conformance::{LineProblem, ReferenceStore, run_text};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let failure = run_text("mine.txt", "spend everything", ReferenceStore::new()).await.unwrap_err();
/// assert!(matches!(failure.problem, LineProblem::Unreadable(_)));
/// # Ok(())
/// # })
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LineProblem {
    /// It is not a statement, or it makes no sense where it stands.
    Unreadable(String),
    /// The store answered something else.
    Differs {
        /// The answer in the transcript.
        expected: String,
        /// The answer of the store, in the same words.
        got: String,
    },
    /// The store did not know the answer.
    Store(StoreError),
}

impl fmt::Display for LineProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(wrong) => f.write_str(wrong),
            Self::Differs { expected, got } => write!(f, "expected {expected}\n     got {got}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

/// Embeds the files of these names.
macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../transcripts/", $name)))),*]
    };
}

/// Every file in `transcripts/`: its name and its text.
pub const TRANSCRIPTS: &[(&str, &str)] = embedded![
    "aged-refund.txt",
    "billion-per-second.txt",
    "bursts.txt",
    "callers.txt",
    "clock-back.txt",
    "clock-far-back.txt",
    "cost-over-burst.txt",
    "costs.txt",
    "denied-costs-nothing.txt",
    "exact-retry.txt",
    "factor.txt",
    "fixed-window-clock-back.txt",
    "fixed-window.txt",
    "hundred-per-second.txt",
    "leaky-drips-of-one.txt",
    "leaky-fine-print.txt",
    "leaky-idle-then-flood.txt",
    "leaky-refund.txt",
    "leaky.txt",
    "legacy.txt",
    "look.txt",
    "million-per-second.txt",
    "mixed-machines.txt",
    "peek.txt",
    "polling.txt",
    "rate-and-average.txt",
    "refund.txt",
    "reload-algorithm.txt",
    "reload-burst.txt",
    "reload-excess.txt",
    "reload-leaky.txt",
    "reload-rate.txt",
    "reset.txt",
    "seven-per-second.txt",
    "several-limits.txt",
    "shadow.txt",
    "sliding-window-clock-back.txt",
    "sliding-window.txt",
    "slow.txt",
    "suspend.txt",
];
