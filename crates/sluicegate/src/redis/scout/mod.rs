//! The scout: one task that finds out which node owns which keys, again and again.
//!
//! The idea: nobody tells a client reliably that a primary was replaced. So the scout asks, seldom
//! while all is well, and soon whenever a driver has a reason to doubt the owners: a dial that
//! failed, `MOVED`, `READONLY`. Each mode has its own source: `replication` asks every node for its
//! role, `sentinel` asks the sentinels, `cluster` asks any node for the slots. The result goes to
//! the router, which all callers read.
//!
//! **Invariant:** requests that arrive while no owner is known wait in the pending lane, and the
//! scout responds to them by their deadline whatever it is doing. Owners that were known before
//! stay in force while a search fails: they may be fine, and the network to the sentinels may not.
//!
//! It is one task and not a search per caller, because a lost primary is noticed by every caller
//! at once, and a thousand searches would hit the nodes in the moment of a failover.

mod cluster;
mod replication;
mod sentinel;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::context::StoreContext;
use super::dial::Dialer;
use super::endpoint::Endpoint;
use super::health;
use super::lane::Lane;
use super::options::RedisMode;
use super::probe;
use super::recovery::Backoff;
use super::request::{RequestError, StoreRequest};
use super::router::OwnerMap;
use super::wire::Reply;

/// Runs the scout of a store. It ends only with the store or its runtime.
pub(super) async fn scout(context: Arc<StoreContext>, pending: Arc<Lane>) {
    let backoff = Backoff::random(context.options.recovery);
    let mut scout = Scout {
        pending: PendingRequests {
            lane: pending,
            waiting: Vec::new(),
        },
        context,
        backoff,
    };
    if let RedisMode::Sentinel { .. } = scout.context.options.mode {
        for sentinel in scout.context.options.endpoints.clone() {
            scout
                .context
                .spawn(sentinel::watch(Arc::clone(&scout.context), sentinel));
        }
    }
    loop {
        let found = scout.discover().await;
        scout.take(found);
        scout.rest().await;
    }
}

/// The scout of one store.
struct Scout {
    context: Arc<StoreContext>,
    pending: PendingRequests,
    backoff: Backoff,
}

/// Requests that arrived while no owner was known.
struct PendingRequests {
    /// Where callers put them; the router leads here while the map is unknown.
    lane: Arc<Lane>,
    /// Requests that were taken out of the lane.
    waiting: Vec<StoreRequest>,
}

/// The longest that one node may take to answer a question about the topology, dial included.
const QUERY_TIMEOUT: Duration = Duration::from_millis(400);

impl Scout {
    /// Looks for the owners, and minds the deadlines of pending requests meanwhile.
    async fn discover(&mut self) -> Result<OwnerMap, String> {
        let context = Arc::clone(&self.context);
        let mut search = pin!(find_owners(&context));
        loop {
            let next = self.pending.expire();
            tokio::select! {
                found = &mut search => return found,
                () = self.pending.lane.woken() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// Publishes the owners that were found, or fails the pending requests if none were.
    fn take(&mut self, found: Result<OwnerMap, String>) {
        let is_unknown = matches!(&**self.context.router.map(), OwnerMap::Unknown(_));
        match found {
            Ok(map) => {
                if is_unknown && let OwnerMap::Primary(lane) = &map {
                    health::log_primary(&lane.endpoint);
                }
                self.context.router.publish(map);
                self.pending.lane.mark_connecting();
                self.pending.expire();
                for request in self.pending.waiting.drain(..) {
                    self.context.router.submit(request);
                }
            }
            // Requests go on to the owners that were known before: they may be fine.
            Err(_) if !is_unknown => {}
            Err(reason) => {
                if self.pending.lane.mark_away(&reason) {
                    health::log_no_primary(&reason);
                }
                self.pending.expire();
                for request in self.pending.waiting.drain(..) {
                    request.respond(Err(RequestError::Unavailable(reason.clone())));
                }
            }
        }
    }

    /// Waits until it is worth looking again. A pending request is a reason to look at once.
    async fn rest(&mut self) {
        /// Reasons to look come in bursts; one search serves all of a burst.
        const SHORTEST: Duration = Duration::from_millis(20);
        let (is_impaired, wait) = self.wait();
        let (soonest, latest) = (Instant::now() + SHORTEST, Instant::now() + wait);
        let mut wanted = false;
        loop {
            let next = self.pending.expire();
            wanted |= !self.pending.waiting.is_empty();
            let end = if wanted { soonest } else { latest };
            if Instant::now() >= end {
                return;
            }
            tokio::select! {
                () = sleep_until(next.min(end)) => {}
                () = self.pending.lane.woken() => {}
                // While something is known to be wrong, the pace of the backoff is kept.
                () = self.context.router.scout_woken(), if !is_impaired && !wanted => wanted = true,
            }
        }
    }

    /// Returns whether an owner is missing or away, and how long to wait before the next search.
    fn wait(&mut self) -> (bool, Duration) {
        let map = self.context.router.map();
        let is_impaired =
            matches!(&**map, OwnerMap::Unknown(_)) || map.lanes().iter().any(|lane| lane.is_away());
        if is_impaired {
            /// An election takes a second or so; its result is noticed soon after.
            const LONGEST: Duration = Duration::from_millis(400);
            return (
                true,
                Duration::from_nanos(self.backoff.next_wait().get()).min(LONGEST),
            );
        }
        self.backoff.reset();
        // Milliseconds, and a random part on top so that replicas do not ask in step. Without a
        // failover to discover, once an hour is enough.
        let (pace, spread) = match self.context.options.mode {
            RedisMode::Standalone | RedisMode::Replication => (3_600_000, 1),
            RedisMode::Sentinel { .. } => (1_000, 1_000),
            RedisMode::Cluster => (15_000, 15_000),
        };
        (
            false,
            Duration::from_millis(pace + self.backoff.below(spread)),
        )
    }
}

impl Drop for Scout {
    /// Closes the pending lane, also when the runtime ends under the scout. The next caller finds
    /// it closed and starts another scout.
    fn drop(&mut self) {
        let left = self
            .pending
            .lane
            .close()
            .into_iter()
            .chain(self.pending.waiting.drain(..));
        left.for_each(|request| request.respond(Err(RequestError::closed())));
        self.context
            .router
            .publish(OwnerMap::Unknown(Arc::clone(&self.pending.lane)));
    }
}

impl PendingRequests {
    /// Responds to requests whose deadline has come. Returns the next instant to call this.
    fn expire(&mut self) -> Instant {
        const IDLE: Duration = Duration::from_millis(100);
        let now = Instant::now();
        self.lane.take_requests(&mut self.waiting);
        for index in (0..self.waiting.len()).rev() {
            if self.waiting[index].deadline <= now {
                self.waiting
                    .swap_remove(index)
                    .respond(Err(RequestError::TimedOut));
            }
        }
        self.waiting
            .iter()
            .map(|request| request.deadline)
            .min()
            .unwrap_or(now + IDLE)
    }
}

/// Looks for the owners once, by the way of the mode. Opens lanes to them.
pub(super) async fn find_owners(context: &Arc<StoreContext>) -> Result<OwnerMap, String> {
    match &context.options.mode {
        RedisMode::Standalone => Ok(OwnerMap::Primary(
            context.lane(context.options.endpoints[0].clone()),
        )),
        RedisMode::Replication => replication::search(context).await,
        RedisMode::Sentinel { master, .. } => sentinel::search(context, master).await,
        RedisMode::Cluster => cluster::search(context).await,
    }
}

/// One question to several nodes. Dropping it cancels the questions without an answer.
struct NodePoll {
    /// A task per node, so that one that hangs delays no other.
    answers: JoinSet<(Endpoint, Result<Reply, String>)>,
}

impl NodePoll {
    /// Asks all nodes at once.
    fn new(
        endpoints: impl IntoIterator<Item = Endpoint>,
        dialer: &Dialer,
        command: &[&[u8]],
    ) -> Self {
        Self::one_by_one(endpoints, Duration::ZERO, dialer, command)
    }

    /// Asks each node `pause` after the one before it, answered or not.
    fn one_by_one(
        endpoints: impl IntoIterator<Item = Endpoint>,
        pause: Duration,
        dialer: &Dialer,
        command: &[&[u8]],
    ) -> Self {
        let command: Vec<Vec<u8>> = command.iter().map(|part| part.to_vec()).collect();
        let (mut answers, mut start) = (JoinSet::new(), Instant::now());
        for endpoint in endpoints {
            let (dialer, command) = (dialer.clone(), command.clone());
            answers.spawn(async move {
                sleep_until(start).await;
                let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                let submitted = tokio::time::timeout(
                    QUERY_TIMEOUT,
                    probe::query_once(&endpoint, &dialer, &command),
                )
                .await;
                let answer = submitted.unwrap_or_else(|_| {
                    Err(format!(
                        "{endpoint} does not answer within {QUERY_TIMEOUT:?}"
                    ))
                });
                (endpoint, answer)
            });
            start += pause;
        }
        Self { answers }
    }

    /// The next node that has answered or failed; `None` after the last one.
    async fn next(&mut self) -> Option<(Endpoint, Result<Reply, String>)> {
        loop {
            match self.answers.join_next().await? {
                Ok(answer) => return Some(answer),
                Err(_) => continue,
            }
        }
    }
}

/// The text of a bulk string; `None` for another reply or invalid UTF-8.
fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}

/// Reads a reply in every way in which the answer of a node is read.
#[cfg(feature = "fuzz-internals")]
pub(super) fn read_in_every_way(reply: &Reply) {
    let asked = Endpoint::new("node", 1);
    cluster::slots(reply, &asked);
    sentinel::address_in(reply);
    sentinel::epoch_in(reply);
    replication::NodeRole::read(reply);
}
