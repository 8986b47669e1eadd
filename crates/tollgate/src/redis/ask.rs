//! One thing asked of Redis, on its way through lanes and drivers.

use std::fmt;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tollgate_core::{List, Nanos, Outcome, Timestamp};

use super::Item;
use super::script::{Answer, Drawn, Refunded};
use crate::store::StoreError;

/// Something to be done, the time until which somebody waits for it, and where the answer goes.
pub(super) struct Ask {
    pub(super) work: Work,
    /// The cluster's slot of all keys; 0 elsewhere.
    pub(super) slot: u16,
    /// When it was asked: by the caller's clock, and by the runtime's.
    pub(super) asked_at: Timestamp,
    pub(super) asked: Instant,
    pub(super) deadline: Instant,
    /// Nodes that sent it on to another one.
    pub(super) hops: u8,
    /// The node it goes to takes it only after `ASKING`: the slot is on its way there.
    pub(super) asking: bool,
    /// `None` when nobody waits: a give-back that is worth trying.
    pub(super) answer: Option<oneshot::Sender<Result<Told, Fault>>>,
}

/// What is to be done.
pub(super) enum Work {
    /// Decide the charges of one request, all or nothing.
    Decide(Vec<Item>),
    /// Give back the units of one charge. Rare, so it does not make every ask as large as a charge.
    Refund { item: Box<Item>, drawn: Drawn },
    /// Forget a counter.
    Delete { key: String, hash: u64 },
}

/// What Redis said.
pub(super) enum Told {
    /// The answers to a request's charges, at this instant of the server's clock.
    Decided { now: Timestamp, answers: List<Answer> },
    /// Denied for certain by what another answer on the same counters showed.
    Remembered(List<Outcome>),
    /// The state that a refund left.
    Refunded(Refunded),
    /// The counter is gone.
    Deleted,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Nothing came back in time.
    TimedOut,
    /// The node is away, or cannot decide now.
    Away(String),
    /// The keys of the request are on two nodes for the moment: one call cannot take them all.
    Split,
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::TimedOut => Self::TimedOut,
            Fault::Away(why) => Self::Unavailable(why),
            Fault::Split => Self::Unavailable("the keys of the request are moving between nodes".to_owned()),
        }
    }
}

impl Ask {
    /// More nodes than a request meets within its deadline unless something is wrong with the cluster.
    const HOPS_MAX: u8 = 100;
    /// After so many, two nodes disagree about a slot that changes hands; a moment later they will not.
    pub(super) const HOPS_IN_A_ROW: u8 = 3;

    /// Answers; a caller who has gone away does not mind.
    pub(super) fn tell(mut self, told: Result<Told, Fault>) {
        if let Some(answer) = self.answer.take() {
            let _ = answer.send(told);
        }
    }

    /// Whether somebody still waits, or nobody ever did.
    pub(super) fn is_wanted(&self) -> bool {
        self.answer.as_ref().is_none_or(|answer| !answer.is_closed())
    }

    /// The same ask on its way to another node; `None`, answered, when it has been round too often.
    pub(super) fn sent_on(mut self, asking: bool) -> Option<Self> {
        if self.hops >= Self::HOPS_MAX {
            self.tell(Err(Fault::Away("nodes keep sending the request on to each other".to_owned())));
            return None;
        }
        self.hops += 1;
        self.asking = asking;
        Some(self)
    }

    /// The counters it touches.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        let (items, single) = match &self.work {
            Work::Decide(items) => (items.as_slice(), None),
            Work::Refund { item, .. } => (&[][..], Some(item.hash)),
            Work::Delete { hash, .. } => (&[][..], Some(*hash)),
        };
        items.iter().map(|item| item.hash).chain(single)
    }

    /// The instant by the caller's clock at which something happened by the runtime's.
    pub(super) fn by_callers_clock(&self, instant: Instant) -> Timestamp {
        self.asked_at.after(Nanos::from(instant.saturating_duration_since(self.asked)))
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("slot", &self.slot).field("hops", &self.hops).finish_non_exhaustive()
    }
}
