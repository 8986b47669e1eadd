//! One replica: a process of its own that asks a shared Redis, and records the answers.

mod history;
mod words;

use std::io::{Write, stdout};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sluicegate::{
    FailurePolicy, KeyPart, Limit, Limiter, MonotonicClock, Nanos, Policy, Quota, QuotaError,
    RedisClock, RedisOptions, RedisStore,
};
use sluicegate_testkit::Bound;
use tokio::task::JoinSet;

pub use history::ReplicaHistory;

use crate::load::{AnswerKind, CallerLoad, LoadRun, now};

/// The arguments of a replica's process.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaArguments {
    /// The URL of the server.
    pub redis: String,
    /// The beginning of every key.
    pub prefix: String,
    /// The clock that counts.
    pub clock: RedisClock,
    /// The failure policy while Redis is away.
    pub policy: FailurePolicy,
    /// The longest a decision may take.
    pub deadline: Duration,
    /// The limits, which are asked for side by side.
    pub rules: Vec<ReplicaRule>,
    /// The keys of each limit.
    pub keys: KeyChoice,
    /// Tasks that ask for one limit.
    pub tasks: usize,
    /// How long a task rests between two questions.
    pub pause: Duration,
    /// When to begin, by [`now`], so that replicas begin together.
    pub start: u64,
    /// For how long to ask.
    pub length: Duration,
    /// The answers that go into the history.
    pub keeps: HistoryDetail,
}

/// A quota as it can be told to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaRule {
    /// So many every second, so many at once.
    PerSecond {
        /// Units that come back every second.
        count: u64,
        /// Units at once.
        burst: u64,
    },
    /// A leaky bucket.
    Leaky {
        /// Units that fit.
        size: u64,
        /// Milliseconds between drips.
        every_ms: u64,
        /// Units of a drip.
        drip: u64,
    },
    /// A sliding window.
    Sliding {
        /// Units in a window.
        limit: u64,
        /// The window's length in milliseconds.
        window_ms: u64,
    },
}

/// The keys of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// So many, all as popular.
    Even(usize),
    /// So many, the n-th asked for 1/n times as often as the first.
    Zipf(usize),
}

/// The answers that a history holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryDetail {
    /// Every question.
    Everything,
    /// Everything but rejections by the store, which are counted: at full speed there are millions.
    Admissions,
}

/// Runs the replica that the command line describes, and writes its history to standard output.
pub fn main(words: impl Iterator<Item = String>) -> ExitCode {
    // A replica that was stopped must not outlive its parent.
    #[cfg(target_os = "linux")]
    let _it_ends_by_itself_too =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let told = ReplicaArguments::from_words(words).and_then(|replica| {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build();
        runtime
            .map_err(|error| error.to_string())?
            .block_on(replica.run())
    });
    let written = told.and_then(|history| {
        stdout()
            .write_all(&history.to_bytes())
            .map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replica: {error}");
            ExitCode::FAILURE
        }
    }
}

impl ReplicaArguments {
    /// A replica of one limit with one key: four callers, each resting a little, for a second.
    pub fn new(redis: impl Into<String>, rule: ReplicaRule) -> Self {
        Self {
            redis: redis.into(),
            prefix: "chaos".to_owned(),
            clock: RedisClock::Server,
            policy: FailurePolicy::default(),
            deadline: Duration::from_secs(2),
            rules: vec![rule],
            keys: KeyChoice::Even(1),
            tasks: 4,
            pause: Duration::from_millis(16),
            start: 0,
            length: Duration::from_secs(1),
            keeps: HistoryDetail::Everything,
        }
    }

    async fn run(self) -> Result<ReplicaHistory, String> {
        let limiter = self.limiter()?;
        limiter.store().start();
        self.wait_for_start(&limiter).await;
        let mut loads = JoinSet::new();
        for (place, rule) in self.rules.iter().enumerate() {
            let (replica, rule, limiter) = (self.clone(), *rule, limiter.clone());
            loads.spawn(async move { replica.ask(place, rule, &limiter).await });
        }
        let mut history = ReplicaHistory::default();
        while let Some(part) = loads.join_next().await {
            history.include(part.map_err(|error| error.to_string())?);
        }
        Ok(history)
    }

    fn limiter(&self) -> Result<Limiter<RedisStore>, String> {
        let mut options = RedisOptions::from_url(&self.redis).map_err(|error| error.to_string())?;
        options.key_prefix.clone_from(&self.prefix);
        options.clock = self.clock;
        options.deadline = Nanos::from(self.deadline);
        let store = RedisStore::new(options).map_err(|error| error.to_string())?;
        let limits: Result<Vec<Limit>, QuotaError> =
            self.rules.iter().map(|rule| rule.limit()).collect();
        let policy = Policy::new(limits.map_err(|error| error.to_string())?)
            .map_err(|errors| errors.to_string())?;
        Ok(Limiter::with_failure_policy(
            policy,
            store,
            MonotonicClock::new(),
            self.policy,
        ))
    }

    async fn wait_for_start(&self, limiter: &Limiter<RedisStore>) {
        let patience = Instant::now() + Duration::from_secs(5);
        while now() < self.start || (!limiter.store().health().is_up() && Instant::now() < patience)
        {
            tokio::time::sleep(Duration::from_millis(1)).await; // bounded wait: the start was set by the parent
        }
    }

    async fn ask(
        &self,
        place: usize,
        rule: ReplicaRule,
        limiter: &Limiter<RedisStore>,
    ) -> ReplicaHistory {
        let order = self.keys.order();
        let names = order.iter().map(|key| format!("key-{key}")).collect();
        let load = CallerLoad {
            limit: rule.to_string(),
            keys: names,
            tasks: self.tasks,
            pause: self.pause,
        };
        let end = self.start + self.length.as_nanos() as u64;
        let number = |mut run: LoadRun| {
            run.asked
                .iter_mut()
                .for_each(|asked| asked.key = place * self.keys.count() + order[asked.key]);
            run
        };
        if self.keeps == HistoryDetail::Everything {
            let run = load
                .run_for(limiter, Duration::from_nanos(end.saturating_sub(now())))
                .await;
            return ReplicaHistory {
                run: number(run),
                rejections_left_out: 0,
            };
        }
        // In slices, so that memory is bounded.
        let mut history = ReplicaHistory::default();
        while now() < end {
            let mut run = load.run_for(limiter, SLICE).await;
            let before = run.asked.len();
            run.asked
                .retain(|asked| asked.answer != AnswerKind::Rejected);
            history.rejections_left_out += (before - run.asked.len()) as u64;
            history.run.include(number(run));
        }
        history
    }
}

const SLICE: Duration = Duration::from_millis(50);

impl ReplicaRule {
    fn limit(self) -> Result<Limit, QuotaError> {
        Ok(Limit::new(self.to_string(), self.quota()?).key([KeyPart::Principal]))
    }

    /// The quota.
    pub fn quota(self) -> Result<Quota, QuotaError> {
        match self {
            Self::PerSecond { count, burst } => Quota::new(count, Nanos::SECOND, burst),
            Self::Leaky {
                size,
                every_ms,
                drip,
            } => Quota::leaky_bucket(size, Nanos::from_millis(every_ms), drip),
            Self::Sliding { limit, window_ms } => {
                Quota::sliding_window(limit, Nanos::from_millis(window_ms))
            }
        }
    }

    /// The most that may pass in any span, as `docs/limits.md` says. A span cuts through one drip more than fit into
    /// it; a sliding window counts the one before only in part, so two may meet.
    pub fn bound(self) -> Bound {
        match self {
            Self::PerSecond { count, burst } => Bound::new(count, Duration::from_secs(1), burst),
            Self::Leaky {
                size,
                every_ms,
                drip,
            } => Bound::new(
                drip,
                Duration::from_millis(every_ms),
                size + drip - 1 + drip,
            ),
            Self::Sliding { limit, window_ms } => {
                Bound::new(limit, Duration::from_millis(window_ms), 2 * limit)
            }
        }
    }
}

impl KeyChoice {
    /// How many there are.
    pub fn count(self) -> usize {
        match self {
            Self::Even(count) | Self::Zipf(count) => count,
        }
    }

    /// The order in which a task goes through them, again and again.
    fn order(self) -> Vec<usize> {
        let Self::Zipf(count) = self else {
            return (0..self.count()).collect();
        };
        let mut order: Vec<usize> = (0..count)
            .flat_map(|key| vec![key; count.div_ceil(key + 1)])
            .collect();
        // Mixed, the same in every replica: a step that has no factor in common with the length visits every place.
        let length = order.len();
        let step = (length / 2 + 1..)
            .find(|step| gcd(*step, length) == 1)
            .unwrap_or(1);
        order = (0..length)
            .map(|place| order[place * step % length])
            .collect();
        order
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
