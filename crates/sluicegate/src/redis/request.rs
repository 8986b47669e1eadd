//! One request to Redis, from the caller to the driver that writes it, and its response.
//!
//! `sender` makes requests. They wait in a lane, or in the scout's pending list while no owner is
//! known, and end in `traffic`, which puts many of them into one call. Whoever holds a request
//! owns the duty to respond to it.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sluicegate_core::{List, Nanos, Outcome, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::charge::{StoreCharge, StoreCharges};
use super::script::{ChargeReply, ChargeTime, RefundReply};
use crate::store::StoreError;

/// A request on its way to a node. It is one pointer, because it moves through several queues.
pub(super) struct StoreRequest(Box<RequestState>);

/// The operation, the time until which somebody waits for it, and where the response goes.
pub(super) struct RequestState {
    pub(super) operation: Operation,
    /// Cluster slot of all its keys; 0 where there is no cluster.
    pub(super) slot: u16,
    /// When it was submitted by the caller's clock, or a little earlier.
    pub(super) submitted_at: Timestamp,
    /// When it was submitted by the runtime's clock.
    pub(super) submitted: Instant,
    /// When it was submitted by the caller's clock, or a little later: read after the runtime's.
    pub(super) submitted_at_latest: Timestamp,
    /// The instant by which the caller gets a response, if only `TimedOut`.
    pub(super) deadline: Instant,
    /// Number of nodes that redirected it to another node.
    pub(super) hops: u8,
    /// True when the node accepts it only after `ASKING`, because the slot is moving there.
    pub(super) asking: bool,
    /// Where the response goes. `None` when nobody waits: a compensating refund, or a request that
    /// was already told that its time is over.
    pub(super) responder: Option<oneshot::Sender<Result<StoreResponse, RequestError>>>,
}

/// One operation of the store.
pub(super) enum Operation {
    /// Decides the charges of one request of a client, all or nothing.
    Decide(StoreCharges),
    /// Gives back the units of one charge.
    Refund {
        charge: StoreCharge,
        /// When those units were spent; part of them has flowed back since.
        charged: ChargeTime,
    },
    /// Deletes a counter, which makes it full.
    Delete { key: String, hash: u64 },
    /// Reads a value that is no counter.
    Get { key: String },
    /// Stores a value that is no counter.
    Put {
        key: String,
        value: Vec<u8>,
        ttl_ms: u64,
    },
    /// Stores a value if the key still holds `read`; an empty `read` stands for no value.
    Swap {
        key: String,
        read: Vec<u8>,
        value: Vec<u8>,
        ttl_ms: u64,
    },
}

impl Operation {
    /// The key that chooses the node. The keys of a decision all have the same slot.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Decide(charges) => charges.first().map_or("", |charge| charge.key.as_str()),
            Self::Refund { charge, .. } => charge.key.as_str(),
            Self::Delete { key, .. }
            | Self::Get { key }
            | Self::Put { key, .. }
            | Self::Swap { key, .. } => key.as_str(),
        }
    }
}

/// A successful response. Each variant belongs to one [`Operation`].
pub(super) enum StoreResponse {
    /// Replies to a request's charges, in their order, at this instant of the server's clock.
    Decided {
        now: Timestamp,
        answers: List<ChargeReply>,
    },
    /// The request is certainly denied, as a reply to somebody else's call on its counters shows.
    FromMemory(List<Outcome>),
    /// The state that a refund left.
    Refunded(RefundReply),
    /// The counter is gone.
    Deleted,
    /// The value of a `Get`, if there is one.
    Value(Option<Vec<u8>>),
    /// The value of a `Put` is stored.
    Stored,
    /// True when the value of a `Swap` is stored, false when the key held another value.
    Swapped(bool),
}

/// The reason why a request got no successful response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestError {
    /// No response came by the deadline. Redis may have performed the operation.
    TimedOut,
    /// The node is away, or cannot perform the operation now.
    Unavailable(String),
    /// The slot is moving and the keys of the request are on two nodes: one call cannot have them
    /// all. Never leaves the store; `multi_slot` sends each key alone.
    SplitKeys,
}

impl RequestError {
    /// The connection, or the task behind it, ended before a response came.
    pub(super) fn closed() -> Self {
        Self::Unavailable("the connection was closed".to_owned())
    }

    /// The response is of another operation, which a mistake in this store would cause.
    pub(super) fn mismatched() -> Self {
        Self::Unavailable("unexpected response type, please report this as a bug".to_owned())
    }
}

impl From<RequestError> for StoreError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::TimedOut => Self::TimedOut,
            RequestError::Unavailable(reason) => Self::Unavailable(reason),
            RequestError::SplitKeys => {
                Self::Unavailable("the keys of the request are moving between nodes".to_owned())
            }
        }
    }
}

impl From<RequestState> for StoreRequest {
    fn from(state: RequestState) -> Self {
        Self(Box::new(state))
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
    /// More redirections than fit into a deadline, unless the nodes of a cluster disagree for good.
    const HOPS_MAX: u8 = 100;
    /// After this many redirections two nodes disagree about a slot that is moving. They agree a
    /// moment later, so the request pauses before it travels on.
    pub(super) const HOPS_IN_A_ROW: u8 = 3;

    /// Sends the response. A caller that has stopped waiting is no error.
    pub(super) fn respond(mut self, response: Result<StoreResponse, RequestError>) {
        self.respond_once(response);
    }

    /// Sends the response and keeps the request, whose charges are still needed. A second response
    /// goes nowhere.
    pub(super) fn respond_once(&mut self, response: Result<StoreResponse, RequestError>) {
        if let Some(responder) = self.responder.take() {
            let _ = responder.send(response);
        }
    }

    /// Returns true while somebody waits for the response, or the operation matters without one.
    pub(super) fn is_wanted(&self) -> bool {
        self.is_compensation()
            || self
                .responder
                .as_ref()
                .is_none_or(|responder| !responder.is_closed())
    }

    /// Returns true when it is too late to send the request. A compensating refund has a second
    /// more than anybody waits: otherwise a busy moment would cost its owner units that nobody
    /// used.
    pub(super) fn is_too_late(&self, now: Instant) -> bool {
        const GRACE: Duration = Duration::from_secs(1);
        if self.is_compensation() {
            self.deadline + GRACE <= now
        } else {
            self.deadline <= now
        }
    }

    /// Returns true for a refund that undoes part of a denied request. It names the instant of the
    /// charge, so it is as correct late as early; a refund by age is not.
    fn is_compensation(&self) -> bool {
        matches!(
            self.operation,
            Operation::Refund {
                charged: ChargeTime::At(_),
                ..
            }
        )
    }

    /// The same request on its way to another node. Responds with an error and returns `None` after
    /// too many redirections.
    pub(super) fn redirected(mut self, asking: bool) -> Option<Self> {
        if self.hops >= Self::HOPS_MAX {
            self.respond(Err(RequestError::Unavailable(
                "nodes keep redirecting the request to each other".to_owned(),
            )));
            return None;
        }
        self.hops += 1;
        self.asking = asking;
        Some(self)
    }

    /// The charges of a decision; `None` for any other operation.
    pub(super) fn charges(&self) -> Option<&[StoreCharge]> {
        match &self.operation {
            Operation::Decide(charges) => Some(charges),
            Operation::Refund { .. }
            | Operation::Delete { .. }
            | Operation::Get { .. }
            | Operation::Put { .. }
            | Operation::Swap { .. } => None,
        }
    }

    /// Hashes of the counters that the operation touches; none for values that are no counters.
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

    /// Converts an instant of the runtime's clock to the caller's clock, rounded to the earlier
    /// side. The two clocks were read one after the other, so there is a little doubt.
    pub(super) fn callers_time(&self, instant: Instant) -> Timestamp {
        self.submitted_at.after(Nanos::from(
            instant.saturating_duration_since(self.submitted),
        ))
    }

    /// The same conversion, rounded to the later side.
    pub(super) fn callers_time_at_latest(&self, instant: Instant) -> Timestamp {
        self.submitted_at_latest.after(Nanos::from(
            instant.saturating_duration_since(self.submitted),
        ))
    }
}

impl fmt::Debug for StoreRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreRequest")
            .field("slot", &self.slot)
            .field("hops", &self.hops)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::{Draw, Quota};
    use smallvec::smallvec;

    use super::*;

    fn request(operation: Operation) -> StoreRequest {
        let now = Instant::now();
        // The caller has gone away already.
        let responder = Some(oneshot::channel().0);
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
            responder,
        }
        .into()
    }

    fn charge() -> StoreCharge {
        let quota = Quota::from(Quota::per_second(1).burst(1));
        StoreCharge {
            key: "counter".to_owned(),
            hash: 1,
            quota,
            base: None,
            digits_only: false,
            cost: 1,
            enforced: true,
            draw: Draw::Take,
        }
    }

    #[test]
    fn an_instant_lies_between_two_readings_of_the_callers_clock() {
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
    fn a_compensating_refund_is_sent_though_nobody_waits() {
        let charged = ChargeTime::At(Timestamp::from_nanos(1));
        let give_back = request(Operation::Refund {
            charge: charge(),
            charged,
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
                charged: ChargeTime::Ago(Nanos::SECOND),
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
