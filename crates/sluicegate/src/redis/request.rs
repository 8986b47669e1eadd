//! One thing asked of Redis, on its way through lanes and drivers.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sluicegate_core::{List, Nanos, Outcome, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::script::{ChargeReply, ChargeTime, RefundReply};
use super::{StoreCharge, StoreCharges};
use crate::store::StoreError;

/// Something to be done, on its way: passed from hand to hand as one pointer.
pub(super) struct StoreRequest(Box<RequestState>);

/// What is to be done, the time until which somebody waits for it, and where the answer goes.
pub(super) struct RequestState {
    pub(super) operation: Operation,
    /// The cluster's slot of all keys; 0 elsewhere.
    pub(super) slot: u16,
    /// When it was asked: by the caller's clock, and by the runtime's.
    pub(super) submitted_at: Timestamp,
    pub(super) submitted: Instant,
    /// The caller's clock once more, read after the runtime's.
    pub(super) submitted_at_latest: Timestamp,
    pub(super) deadline: Instant,
    /// Nodes that sent it on to another one.
    pub(super) hops: u8,
    /// The node it goes to takes it only after `ASKING`: the slot is on its way there.
    pub(super) asking: bool,
    /// `None` when nobody waits: a give-back that is worth trying.
    pub(super) responder: Option<oneshot::Sender<Result<StoreResponse, RequestError>>>,
}

/// What is to be done.
pub(super) enum Operation {
    /// Decide the charges of one request, all or nothing.
    Decide(StoreCharges),
    /// Give back the units of one charge.
    Refund {
        charge: StoreCharge,
        drawn: ChargeTime,
    },
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
pub(super) enum StoreResponse {
    /// The answers to a request's charges, at this instant of the server's clock.
    Decided {
        now: Timestamp,
        answers: List<ChargeReply>,
    },
    /// Denied for certain by what another answer on the same counters showed.
    FromMemory(List<Outcome>),
    /// The state that a refund left.
    Refunded(RefundReply),
    /// The counter is gone.
    Deleted,
    /// The value, if there is one.
    Value(Option<Vec<u8>>),
    /// The value is kept.
    Stored,
    /// Whether the value is kept.
    Swapped(bool),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// Nothing came back in time.
    TimedOut,
    /// The node is away, or cannot decide now.
    Unavailable(String),
    /// The keys of the request are on two nodes for the moment: one call cannot take them all.
    SplitKeys,
}

impl From<RequestError> for StoreError {
    fn from(fault: RequestError) -> Self {
        match fault {
            RequestError::TimedOut => Self::TimedOut,
            RequestError::Unavailable(why) => Self::Unavailable(why),
            RequestError::SplitKeys => {
                Self::Unavailable("the keys of the request are moving between nodes".to_owned())
            }
        }
    }
}

impl From<RequestState> for StoreRequest {
    fn from(submitted: RequestState) -> Self {
        Self(Box::new(submitted))
    }
}

impl Deref for StoreRequest {
    type Target = RequestState;

    fn deref(&self) -> &RequestState {
        &self.0
    }
}

impl DerefMut for StoreRequest {
    fn deref_mut(&mut self) -> &mut RequestState {
        &mut self.0
    }
}

impl StoreRequest {
    /// More nodes than a request meets within its deadline unless something is wrong with the cluster.
    const HOPS_MAX: u8 = 100;
    /// After so many, two nodes disagree about a slot that changes hands; a moment later they will not.
    pub(super) const HOPS_IN_A_ROW: u8 = 3;

    /// Answers; a caller who has gone away does not mind.
    pub(super) fn respond(mut self, told: Result<StoreResponse, RequestError>) {
        if let Some(answer) = self.responder.take() {
            let _ = answer.send(told);
        }
    }

    /// Whether somebody still waits, or it has to be done for its own sake.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_compensation()
            || self
                .responder
                .as_ref()
                .is_none_or(|answer| !answer.is_closed())
    }

    /// Whether it comes too late to be sent. Units are given back a little longer than anybody waits: otherwise a busy
    /// moment would cost their owner units that nobody used.
    pub(super) fn is_too_late(&self, now: Instant) -> bool {
        const GRACE: Duration = Duration::from_secs(1);
        if self.is_compensation() {
            self.deadline + GRACE <= now
        } else {
            self.deadline <= now
        }
    }

    /// A refund that is as right late as early: it knows the instant of its draw.
    fn is_compensation(&self) -> bool {
        matches!(
            self.operation,
            Operation::Refund {
                drawn: ChargeTime::At(_),
                ..
            }
        )
    }

    /// The same ask on its way to another node; `None`, answered, when it has been round too often.
    pub(super) fn redirected(mut self, asking: bool) -> Option<Self> {
        if self.hops >= Self::HOPS_MAX {
            self.respond(Err(RequestError::Unavailable(
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
        let (charges, single) = match &self.operation {
            Operation::Decide(charges) => (charges.as_slice(), None),
            Operation::Refund { charge, .. } => (std::slice::from_ref(charge), None),
            Operation::Delete { hash, .. } => (&[][..], Some(*hash)),
            Operation::Get { .. } | Operation::Put { .. } | Operation::Swap { .. } => {
                (&[][..], None)
            }
        };
        charges.iter().map(|charge| charge.hash).chain(single)
    }

    /// The instant by the caller's clock at which something happened by the runtime's, or a little earlier.
    pub(super) fn callers_time(&self, instant: Instant) -> Timestamp {
        self.submitted_at.after(Nanos::from(
            instant.saturating_duration_since(self.submitted),
        ))
    }

    /// The same, or a little later.
    pub(super) fn callers_time_at_latest(&self, instant: Instant) -> Timestamp {
        self.submitted_at_latest.after(Nanos::from(
            instant.saturating_duration_since(self.submitted),
        ))
    }
}

impl fmt::Debug for StoreRequest {
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

    fn request(operation: Operation) -> StoreRequest {
        let now = Instant::now();
        // The caller has gone away already.
        let answer = Some(oneshot::channel().0);
        let submitted_at = Timestamp::from_nanos(1);
        RequestState {
            operation,
            slot: 0,
            submitted_at,
            submitted: now,
            submitted_at_latest: submitted_at,
            deadline: now,
            hops: 0,
            asking: false,
            responder: answer,
        }
        .into()
    }

    fn charge() -> StoreCharge {
        let quota = Quota::from(Quota::per_second(1).burst(1));
        StoreCharge {
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
        let mut request = request(Operation::Decide(smallvec![charge()]));
        request.submitted_at_latest = read_again;
        let later = request.submitted + Duration::from_nanos(100);
        let between = (
            request.callers_time(later),
            request.callers_time_at_latest(later),
        );
        assert_eq!(
            between,
            (Timestamp::from_nanos(101), Timestamp::from_nanos(108))
        );
    }

    #[test]
    fn units_are_given_back_though_nobody_waits_any_more() {
        let drawn = ChargeTime::At(Timestamp::from_nanos(1));
        let give_back = request(Operation::Refund {
            charge: charge(),
            drawn,
        });
        assert!(give_back.is_wanted() && !give_back.is_too_late(give_back.deadline));
        assert!(
            give_back.is_too_late(give_back.deadline + Duration::from_secs(1)),
            "but not for ever"
        );
        for operation in [
            Operation::Decide(smallvec![charge()]),
            Operation::Refund {
                charge: charge(),
                drawn: ChargeTime::Ago(Nanos::SECOND),
            },
        ] {
            let request = request(operation);
            assert!(
                !request.is_wanted() && request.is_too_late(request.deadline),
                "late it would be wrong"
            );
        }
    }
}
