//! One thing asked of Redis, on its way through lanes and drivers.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sluicegate_core::{List, Nanos, Outcome, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::script::{Answer, Drawn, Refunded};
use super::{Item, Items};
use crate::store::StoreError;

/// Something to be done, on its way: passed from hand to hand as one pointer.
pub(super) struct Ask(Box<Asked>);

/// What is to be done, the time until which somebody waits for it, and where the answer goes.
pub(super) struct Asked {
    pub(super) work: Work,
    /// The cluster's slot of all keys; 0 elsewhere.
    pub(super) slot: u16,
    /// When it was asked: by the caller's clock, and by the runtime's.
    pub(super) asked_at: Timestamp,
    pub(super) asked: Instant,
    /// The caller's clock once more, read after the runtime's.
    pub(super) asked_by: Timestamp,
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
    Decide(Items),
    /// Give back the units of one charge.
    Refund { item: Item, drawn: Drawn },
    /// Forget a counter.
    Delete { key: String, hash: u64 },
    /// Look at a value that is no counter.
    Get { key: String },
    /// Keep a value that is no counter for a while.
    Put {
        key: String,
        value: Vec<u8>,
        ttl_ms: u64,
    },
    /// The same, if the value that was read is still there; an empty one stands for none.
    Swap {
        key: String,
        read: Vec<u8>,
        value: Vec<u8>,
        ttl_ms: u64,
    },
}

/// What Redis said.
pub(super) enum Told {
    /// The answers to a request's charges, at this instant of the server's clock.
    Decided {
        now: Timestamp,
        answers: List<Answer>,
    },
    /// Denied for certain by what another answer on the same counters showed.
    Remembered(List<Outcome>),
    /// The state that a refund left.
    Refunded(Refunded),
    /// The counter is gone.
    Deleted,
    /// The value, if there is one.
    Found(Option<Vec<u8>>),
    /// The value is kept.
    Kept,
    /// Whether the value is kept.
    Swapped(bool),
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
            Fault::Split => {
                Self::Unavailable("the keys of the request are moving between nodes".to_owned())
            }
        }
    }
}

impl From<Asked> for Ask {
    fn from(asked: Asked) -> Self {
        Self(Box::new(asked))
    }
}

impl Deref for Ask {
    type Target = Asked;

    fn deref(&self) -> &Asked {
        &self.0
    }
}

impl DerefMut for Ask {
    fn deref_mut(&mut self) -> &mut Asked {
        &mut self.0
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

    /// Whether somebody still waits, or it has to be done for its own sake.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_give_back()
            || self
                .answer
                .as_ref()
                .is_none_or(|answer| !answer.is_closed())
    }

    /// Whether it comes too late to be sent. Units are given back a little longer than anybody waits: otherwise a busy
    /// moment would cost their owner units that nobody used.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        const GRACE: Duration = Duration::from_secs(1);
        if self.is_give_back() {
            self.deadline + GRACE <= now
        } else {
            self.deadline <= now
        }
    }

    /// A refund that is as right late as early: it knows the instant of its draw.
    fn is_give_back(&self) -> bool {
        matches!(
            self.work,
            Work::Refund {
                drawn: Drawn::At(_),
                ..
            }
        )
    }

    /// The same ask on its way to another node; `None`, answered, when it has been round too often.
    pub(super) fn sent_on(mut self, asking: bool) -> Option<Self> {
        if self.hops >= Self::HOPS_MAX {
            self.tell(Err(Fault::Away(
                "nodes keep sending the request on to each other".to_owned(),
            )));
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
            Work::Refund { item, .. } => (std::slice::from_ref(item), None),
            Work::Delete { hash, .. } => (&[][..], Some(*hash)),
            Work::Get { .. } | Work::Put { .. } | Work::Swap { .. } => (&[][..], None),
        };
        items.iter().map(|item| item.hash).chain(single)
    }

    /// The instant by the caller's clock at which something happened by the runtime's, or a little earlier.
    pub(super) fn by_callers_clock(&self, instant: Instant) -> Timestamp {
        self.asked_at
            .after(Nanos::from(instant.saturating_duration_since(self.asked)))
    }

    /// The same, or a little later.
    pub(super) fn by_callers_clock_at_latest(&self, instant: Instant) -> Timestamp {
        self.asked_by
            .after(Nanos::from(instant.saturating_duration_since(self.asked)))
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("slot", &self.slot)
            .field("hops", &self.hops)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::Quota;
    use smallvec::smallvec;

    use super::*;

    fn ask(work: Work) -> Ask {
        let now = Instant::now();
        // The caller has gone away already.
        let answer = Some(oneshot::channel().0);
        let asked_at = Timestamp::from_nanos(1);
        Asked {
            work,
            slot: 0,
            asked_at,
            asked: now,
            asked_by: asked_at,
            deadline: now,
            hops: 0,
            asking: false,
            answer,
        }
        .into()
    }

    fn item() -> Item {
        let quota = Quota::from(Quota::per_second(1).burst(1));
        Item {
            key: "counter".to_owned(),
            hash: 1,
            quota,
            cost: 1,
            enforced: true,
        }
    }

    #[test]
    fn what_happens_lies_between_two_readings_of_the_callers_clock() {
        let read_again = Timestamp::from_nanos(8);
        let mut ask = ask(Work::Decide(smallvec![item()]));
        ask.asked_by = read_again;
        let later = ask.asked + Duration::from_nanos(100);
        let between = (
            ask.by_callers_clock(later),
            ask.by_callers_clock_at_latest(later),
        );
        assert_eq!(
            between,
            (Timestamp::from_nanos(101), Timestamp::from_nanos(108))
        );
    }

    #[test]
    fn units_are_given_back_though_nobody_waits_any_more() {
        let drawn = Drawn::At(Timestamp::from_nanos(1));
        let give_back = ask(Work::Refund {
            item: item(),
            drawn,
        });
        assert!(give_back.is_wanted() && !give_back.is_over(give_back.deadline));
        assert!(
            give_back.is_over(give_back.deadline + Duration::from_secs(1)),
            "but not for ever"
        );
        for work in [
            Work::Decide(smallvec![item()]),
            Work::Refund {
                item: item(),
                drawn: Drawn::Ago(Nanos::SECOND),
            },
        ] {
            let ask = ask(work);
            assert!(
                !ask.is_wanted() && ask.is_over(ask.deadline),
                "late it would be wrong"
            );
        }
    }
}
