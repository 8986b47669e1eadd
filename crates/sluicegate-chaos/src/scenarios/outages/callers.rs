//! Callers who ask all the time, and what they may expect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use sluicegate::FailurePolicy;
use tokio::task::JoinHandle;

use super::faulty_redis::{DEADLINE, LIMIT, RedisLimiter, SLACK, bound};
use crate::load::{AnswerKind, now};
use crate::{AnsweredRequest, CallerLoad, Length, LoadRun, Report};

/// Callers of several replicas, until they are told to stop.
pub struct Callers {
    stop: Arc<AtomicBool>,
    groups: Vec<CallerGroup>,
}

struct CallerGroup {
    policy: FailurePolicy,
    replica: RedisLimiter,
    run: JoinHandle<LoadRun>,
}

/// When a fault began and ended, by [`now`].
#[derive(Clone, Copy, Debug)]
pub struct FaultTimes {
    /// The first instant at which it may have been felt.
    pub began: u64,
    /// From then on Redis could answer.
    pub healed: u64,
    /// Times that the state was lost.
    pub losses: u64,
}

/// A few callers, each asking for far more than it gets.
pub fn load() -> CallerLoad {
    let keys = ["ann", "bob", "cyd"].map(str::to_owned).to_vec();
    CallerLoad {
        limit: LIMIT.to_owned(),
        keys,
        tasks: 8,
        pause: Duration::from_millis(5),
    }
}

impl Callers {
    /// Begins to ask each replica.
    pub fn start(replicas: impl IntoIterator<Item = (FailurePolicy, RedisLimiter)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let group = |(policy, replica): (FailurePolicy, RedisLimiter)| {
            let (asked, stop) = (replica.clone(), Arc::clone(&stop));
            let run = tokio::spawn(async move { load().run_until(&asked, stop).await });
            CallerGroup {
                policy,
                replica,
                run,
            }
        };
        let groups = replicas.into_iter().map(group).collect();
        Self { groups, stop }
    }

    /// Lets them ask for a while.
    pub async fn go_on(&self, span: Duration) {
        tokio::time::sleep(span).await; // bounded wait: the length of a phase
    }

    /// Waits until every replica was answered by the store, and a little longer.
    pub async fn are_served(&self) {
        const LONGEST: Duration = Duration::from_secs(5);
        const AFTERWARDS: Duration = Duration::from_millis(400);
        let is_served = |group: &CallerGroup| {
            !group.replica.is_degraded() && group.replica.store().health().is_up()
        };
        let end = Instant::now() + LONGEST;
        while !self.groups.iter().all(is_served) && Instant::now() < end {
            self.go_on(Duration::from_millis(10)).await;
        }
        self.go_on(AFTERWARDS).await;
    }

    /// Stops them; whoever is not answered long after his deadline is a broken promise.
    pub async fn stop(self, report: &mut Report) -> Vec<(FailurePolicy, LoadRun)> {
        const PATIENCE: Duration = Duration::from_secs(10);
        self.stop.store(true, Ordering::Relaxed);
        let mut runs = Vec::new();
        for CallerGroup { policy, run, .. } in self.groups {
            match tokio::time::timeout(PATIENCE, run).await {
                Ok(run) => runs.push((policy, run.expect("callers do not panic"))),
                Err(_) => drop(report.promise(false, format!("{policy}: no request hangs"))),
            }
        }
        runs
    }
}

impl FaultTimes {
    /// Notes what one replica's callers saw of it, and whether it was what they are promised.
    pub fn judge(&self, policy: FailurePolicy, run: &LoadRun, length: Length, report: &mut Report) {
        let mut about = Report::new(policy.to_string());
        self.judge_times(run, length, &mut about);
        self.judge_answers(policy, run, &mut about);
        report.include(about);
    }

    fn judge_times(&self, run: &LoadRun, length: Length, report: &mut Report) {
        // Everybody else on this machine has a share in the longest wait.
        const LONGEST: Duration = Duration::from_millis(300);
        let since = run.between(self.began, u64::MAX);
        let took = since.latencies();
        let (p99, max) = (took.per_mille(990), took.max());
        let is_late = |asked: &&AnsweredRequest| {
            asked.received - asked.sent > (DEADLINE + SLACK).as_nanos() as u64
        };
        let late = since.asked.iter().filter(is_late).count();
        report.fact(format!(
            "{} answers, p50 {:.1?}, p99 {p99:.1?}, p99.9 {:.1?}, longest {max:.1?}, {late} after {:?}",
            took.count(),
            took.per_mille(500),
            took.per_mille(999),
            DEADLINE + SLACK,
        ));
        report.promise(
            max <= LONGEST,
            format!("the longest answer took {max:.1?}, at most {LONGEST:?}"),
        );
        if length == Length::Long {
            report.promise(
                p99 <= DEADLINE + SLACK,
                format!("99 % of the answers within deadline and slack ({p99:.1?})"),
            );
        }
        let longest = length.pick(Duration::from_secs(3), Duration::from_secs(1));
        let back = self.time_to_normal(run);
        report.promise(
            back <= longest,
            format!("normal {back:.0?} after healing, at most {longest:?}"),
        );
    }

    fn judge_answers(&self, policy: FailurePolicy, run: &LoadRun, report: &mut Report) {
        let all = run.answers();
        report.fact(format!("{all:?}"));
        report.promise(
            run.between(0, self.began).answers().allowed > 0,
            "the store decided before the fault",
        );
        let after = run.between(self.healed, u64::MAX);
        report.promise(
            after.answers().allowed > 0,
            "the store decides after the fault",
        );
        let only_as_told = match policy {
            FailurePolicy::Open => {
                all.unavailable + all.allowed_locally + all.rejected_locally == 0
            }
            FailurePolicy::Closed(_) => {
                all.unchecked + all.allowed_locally + all.rejected_locally == 0
            }
            FailurePolicy::Local => all.unchecked + all.unavailable == 0,
        };
        report.promise(only_as_told, "nothing happens that the policy does not say");
        let checked = bound(self.losses).check(&run.admissions());
        report.promise(
            checked.holds(),
            format!("admitted within the bound: {checked}"),
        );
    }

    /// How long after healing the last request met an absent store.
    pub fn time_to_normal(&self, run: &LoadRun) -> Duration {
        let last = run
            .asked
            .iter()
            .filter(|asked| is_failure(asked.answer))
            .map(|asked| asked.received)
            .max();
        Duration::from_nanos(last.unwrap_or(0).saturating_sub(self.healed))
    }

    /// The same for each of several faults, one after the other.
    pub fn times_to_normal(faults: &[Self], run: &LoadRun) -> Vec<Duration> {
        let ends = faults.iter().skip(1).map(|next| next.began);
        let time = |(fault, end): (&Self, u64)| {
            let mut of_fault = run.between(fault.began, end);
            // Questions under way when the next fault began belong to that one.
            of_fault.asked.retain(|asked| asked.received < end);
            fault.time_to_normal(&of_fault)
        };
        faults
            .iter()
            .zip(ends.chain([u64::MAX]))
            .map(time)
            .collect()
    }
}

/// True when only a store that does not answer explains it.
pub fn is_failure(answer: AnswerKind) -> bool {
    !matches!(answer, AnswerKind::Allowed | AnswerKind::Rejected)
}

/// How many questions met an absent store.
pub fn failures(run: &LoadRun) -> usize {
    run.asked
        .iter()
        .filter(|asked| is_failure(asked.answer))
        .count()
}

/// A fault that is felt from now on; [`FaultTimes::healed`] is to be set when it ends.
pub fn begins_now() -> FaultTimes {
    FaultTimes {
        began: now(),
        healed: u64::MAX,
        losses: 0,
    }
}
