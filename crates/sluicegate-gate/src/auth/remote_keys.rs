//! Keys of tokens from a URL: the last good set, the task that fetches it, and requests that wait.
//!
//! Idea: requests never fetch. One task does, in the background and one fetch at a time; requests
//! read the last good set without a lock. A token whose key is unknown may ask the task for a fetch
//! out of turn and wait for its end.
//!
//! Invariants, against callers who invent keys:
//! - At most one fetch is under way, and fetches on demand are at least [`DEMAND_PAUSE`] apart.
//! - At most [`WAITERS_MAX`] requests wait, and none of them longer than `jwks.timeout`.
//! - A response that cannot be used changes nothing; keys older than `jwks.max_stale` are not used.

mod fetch;
mod follow;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use sluicegate_config::{JwksUrl, JwtAlgorithm};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::jwks::KeySet;
use super::keys_unavailable::{KeysGap, KeysUnavailable};
use crate::telemetry::Metrics;
use fetch::KeyService;

/// The time between two fetches that tokens with an unknown key ask for.
const DEMAND_PAUSE: Duration = Duration::from_secs(30);
/// The most requests that wait for a fetch.
const WAITERS_MAX: usize = 1_000;

/// The keys of one URL. Dropping the last handle ends the task that fetches them.
pub(super) struct RemoteKeys {
    setup: KeysSetup,
    service: KeyService,
    state: Arc<KeysState>,
    /// Set by the first [`RemoteKeys::start`].
    task: OnceLock<FetchTask>,
}

/// Everything that makes two sources of keys the same one.
#[derive(Clone, PartialEq, Eq)]
struct KeysSetup {
    url: JwksUrl,
    algorithms: Vec<JwtAlgorithm>,
    /// The content of the file of authorities: with another content it is another server.
    authorities: Option<Vec<u8>>,
}

/// The state that requests and the task share.
struct KeysState {
    /// The last good set; `None` before the first.
    keys: ArcSwapOption<FetchedKeys>,
    /// Tells the task that a fetch is wanted, and requests that one has ended.
    progress: watch::Sender<FetchProgress>,
    /// One permit for each request that may wait.
    waiters: Semaphore,
}

/// A set of keys and when it came.
#[derive(Clone)]
struct FetchedKeys {
    set: Arc<KeySet>,
    fetched_at: Instant,
    /// The SHA-256 of the response, to notice a change.
    digest: [u8; 32],
}

/// The fetches so far, and the next one.
#[derive(Clone, Debug)]
struct FetchProgress {
    /// The number of fetches that have ended.
    finished: u64,
    /// A fetch is under way or asked for.
    is_pending: bool,
    /// The last time that a token with an unknown key asked for a fetch.
    demanded_at: Option<Instant>,
    /// The planned time of the next fetch.
    next_at: Instant,
    /// What was wrong with the last fetch.
    error: Option<String>,
}

/// Ends the task when it is dropped.
struct FetchTask(AbortHandle);

impl Drop for FetchTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RemoteKeys {
    /// Reads certificates; nothing is fetched before [`RemoteKeys::start`].
    pub(super) fn new(url: &JwksUrl, algorithms: &[JwtAlgorithm]) -> Result<Self, String> {
        let authorities = url.at.ca_file.as_ref();
        let setup = KeysSetup {
            url: url.clone(),
            algorithms: algorithms.to_vec(),
            authorities: authorities.and_then(|file| std::fs::read(file).ok()),
        };
        let service = KeyService::new(url)?;
        Ok(Self::with_service(setup, service))
    }

    fn with_service(setup: KeysSetup, service: KeyService) -> Self {
        let progress = FetchProgress {
            finished: 0,
            is_pending: true,
            demanded_at: None,
            next_at: Instant::now(),
            error: None,
        };
        let state = KeysState {
            keys: ArcSwapOption::empty(),
            progress: watch::Sender::new(progress),
            waiters: Semaphore::new(WAITERS_MAX),
        };
        Self {
            setup,
            service,
            state: Arc::new(state),
            task: OnceLock::new(),
        }
    }

    /// Starts to fetch, unless it was started before.
    pub(super) fn start(&self, background: &Handle, metrics: Option<Arc<Metrics>>) {
        self.task.get_or_init(|| {
            let follower = follow::KeysFollower::new(self, metrics);
            FetchTask(background.spawn(follower.run()).abort_handle())
        });
    }

    /// True when another configuration asks for the same keys in the same way.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.setup == other.setup
    }

    /// Takes over the keys of another source, if it has the same URL.
    pub(super) fn keep_keys_of(&self, other: &Self) {
        let (own, others) = (&self.setup.url, &other.setup.url);
        let place = |url: &JwksUrl| (url.at.tls, url.at.host.clone(), url.at.port);
        if place(own) != place(others) || own.path != others.path {
            return;
        }
        self.state.keys.store(other.state.keys.load_full());
        let demanded_at = other.state.progress.borrow().demanded_at;
        let keep = |progress: &mut FetchProgress| progress.demanded_at = demanded_at;
        self.state.progress.send_modify(keep);
    }

    /// Calls `verify` with the keys in force, or says why there are none.
    pub(super) fn with_keys<T>(
        &self,
        verify: impl FnOnce(&KeySet) -> T,
    ) -> Result<T, KeysUnavailable> {
        let keys = self.state.keys.load();
        let Some(keys) = keys.as_ref() else {
            return Err(self.unavailable(KeysGap::NotLoaded));
        };
        if self.is_too_old(keys, Instant::now()) {
            return Err(self.unavailable(KeysGap::TooOld));
        }
        Ok(verify(&keys.set))
    }

    /// Waits for a fetch on behalf of a token whose key is unknown, where one is under way or may
    /// begin. Afterwards the token is verified again, whatever became of the fetch.
    pub(super) async fn wait_for_newer(&self) -> Result<(), KeysUnavailable> {
        let now = Instant::now();
        let mut progress = self.state.progress.subscribe();
        let finished = progress.borrow_and_update().finished;
        if !self.demand_fetch(now) {
            return Ok(());
        }
        let Ok(_permit) = self.state.waiters.try_acquire() else {
            return Err(KeysUnavailable::new(KeysGap::Busy, Duration::ZERO));
        };
        let is_over = |progress: &FetchProgress| progress.finished > finished;
        let deadline = now + Duration::from(self.setup.url.timeout);
        // When the time is over, the keys that are there decide.
        let _ = timeout_at(deadline, progress.wait_for(is_over)).await;
        Ok(())
    }

    /// Returns true when a fetch is under way, or was asked for by this call.
    fn demand_fetch(&self, now: Instant) -> bool {
        let mut is_pending = false;
        self.state.progress.send_if_modified(|progress| {
            let is_too_early = |last: Instant| now.duration_since(last) < DEMAND_PAUSE;
            let is_new = !progress.is_pending && !progress.demanded_at.is_some_and(is_too_early);
            if is_new {
                progress.demanded_at = Some(now);
                progress.is_pending = true;
            }
            is_pending = progress.is_pending;
            is_new
        });
        is_pending
    }

    /// The state of the keys, for operators.
    pub(super) fn status(&self) -> KeysStatus {
        let now = Instant::now();
        let keys = self.state.keys.load_full();
        let progress = self.state.progress.borrow().clone();
        let is_too_old = |keys: &Arc<FetchedKeys>| self.is_too_old(keys, now);
        KeysStatus {
            url: self.setup.url.shown(),
            gap: match &keys {
                None => Some(KeysGap::NotLoaded),
                Some(keys) if is_too_old(keys) => Some(KeysGap::TooOld),
                Some(_) => None,
            },
            keys: keys.as_ref().map_or(0, |keys| keys.set.len()),
            skipped: keys.as_ref().map_or(0, |keys| keys.set.skipped),
            age: keys.map(|keys| now.duration_since(keys.fetched_at)),
            next_fetch: progress.next_at.saturating_duration_since(now),
            last_error: progress.error,
        }
    }

    fn is_too_old(&self, keys: &FetchedKeys, now: Instant) -> bool {
        now.duration_since(keys.fetched_at) > Duration::from(self.setup.url.max_stale)
    }

    /// The refusal until the next fetch.
    fn unavailable(&self, gap: KeysGap) -> KeysUnavailable {
        let next_at = self.state.progress.borrow().next_at;
        KeysUnavailable::new(gap, next_at.saturating_duration_since(Instant::now()))
    }
}

/// The state of keys that are fetched, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysStatus {
    /// The URL, without parameters that look like secrets.
    pub url: String,
    /// Why tokens cannot be verified; `None` when they can.
    pub gap: Option<KeysGap>,
    /// The number of usable keys.
    pub keys: usize,
    /// The number of keys that are of an unknown type, or not for signatures.
    pub skipped: usize,
    /// The time since the last good fetch; `None` before the first.
    pub age: Option<Duration>,
    /// The time until the next fetch.
    pub next_fetch: Duration,
    /// What was wrong with the last fetch; `None` when it was good.
    pub last_error: Option<String>,
}
