//! Single flight: all requests that wait for the same caller share one lookup.
//!
//! Idea: a map from caller to the progress of its lookup. The first request inserts an entry and
//! starts a task; later ones subscribe to it. Invariant: an entry is in the map exactly as long as
//! its [`PendingLookup`] lives, because only dropping that removes it. So a lookup that finishes,
//! panics or is never polled (its runtime has ended) always clears its entry, the subscribers see
//! the channel close, and the next request starts anew.
//!
//! It is not simpler, for example the first request doing the call itself, because that request may
//! be cancelled when its client disconnects; the others must not lose their answer with it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use super::limits::ResolvedLimits;
use super::local_cache::CallerKey;

/// The limit and the key of a caller.
type OwnedCaller = (String, String);

/// All lookups that run now.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    running: Mutex<HashMap<OwnedCaller, watch::Receiver<LookupProgress>>>,
}

/// The state of a lookup, as its subscribers see it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LookupProgress {
    /// The best result so far: at first the configured quota, then perhaps an expired reply.
    pub(super) resolved: ResolvedLimits,
    /// True when the lookup has ended and `resolved` is final.
    pub(super) is_done: bool,
}

/// A lookup that runs. Dropping it ends it: the next request for this caller starts another.
#[derive(Debug)]
pub(super) struct PendingLookup {
    registry: Arc<SingleFlight>,
    caller: OwnedCaller,
    progress: watch::Sender<LookupProgress>,
}

impl SingleFlight {
    /// The most lookups at a time. Waiting requests are bounded elsewhere, but a lookup goes on
    /// when its request is cancelled, so lookups need a bound of their own.
    pub(super) const MAX: usize = 10_000;

    /// Subscribes to the caller's lookup. If none runs, `start` is given a new one to drive. `None`
    /// when [`SingleFlight::MAX`] lookups run.
    pub(super) fn join(
        self: &Arc<Self>,
        caller: CallerKey<'_>,
        start: impl FnOnce(PendingLookup),
    ) -> Option<watch::Receiver<LookupProgress>> {
        let caller = (caller.limit.to_owned(), caller.key.to_owned());
        let mut running = self.running();
        if let Some(progress) = running.get(&caller) {
            return Some(progress.clone());
        }
        if running.len() >= Self::MAX {
            return None;
        }
        let (progress, receiver) = watch::channel(LookupProgress {
            resolved: ResolvedLimits::Configured,
            is_done: false,
        });
        running.insert(caller.clone(), receiver.clone());
        // Released first: `start` may drop the lookup at once, and that takes the lock again.
        drop(running);
        start(PendingLookup {
            registry: Arc::clone(self),
            caller,
            progress,
        });
        Some(receiver)
    }

    /// The number of lookups that run now.
    pub(super) fn len(&self) -> usize {
        self.running().len()
    }

    fn running(&self) -> MutexGuard<'_, HashMap<OwnedCaller, watch::Receiver<LookupProgress>>> {
        self.running.lock().expect("no holder of this lock panics")
    }
}

impl PendingLookup {
    /// The caller that is looked up; `hash` is the one its request computed.
    pub(super) fn caller(&self, hash: u64) -> CallerKey<'_> {
        CallerKey {
            hash,
            limit: &self.caller.0,
            key: &self.caller.1,
        }
    }

    /// Publishes a result for subscribers whose time is over before the lookup ends.
    pub(super) fn offer(&self, resolved: ResolvedLimits) {
        self.progress.send_replace(LookupProgress {
            resolved,
            is_done: false,
        });
    }

    /// The last result that was offered, or the configured quota.
    pub(super) fn best_so_far(&self) -> ResolvedLimits {
        self.progress.borrow().resolved.clone()
    }

    /// Publishes the final result and ends the lookup.
    pub(super) fn finish(self, resolved: ResolvedLimits) {
        self.progress.send_replace(LookupProgress {
            resolved,
            is_done: true,
        });
    }
}

impl Drop for PendingLookup {
    fn drop(&mut self) {
        self.registry.running().remove(&self.caller);
    }
}
