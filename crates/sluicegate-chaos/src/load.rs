//! Callers that ask a limiter again and again, and record each answer with its times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use sluicegate::{Clock, Limiter, Store, Verdict};
use sluicegate_testkit::{Admission, Latencies};
use tokio::task::JoinSet;

use crate::random::SeededRandom;

/// Callers of one limit.
#[derive(Clone, Debug)]
pub struct CallerLoad {
    /// The limit's name; it is keyed by one part.
    pub limit: String,
    /// The callers' names. Each is asked for by every task in turn.
    pub keys: Vec<String>,
    /// Tasks that ask at the same time, each as soon as its last answer has come and its pause is over.
    pub tasks: usize,
    /// How long a task rests between two questions, on the average. Pauses of one length would keep time with the
    /// bucket: the same task would always be first after a unit came back.
    pub pause: Duration,
}

/// A request with its answer, and when both happened.
#[derive(Clone, Copy, Debug)]
pub struct AnsweredRequest {
    /// Nanoseconds of the machine's monotonic clock, which all processes share and no test steps.
    pub sent: u64,
    /// When the answer came.
    pub received: u64,
    /// The place of the key in [`CallerLoad::keys`].
    pub key: usize,
    /// The answer.
    pub answer: AnswerKind,
}

/// The answer, as far as a scenario minds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// Let pass by the store.
    Allowed,
    /// Turned away by the store, or from memory of it.
    Rejected,
    /// Let pass by the fallback.
    AllowedLocally,
    /// Turned away by the fallback.
    RejectedLocally,
    /// Let pass unchecked.
    Unchecked,
    /// Answered 503.
    Unavailable,
}

/// How many answers of each kind there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerCounts {
    /// By the store.
    pub allowed: usize,
    /// By the store, or from memory of it.
    pub rejected: usize,
    /// By the fallback.
    pub allowed_locally: usize,
    /// By the fallback.
    pub rejected_locally: usize,
    /// Let pass without a count.
    pub unchecked: usize,
    /// Answered 503.
    pub unavailable: usize,
}

/// Everything that was asked, in no particular order.
#[derive(Clone, Debug, Default)]
pub struct LoadRun {
    /// Every question with its answer.
    pub asked: Vec<AnsweredRequest>,
}

/// Now, in nanoseconds of the machine's monotonic clock.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

impl CallerLoad {
    /// One key that `tasks` tasks ask for without a pause.
    pub fn on_one_key(limit: &str, key: &str, tasks: usize) -> Self {
        Self {
            limit: limit.to_owned(),
            keys: vec![key.to_owned()],
            tasks,
            pause: Duration::ZERO,
        }
    }

    /// Asks until `stop` is set.
    pub async fn run_until<S: Store, C: Clock>(
        &self,
        limiter: &Limiter<S, C>,
        stop: Arc<AtomicBool>,
    ) -> LoadRun {
        let mut tasks = JoinSet::new();
        for task in 0..self.tasks {
            let (load, limiter, stop) = (self.clone(), limiter.clone(), Arc::clone(&stop));
            tasks.spawn(async move { load.one_task(task, limiter, &stop).await });
        }
        let mut run = LoadRun::default();
        while let Some(asked) = tasks.join_next().await {
            run.asked.extend(asked.expect("a caller does not panic"));
        }
        run
    }

    /// Asks for so long.
    pub async fn run_for<S: Store, C: Clock>(
        &self,
        limiter: &Limiter<S, C>,
        span: Duration,
    ) -> LoadRun {
        let stop = Arc::new(AtomicBool::new(false));
        let (at_end, end) = (Arc::clone(&stop), Instant::now() + span);
        let timer = async move {
            tokio::time::sleep_until(end.into()).await; // bounded wait: the length of the run
            at_end.store(true, Ordering::Relaxed);
        };
        tokio::join!(self.run_until(limiter, stop), timer).0
    }

    async fn one_task<S: Store, C: Clock>(
        self,
        task: usize,
        limiter: Limiter<S, C>,
        stop: &AtomicBool,
    ) -> Vec<AnsweredRequest> {
        let mut asked = Vec::new();
        let mut random = SeededRandom(now() ^ task as u64);
        for key in (0..self.keys.len()).cycle().skip(task % self.keys.len()) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let sent = now();
            let verdict = limiter
                .check_named(&self.limit, &[&self.keys[key]], 1)
                .await;
            asked.push(AnsweredRequest {
                sent,
                received: now(),
                key,
                answer: AnswerKind::of(&verdict),
            });
            match self.pause {
                Duration::ZERO => tokio::task::yield_now().await,
                pause => tokio::time::sleep(pause * random.below(2_000) as u32 / 1_000).await, // bounded wait: the pace of the load
            }
        }
        asked
    }
}

impl AnswerKind {
    /// The kind of answer that a verdict is.
    pub fn of(verdict: &Verdict) -> Self {
        let degraded = verdict
            .decision()
            .is_some_and(sluicegate::Decision::is_degraded);
        match (verdict, degraded) {
            (Verdict::Forward(_), false) => Self::Allowed,
            (Verdict::Forward(_), true) => Self::AllowedLocally,
            (Verdict::Reject(_), false) => Self::Rejected,
            (Verdict::Reject(_), true) => Self::RejectedLocally,
            (Verdict::ForwardUnchecked(_), _) => Self::Unchecked,
            (Verdict::Unavailable { .. } | Verdict::Unidentified(_), _) => Self::Unavailable,
        }
    }

    /// True when the request was counted and let pass.
    pub fn is_admission(self) -> bool {
        matches!(self, Self::Allowed | Self::AllowedLocally)
    }
}

impl LoadRun {
    /// Puts what another run saw beside this one's.
    pub fn include(&mut self, other: Self) {
        self.asked.extend(other.asked);
    }

    /// The requests that were counted and let pass, for the bound checker.
    pub fn admissions(&self) -> Vec<Admission> {
        let admitted = self
            .asked
            .iter()
            .filter(|asked| asked.answer.is_admission());
        admitted
            .map(|asked| Admission {
                sent: asked.sent,
                received: asked.received,
                key: asked.key as u64,
                cost: 1,
            })
            .collect()
    }

    /// How long answers took.
    pub fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::new();
        for asked in &self.asked {
            latencies.record(Duration::from_nanos(asked.received - asked.sent));
        }
        latencies
    }

    /// The questions asked from one instant to another, by [`now`].
    pub fn between(&self, from: u64, to: u64) -> Self {
        Self {
            asked: self
                .asked
                .iter()
                .filter(|asked| (from..to).contains(&asked.sent))
                .copied()
                .collect(),
        }
    }

    /// How many answers of each kind there were.
    pub fn answers(&self) -> AnswerCounts {
        let mut answers = AnswerCounts::default();
        for asked in &self.asked {
            *match asked.answer {
                AnswerKind::Allowed => &mut answers.allowed,
                AnswerKind::Rejected => &mut answers.rejected,
                AnswerKind::AllowedLocally => &mut answers.allowed_locally,
                AnswerKind::RejectedLocally => &mut answers.rejected_locally,
                AnswerKind::Unchecked => &mut answers.unchecked,
                AnswerKind::Unavailable => &mut answers.unavailable,
            } += 1;
        }
        answers
    }

    /// When the store last failed to decide, by [`now`].
    pub fn last_failure(&self) -> Option<u64> {
        let failed = |asked: &&AnsweredRequest| {
            !matches!(asked.answer, AnswerKind::Allowed | AnswerKind::Rejected)
        };
        self.asked
            .iter()
            .filter(failed)
            .map(|asked| asked.received)
            .max()
    }
}
