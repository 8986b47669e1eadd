//! A lane: the way to one node. Callers put requests in, one driver takes them out.
//!
//! The idea: callers and the driver share one list behind a mutex that is held for a push or a
//! swap, never during I/O. The lane's state decides at submission what happens to a request, so a
//! node that is away costs a caller no wait.
//!
//! **Invariant:** state and list change under the same lock. A request is therefore either in the
//! list of an open lane, whose driver will take it, or it is handed back at once. Without that, a
//! request could slip into a lane after its driver has emptied it for the last time.
//!
//! A channel would be simpler, but cannot refuse by state, and wakes the driver once per request;
//! here many submissions share one wake.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::endpoint::Endpoint;
use super::health::{NodeCounts, NodeHealth, NodeState};
use super::request::{RequestError, StoreRequest};

/// The callers' end of the way to one node, and the counts of that node.
pub(super) struct Lane {
    /// The node. Empty for the pending lane, which leads nowhere.
    pub(super) endpoint: Endpoint,
    inbox: Mutex<LaneInbox>,
    /// Wakes the driver after a submission or a retirement.
    wake: Notify,
    /// True once no map leads here. Never goes back: the node gets a new lane if it returns.
    retired: AtomicBool,
    /// Written by the driver, read by metrics.
    pub(super) counters: LaneCounters,
}

/// Submitted requests, and the state that decides about the next one.
struct LaneInbox {
    requests: Vec<StoreRequest>,
    state: LaneState,
}

/// The state of a lane: it decides what happens to a request that is submitted.
#[derive(Clone, Debug)]
enum LaneState {
    /// The first dial is under way, or the connection was lost a moment ago: requests wait.
    Connecting,
    /// The node answers: requests go out with the next call.
    Up,
    /// The node is away: requests fail at once with this reason, until a dial succeeds.
    Away(String),
    /// The driver has ended. Requests must find another lane. This state is final.
    Closed,
}

/// Counts of one lane since it was opened. [`NodeCounts`] says what each one counts.
#[derive(Default)]
pub(super) struct LaneCounters {
    pub(super) calls: AtomicU64,
    pub(super) decisions: AtomicU64,
    pub(super) timeouts: AtomicU64,
    pub(super) dials: AtomicU64,
    pub(super) reloads: AtomicU64,
    pub(super) errors: AtomicU64,
}

impl Lane {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        let inbox = LaneInbox {
            requests: Vec::new(),
            state: LaneState::Connecting,
        };
        Self {
            endpoint,
            inbox: Mutex::new(inbox),
            wake: Notify::new(),
            retired: AtomicBool::new(false),
            counters: LaneCounters::default(),
        }
    }

    /// Accepts a request, or responds at once while the node is away. Returns the request when this
    /// lane has closed.
    #[must_use = "a request that is returned still needs a response"]
    pub(super) fn submit(&self, request: StoreRequest) -> Option<StoreRequest> {
        let mut inbox = self.lock();
        match &inbox.state {
            LaneState::Connecting | LaneState::Up => {
                inbox.requests.push(request);
                drop(inbox);
                self.wake.notify_one();
                None
            }
            LaneState::Away(reason) => {
                let reason = reason.clone();
                drop(inbox);
                request.respond(Err(RequestError::Unavailable(reason)));
                None
            }
            LaneState::Closed => Some(request),
        }
    }

    /// Waits for a submission or a retirement since the last wait.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// No map leads here any more: the driver ends once its calls in flight are answered.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Waits until the lane is retired. It consumes wakes of submissions, so the driver calls it
    /// only while the lane accepts no requests.
    pub(super) async fn wait_until_retired(&self) {
        while !self.is_retired() {
            self.woken().await;
        }
    }

    /// Moves everything that was submitted since the last call to the end of `into`.
    pub(super) fn take_requests(&self, into: &mut Vec<StoreRequest>) {
        into.append(&mut self.lock().requests);
    }

    /// Notes that the node answers.
    pub(super) fn mark_up(&self) {
        self.set(LaneState::Up);
    }

    /// Notes that the connection was lost and a new one is being dialled: requests wait for it.
    pub(super) fn mark_connecting(&self) {
        self.set(LaneState::Connecting);
    }

    /// Notes that the node is away. Requests in the lane and later ones fail with `reason`. Returns
    /// true when the node was not away before, which is worth a log line.
    pub(super) fn mark_away(&self, reason: &str) -> bool {
        let is_new = self.set(LaneState::Away(reason.to_owned()));
        let mut left = Vec::new();
        self.take_requests(&mut left);
        left.into_iter()
            .for_each(|request| request.respond(Err(RequestError::Unavailable(reason.to_owned()))));
        is_new
    }

    /// Closes the lane for good and returns the requests that are still in it.
    pub(super) fn close(&self) -> Vec<StoreRequest> {
        self.set(LaneState::Closed);
        let mut left = Vec::new();
        self.take_requests(&mut left);
        left
    }

    pub(super) fn is_closed(&self) -> bool {
        matches!(self.lock().state, LaneState::Closed)
    }

    pub(super) fn is_away(&self) -> bool {
        matches!(self.lock().state, LaneState::Away(_))
    }

    /// Returns true when the node is neither away nor still being dialled.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.lock().state, LaneState::Up)
    }

    /// State and counts of the node, for metrics and dashboards.
    pub(super) fn health(&self) -> NodeHealth {
        let state = match &self.lock().state {
            LaneState::Connecting => NodeState::Connecting,
            LaneState::Up => NodeState::Up,
            LaneState::Away(error) => NodeState::Away {
                error: error.clone(),
            },
            LaneState::Closed => NodeState::Away {
                error: "no longer used".to_owned(),
            },
        };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = NodeCounts {
            calls: read(&self.counters.calls),
            decisions: read(&self.counters.decisions),
            timeouts: read(&self.counters.timeouts),
            dials: read(&self.counters.dials),
            script_reloads: read(&self.counters.reloads),
            errors: read(&self.counters.errors),
        };
        NodeHealth {
            endpoint: self.endpoint.clone(),
            state,
            counts,
        }
    }

    /// Changes the state, unless the lane has closed. Returns true when the kind of state is new.
    fn set(&self, state: LaneState) -> bool {
        let mut inbox = self.lock();
        let is_new = std::mem::discriminant(&inbox.state) != std::mem::discriminant(&state);
        if !matches!(inbox.state, LaneState::Closed) {
            inbox.state = state;
        }
        is_new
    }

    fn lock(&self) -> MutexGuard<'_, LaneInbox> {
        self.inbox.lock().expect("no holder of this lock panics")
    }
}

impl LaneCounters {
    pub(super) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
