//! A lane: the way to one node. Callers put asks in, one driver takes them out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::endpoint::Endpoint;
use super::health::{NodeCounts, NodeHealth, NodeState};
use super::request::{RequestError, StoreRequest};

/// The callers' end of the way to one node, and what is known about the node.
pub(super) struct Lane {
    pub(super) endpoint: Endpoint,
    inbox: Mutex<LaneInbox>,
    wake: Notify,
    retired: AtomicBool,
    pub(super) counters: LaneCounters,
}

struct LaneInbox {
    requests: Vec<StoreRequest>,
    state: LaneState,
}

/// Whether asks are taken.
#[derive(Clone, Debug)]
enum LaneState {
    /// Nothing is known yet, or the connection was lost a moment ago: asks wait for the dial.
    Connecting,
    Up,
    /// The circuit is open: asks are answered at once with this, until a probe succeeds.
    Away(String),
    /// The driver has ended. Asks must find another lane.
    Closed,
}

/// What happened on a lane so far.
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

    /// Takes an ask, or answers it at once while the node is away. Returns it when this lane has ended.
    #[must_use = "an request that comes back has to be answered"]
    pub(super) fn submit(&self, request: StoreRequest) -> Option<StoreRequest> {
        let mut inbox = self.lock();
        match &inbox.state {
            LaneState::Connecting | LaneState::Up => {
                inbox.requests.push(request);
                drop(inbox);
                self.wake.notify_one();
                None
            }
            LaneState::Away(why) => {
                let why = why.clone();
                drop(inbox);
                request.respond(Err(RequestError::Unavailable(why)));
                None
            }
            LaneState::Closed => Some(request),
        }
    }

    /// Waits until something was put in.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Nobody routes here any more: the driver ends when what is under way is done.
    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Waits until nobody routes here any more; only while nothing is taken in.
    pub(super) async fn retired(&self) {
        while !self.is_retired() {
            self.woken().await;
        }
    }

    /// What was put in since the last time.
    pub(super) fn take_requests(&self, into: &mut Vec<StoreRequest>) {
        into.append(&mut self.lock().requests);
    }

    /// The node answers.
    pub(super) fn mark_up(&self) {
        self.set(LaneState::Up);
    }

    /// The connection is gone and a new one is being dialled: asks wait for it.
    pub(super) fn mark_connecting(&self) {
        self.set(LaneState::Connecting);
    }

    /// The node is away: asks in the lane and those to come are answered with `why`. Says whether that is news.
    pub(super) fn mark_away(&self, why: &str) -> bool {
        let news = self.set(LaneState::Away(why.to_owned()));
        let mut left = Vec::new();
        self.take_requests(&mut left);
        left.into_iter()
            .for_each(|request| request.respond(Err(RequestError::Unavailable(why.to_owned()))));
        news
    }

    /// The driver ends; what is still in the lane is given back.
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

    /// Whether a node is neither away nor still being dialled.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.lock().state, LaneState::Up)
    }

    /// What is known about the node, for metrics and dashboards.
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

    /// Says whether the state is another one than before.
    fn set(&self, state: LaneState) -> bool {
        let mut inbox = self.lock();
        let news = std::mem::discriminant(&inbox.state) != std::mem::discriminant(&state);
        if !matches!(inbox.state, LaneState::Closed) {
            inbox.state = state;
        }
        news
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
