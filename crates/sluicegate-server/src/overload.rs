//! The overload manager: it compares the memory of the process with its budget, five times a
//! second, and puts a stage in force that every connection obeys
//! ([ADR 0026](../../../docs/adr/0026-an-overload-manager-with-three-stages.md)).
//!
//! The figure is the resident set, as the system counts it: that is what it kills a process for.
//! The allocator's figures leave out what it has not given back, and those of the control group
//! include files that the system would drop by itself.

mod memory_budget;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sluicegate_config::MemoryBudget;
use sluicegate_net::{ConnectionCounters, OverloadStage, OverloadState};
use tokio::time::{MissedTickBehavior, interval};

/// The memory that the process uses, in bytes; `None` where the system does not tell.
pub type UsedMemory = dyn Fn() -> Option<u64> + Send + Sync;

/// Watches the memory of the process.
pub(crate) struct OverloadManager {
    counters: Arc<ConnectionCounters>,
    /// In bytes; zero is any amount. A reload changes it.
    budget: AtomicU64,
}

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(200);

impl OverloadManager {
    /// A manager of these connections.
    pub(crate) fn new(counters: &Arc<ConnectionCounters>, budget: MemoryBudget) -> Self {
        let manager = Self {
            counters: Arc::clone(counters),
            budget: AtomicU64::new(0),
        };
        manager.set_budget(budget);
        manager
    }

    /// Puts another budget in force.
    pub(crate) fn set_budget(&self, budget: MemoryBudget) {
        let bytes = memory_budget::in_bytes(budget);
        if bytes.is_none() && budget != MemoryBudget::Unlimited {
            tracing::warn!(
                "overload.memory: how much memory there is cannot be found out, so there is no budget: set a size instead of a share"
            );
        }
        self.budget.store(bytes.unwrap_or(0), Ordering::Relaxed);
    }

    /// Watches for ever.
    pub(crate) async fn follow(self: Arc<Self>, used: Box<UsedMemory>) {
        let mut stages = Stages::default();
        let mut looks = interval(INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if let Some(used) = used() {
                self.look(&mut stages, used, Instant::now());
            }
        }
    }

    fn look(&self, stages: &mut Stages, used: u64, now: Instant) {
        let budget = self.budget.load(Ordering::Relaxed);
        let budget = Some(budget).filter(|budget| *budget > 0);
        let state = self.counters.overload();
        state.record(used, budget);
        let before = stages.stage;
        state.set(stages.advance(used, budget, now), stages.lasts(now));
        if stages.stage != before {
            tell(stages.stage, before, state);
        }
    }
}

/// One line for each change.
fn tell(stage: OverloadStage, before: OverloadStage, state: &OverloadState) {
    let (used, budget) = (state.used_bytes() >> 20, state.budget_bytes() >> 20);
    if stage > before {
        tracing::warn!(used_mib = used, budget_mib = budget, stage = %stage.as_str(), "memory is short");
    } else {
        tracing::info!(used_mib = used, budget_mib = budget, stage = %stage.as_str(), "memory is less short");
    }
}

/// The stage in force, and since when.
#[derive(Default)]
struct Stages {
    stage: OverloadStage,
    since: Option<Instant>,
}

impl Stages {
    /// Finds the stage for so much memory. Each begins above its share of the budget, in percent,
    /// and ends five percent below that, so that a process at the edge does not come and go.
    fn advance(&mut self, used: u64, budget: Option<u64>, now: Instant) -> OverloadStage {
        const BEGINS: [(OverloadStage, u128); 3] = [
            (OverloadStage::ResetLargest, 100),
            (OverloadStage::CloseIdle, 95),
            (OverloadStage::RefuseNew, 90),
        ];
        const ENDS_BELOW: u128 = 5;
        let is_in = |(stage, begins): &&(OverloadStage, u128)| {
            let percent = if self.stage >= *stage {
                begins - ENDS_BELOW
            } else {
                *begins
            };
            let is_above = |budget| u128::from(used) * 100 > u128::from(budget) * percent;
            budget.is_some_and(is_above)
        };
        let stage = BEGINS.iter().find(is_in).map(|(stage, _)| *stage);
        let stage = stage.unwrap_or_default();
        if stage != self.stage || self.since.is_none() {
            (self.stage, self.since) = (stage, Some(now));
        }
        stage
    }

    fn lasts(&self, now: Instant) -> Duration {
        self.since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_begins_above_its_share_and_ends_below_it() {
        use OverloadStage::{CloseIdle, Normal, RefuseNew, ResetLargest};
        let (mut stages, now) = (Stages::default(), Instant::now());
        let walk = [
            (0, Normal),
            (90, Normal),
            (91, RefuseNew),
            (95, RefuseNew),
            (86, RefuseNew),
            (96, CloseIdle),
            (91, CloseIdle),
            (90, RefuseNew),
            (85, Normal),
            (100, CloseIdle),
            (101, ResetLargest),
            (1_000, ResetLargest),
            (96, ResetLargest),
            (95, CloseIdle),
            (87, RefuseNew),
            (101, ResetLargest),
            (10, Normal),
        ];
        for (step, (used, expected)) in walk.into_iter().enumerate() {
            let stage = stages.advance(used << 20, Some(100 << 20), now);
            assert_eq!(stage, expected, "step {step}: {used} %");
        }
        assert_eq!(stages.advance(u64::MAX, None, now), Normal, "no budget");
        assert_eq!(stages.advance(u64::MAX, Some(u64::MAX), now), CloseIdle);
    }

    #[test]
    fn the_time_of_a_stage_begins_with_it() {
        let (mut stages, start) = (Stages::default(), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        stages.advance(92, Some(100), after(10));
        stages.advance(94, Some(100), after(12));
        assert_eq!(stages.lasts(after(13)), Duration::from_secs(3));
        stages.advance(99, Some(100), after(14));
        assert_eq!(stages.lasts(after(15)), Duration::from_secs(1));
    }

    #[test]
    fn a_reload_changes_the_budget_at_the_next_look() {
        let counters = Arc::<ConnectionCounters>::default();
        let manager = OverloadManager::new(&counters, MemoryBudget::Bytes(100));
        let (mut stages, now) = (Stages::default(), Instant::now());
        manager.look(&mut stages, 99, now);
        assert_eq!(counters.overload().stage(), OverloadStage::CloseIdle);
        manager.set_budget(MemoryBudget::Bytes(1_000));
        manager.look(&mut stages, 99, now);
        assert_eq!(counters.overload().stage(), OverloadStage::Normal);
        assert_eq!(counters.overload().budget_bytes(), 1_000);
        manager.set_budget(MemoryBudget::Unlimited);
        manager.look(&mut stages, u64::MAX, now);
        assert_eq!(counters.overload().stage(), OverloadStage::Normal);
    }
}
