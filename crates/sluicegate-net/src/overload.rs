//! What connections do when the process has too much to hold: one stage for the whole process,
//! set by whoever measures and obeyed by whoever accepts or supervises a connection.
//!
//! The stage is one atomic, read when a connection is accepted and at each tick of its supervisor.
//! A request does not look at it. Within a stage, a bar is lowered the longer it lasts: those that
//! were idle longest, or that may hold most, go first, and nobody has to compare connections with
//! each other.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::time::Duration;

use crate::activity::Activity;

/// How much a process that has too much to hold gives up. Each stage includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OverloadStage {
    /// Nothing.
    #[default]
    Normal,
    /// New connections are closed.
    RefuseNew,
    /// Idle connections are closed.
    CloseIdle,
    /// Connections with requests under way are reset, first those that may hold most.
    ResetLargest,
}

impl OverloadStage {
    /// Every stage, in the order of their numbers (`stage as usize`).
    pub const ALL: [Self; 4] = [
        Self::Normal,
        Self::RefuseNew,
        Self::CloseIdle,
        Self::ResetLargest,
    ];

    /// The stage in words, for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::RefuseNew => "new connections are closed",
            Self::CloseIdle => "idle connections are closed",
            Self::ResetLargest => "connections that hold most are reset",
        }
    }
}

/// A connection that was given up because of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShedConnection {
    /// It was new.
    New,
    /// It was idle.
    Idle,
    /// It had requests under way, and may have held much.
    Large,
}

impl ShedConnection {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::New, Self::Idle, Self::Large];

    /// The kind as metrics show it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Idle => "idle",
            Self::Large => "large",
        }
    }
}

/// The stage of a process, with the figures behind it.
#[derive(Debug, Default)]
pub struct OverloadState {
    /// An [`OverloadStage`] as a number.
    stage: AtomicU8,
    /// Idle connections are closed from this many milliseconds on.
    idle_min_ms: AtomicU64,
    /// Connections that may hold this many bytes are reset.
    held_min: AtomicU64,
    used_bytes: AtomicU64,
    budget_bytes: AtomicU64,
    /// By the number of the kind.
    shed: [AtomicU64; ShedConnection::ALL.len()],
}

impl OverloadState {
    /// So many connections of an endpoint are accepted in any stage. Refusing them could not lower
    /// what is held, and a process whose memory does not fall would not serve anybody for ever.
    pub const CONNECTIONS_MIN: usize = 16;
    /// Time after which the bars of a stage are halved.
    pub const STEP: Duration = Duration::from_secs(1);
    const IDLE_FIRST: Duration = Duration::from_secs(16);
    const HELD_FIRST: u64 = 16 << 20;

    /// Records what was measured; a budget of `None` is any amount.
    pub fn record(&self, used_bytes: u64, budget_bytes: Option<u64>) {
        self.used_bytes.store(used_bytes, Relaxed);
        self.budget_bytes.store(budget_bytes.unwrap_or(0), Relaxed);
    }

    /// Puts a stage in force that has lasted for `since`.
    pub fn set(&self, stage: OverloadStage, since: Duration) {
        let steps = (since.as_millis() / Self::STEP.as_millis()).min(32) as u32;
        // From the fifth step on, and before any request is given up, every idle connection goes.
        let idle_ms = match (Self::IDLE_FIRST.as_millis() as u64) >> steps {
            0..1_000 => 0,
            _ if stage == OverloadStage::ResetLargest => 0,
            idle_ms => idle_ms,
        };
        self.idle_min_ms.store(idle_ms, Relaxed);
        let held = (Self::HELD_FIRST >> steps).max(Activity::BYTES_OF_REQUEST);
        self.held_min.store(held, Relaxed);
        self.stage.store(stage as u8, Relaxed);
    }

    /// The stage in force.
    pub fn stage(&self) -> OverloadStage {
        let number = usize::from(self.stage.load(Relaxed));
        OverloadStage::ALL.get(number).copied().unwrap_or_default()
    }

    /// Bytes that the process used when it was last measured.
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    /// Bytes that it may use; zero is any amount.
    pub fn budget_bytes(&self) -> u64 {
        self.budget_bytes.load(Relaxed)
    }

    /// Connections of a kind that were given up since the start.
    pub fn shed(&self, kind: ShedConnection) -> u64 {
        self.shed[kind as usize].load(Relaxed)
    }

    /// Returns true when a new connection is to be closed, and counts it. Its endpoint has `open`.
    pub(crate) fn refuses_new(&self, open: usize) -> bool {
        let refuses = self.stage() >= OverloadStage::RefuseNew && open >= Self::CONNECTIONS_MIN;
        if refuses {
            self.count(ShedConnection::New);
        }
        refuses
    }

    /// Decides at a tick whether a connection that has done nothing for `still` has to go.
    pub(crate) fn sheds(&self, activity: &Activity, still: Duration) -> Option<ShedConnection> {
        let stage = self.stage();
        let is_idle = stage >= OverloadStage::CloseIdle
            && activity.is_quiet()
            && still.as_millis() as u64 >= self.idle_min_ms.load(Relaxed);
        let is_large = stage >= OverloadStage::ResetLargest
            && activity.held_bytes() >= self.held_min.load(Relaxed);
        match (is_idle, is_large) {
            (true, _) => Some(ShedConnection::Idle),
            (false, true) => Some(ShedConnection::Large),
            (false, false) => None,
        }
    }

    /// Counts a connection that is given up.
    pub(crate) fn count(&self, kind: ShedConnection) {
        self.shed[kind as usize].fetch_add(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STILL: Duration = Duration::ZERO;

    fn idle() -> Activity {
        let activity = Activity::new();
        activity.begin_request();
        activity.end_request();
        activity
    }

    fn busy(requests: usize) -> Activity {
        let activity = Activity::new();
        (0..requests).for_each(|_| activity.begin_request());
        activity
    }

    #[test]
    fn each_stage_gives_up_what_the_one_before_does_and_more() {
        let state = OverloadState::default();
        let many = OverloadState::CONNECTIONS_MIN;
        let given_up = |stage| {
            state.set(stage, Duration::from_secs(60));
            (
                state.refuses_new(many),
                state.sheds(&idle(), STILL),
                state.sheds(&busy(1), STILL),
            )
        };
        let (idle, large) = (Some(ShedConnection::Idle), Some(ShedConnection::Large));
        assert_eq!(given_up(OverloadStage::Normal), (false, None, None));
        assert_eq!(given_up(OverloadStage::RefuseNew), (true, None, None));
        assert_eq!(given_up(OverloadStage::CloseIdle), (true, idle, None));
        assert_eq!(given_up(OverloadStage::ResetLargest), (true, idle, large));
        assert!(!state.refuses_new(many - 1), "a few are always served");
        assert_eq!(state.shed(ShedConnection::New), 3);
    }

    #[test]
    fn the_longest_idle_and_those_that_may_hold_most_go_first() {
        let state = OverloadState::default();
        let closes = |still, since| {
            state.set(OverloadStage::CloseIdle, Duration::from_secs(since));
            state.sheds(&idle(), Duration::from_secs(still)).is_some()
        };
        for (still, since) in [(16, 0), (8, 1), (4, 2), (1, 4), (0, 5)] {
            assert!(closes(still, since), "{still} s at {since} s");
        }
        for (still, since) in [(15, 0), (7, 1), (0, 4)] {
            assert!(!closes(still, since), "{still} s at {since} s");
        }
        let resets = |activity: &Activity, since| {
            state.set(OverloadStage::ResetLargest, Duration::from_secs(since));
            state.sheds(activity, Duration::ZERO).is_some()
        };
        assert!(resets(&idle(), 0), "idle ones go before any request");
        let unread = busy(100);
        unread.record_waiting(100 << 20);
        assert!(resets(&unread, 0));
        assert!(!resets(&busy(100), 1) && resets(&busy(100), 2));
        assert!(!resets(&busy(1), 7) && resets(&busy(1), 8));
        assert!(!resets(&Activity::new(), 1_000_000), "it has not begun");
    }
}
