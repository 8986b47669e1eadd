//! Sends requests to Redis on behalf of one caller.
//!
//! `store` and `multi_slot` make one [`RequestSender`] per operation of a caller, so that all
//! requests of that operation share one deadline, however many there are. The router takes over
//! from here.

use std::sync::Arc;

use sluicegate_core::Timestamp;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::context::StoreContext;
use super::request::{Operation, RequestError, RequestState, StoreRequest, StoreResponse};
use crate::clock::Clock;

/// Sends requests that share one deadline and one reading of the clocks.
#[derive(Clone, Copy)]
pub(super) struct RequestSender<'a> {
    context: &'a Arc<StoreContext>,
    /// The caller's clock, read before `submitted`.
    submitted_at: Timestamp,
    /// The runtime's clock; the deadline counts from here.
    submitted: Instant,
    /// The caller's clock once more, read after `submitted`.
    submitted_at_latest: Timestamp,
    /// The instant by which every request has its response.
    deadline: Instant,
}

/// A response that has not come yet.
pub(super) type ResponseReceiver = oneshot::Receiver<Result<StoreResponse, RequestError>>;

impl<'a> RequestSender<'a> {
    /// A sender whose requests count from now. `now` is what `clock` showed a moment ago.
    pub(super) fn new<C: Clock>(context: &'a Arc<StoreContext>, now: Timestamp, clock: &C) -> Self {
        let submitted = Instant::now();
        Self {
            context,
            submitted_at: now,
            submitted,
            // Read again: this thread may have been suspended between the readings.
            submitted_at_latest: clock.now(),
            deadline: submitted + context.deadline,
        }
    }

    /// A sender for operations that depend on no clock of the caller: values, not counters.
    pub(super) fn without_clock(context: &'a Arc<StoreContext>) -> Self {
        let submitted = Instant::now();
        Self {
            context,
            submitted_at: Timestamp::default(),
            submitted,
            submitted_at_latest: Timestamp::default(),
            deadline: submitted + context.deadline,
        }
    }

    /// The instant from which the deadline counts.
    pub(super) fn submitted(&self) -> Instant {
        self.submitted
    }

    /// Sends one operation; its response comes within the deadline.
    pub(super) fn send(&self, operation: Operation) -> ResponseReceiver {
        let (sender, receiver) = oneshot::channel();
        self.submit(operation, Some(sender));
        receiver
    }

    /// Sends an operation whose response nobody waits for.
    pub(super) fn send_and_forget(&self, operation: Operation) {
        self.submit(operation, None);
    }

    fn submit(
        &self,
        operation: Operation,
        responder: Option<oneshot::Sender<Result<StoreResponse, RequestError>>>,
    ) {
        let slot = self.context.slot(operation.key());
        let Self {
            submitted_at,
            submitted,
            submitted_at_latest,
            deadline,
            ..
        } = *self;
        self.context.router.submit(StoreRequest::from(RequestState {
            operation,
            slot,
            submitted_at,
            submitted,
            submitted_at_latest,
            deadline,
            hops: 0,
            asking: false,
            responder,
        }));
    }
}

/// Waits for a response. A task that ends without responding counts as a closed connection.
pub(super) async fn response(receiver: ResponseReceiver) -> Result<StoreResponse, RequestError> {
    receiver
        .await
        .unwrap_or_else(|_| Err(RequestError::closed()))
}
