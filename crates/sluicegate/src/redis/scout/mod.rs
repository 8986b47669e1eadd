//! The scout finds out which node owns what, and keeps finding out.

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

/// Finds the owners of all keys now, and again whenever somebody has reason to doubt them. Never ends by itself.
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

struct Scout {
    context: Arc<StoreContext>,
    pending: PendingRequests,
    backoff: Backoff,
}

/// Asks that came before any owner was known.
struct PendingRequests {
    lane: Arc<Lane>,
    waiting: Vec<StoreRequest>,
}

/// How long a node may take over a question about the topology, its dial included.
const QUERY_TIMEOUT: Duration = Duration::from_millis(400);

impl Scout {
    /// Looks for the owners; whoever waits in the lobby is answered in time.
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
                    self.context.submit(request);
                }
            }
            // With owners that were known before, asks go on to them: they may be fine.
            Err(_) if !is_unknown => {}
            Err(why) => {
                if self.pending.lane.mark_away(&why) {
                    health::log_no_primary(&why);
                }
                self.pending.expire();
                for request in self.pending.waiting.drain(..) {
                    request.respond(Err(RequestError::Unavailable(why.clone())));
                }
            }
        }
    }

    /// Waits until it is worth looking again; whoever comes into the lobby meanwhile is a reason to.
    async fn rest(&mut self) {
        /// Several reasons to look come at once.
        const SHORTEST: Duration = Duration::from_millis(20);
        let (trouble, wait) = self.wait();
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
                // With something wrong already known, the pace is kept.
                () = self.context.router.scout_woken(), if !trouble && !wanted => wanted = true,
            }
        }
    }

    /// Whether something is wrong with what is known, and how long to wait before the next look.
    fn wait(&mut self) -> (bool, Duration) {
        let map = self.context.router.map();
        let trouble =
            matches!(&**map, OwnerMap::Unknown(_)) || map.lanes().iter().any(|lane| lane.is_away());
        if trouble {
            /// An election is noticed soon after it is over.
            const LONGEST: Duration = Duration::from_millis(400);
            return (
                true,
                Duration::from_nanos(self.backoff.next_wait().get()).min(LONGEST),
            );
        }
        self.backoff.reset();
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
    /// Also when the runtime goes away under the scout: whoever comes next finds the lobby closed and sends another.
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
    /// Answers those whose time is up, and says when to look again.
    fn expire(&mut self) -> Instant {
        const IDLE: Duration = Duration::from_millis(100);
        let now = Instant::now();
        self.lane.take_requests(&mut self.waiting);
        for place in (0..self.waiting.len()).rev() {
            if self.waiting[place].deadline <= now {
                self.waiting
                    .swap_remove(place)
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

/// Looks once.
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

/// Asks several nodes the same question at once; answers come as they come.
struct NodePoll {
    answers: JoinSet<(Endpoint, Result<Reply, String>)>,
}

impl NodePoll {
    fn new(
        endpoints: impl IntoIterator<Item = Endpoint>,
        dialer: &Dialer,
        command: &[&[u8]],
    ) -> Self {
        let command: Vec<Vec<u8>> = command.iter().map(|part| part.to_vec()).collect();
        let mut answers = JoinSet::new();
        for endpoint in endpoints {
            let (dialer, command) = (dialer.clone(), command.clone());
            answers.spawn(async move {
                let command: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                let submitted = tokio::time::timeout(
                    QUERY_TIMEOUT,
                    probe::query_once(&endpoint, &dialer, &command),
                )
                .await;
                let answer =
                    submitted.unwrap_or_else(|_| Err(format!("{endpoint} does not answer")));
                (endpoint, answer)
            });
        }
        Self { answers }
    }

    async fn next(&mut self) -> Option<(Endpoint, Result<Reply, String>)> {
        loop {
            match self.answers.join_next().await? {
                Ok(answer) => return Some(answer),
                Err(_) => continue,
            }
        }
    }
}

/// The text of a bulk string.
fn text(reply: &Reply) -> Option<&str> {
    match reply {
        Reply::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
        _ => None,
    }
}
