//! One call for a caller, however many wait for it.
//!
//! A flight is a task of its own: who waits may go away, and a flight that breaks down leaves nobody waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use super::limits::ResolvedLimits;
use super::local_cache::CallerKey;

/// All flights under way.
#[derive(Debug, Default)]
pub(super) struct SingleFlight {
    under_way: Mutex<HashMap<(String, String), watch::Receiver<LookupProgress>>>,
}

/// How far a flight is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LookupProgress {
    /// The best that is known so far.
    pub(super) resolved: ResolvedLimits,
    pub(super) is_done: bool,
}

/// One flight. When it is dropped, the next who asks begins another.
#[derive(Debug)]
pub(super) struct PendingLookup {
    single_flight: Arc<SingleFlight>,
    of: (String, String),
    progress: watch::Sender<LookupProgress>,
}

impl SingleFlight {
    /// Callers who are asked for at the same time: those who went away may still be among them.
    pub(super) const MAX: usize = 10_000;

    /// The progress of the caller's flight; `begin` is given a new one if there is none. `None` when there are too many.
    pub(super) fn join(
        self: &Arc<Self>,
        caller: CallerKey<'_>,
        begin: impl FnOnce(PendingLookup),
    ) -> Option<watch::Receiver<LookupProgress>> {
        let of = (caller.limit.to_owned(), caller.key.to_owned());
        let mut under_way = self.under_way();
        if let Some(progress) = under_way.get(&of) {
            return Some(progress.clone());
        }
        if under_way.len() >= Self::MAX {
            return None;
        }
        let (progress, receiver) = watch::channel(LookupProgress {
            resolved: ResolvedLimits::Configured,
            is_done: false,
        });
        under_way.insert(of.clone(), receiver.clone());
        drop(under_way);
        begin(PendingLookup {
            single_flight: Arc::clone(self),
            of,
            progress,
        });
        Some(receiver)
    }

    pub(super) fn len(&self) -> usize {
        self.under_way().len()
    }

    fn under_way(
        &self,
    ) -> MutexGuard<'_, HashMap<(String, String), watch::Receiver<LookupProgress>>> {
        self.under_way
            .lock()
            .expect("no holder of this lock panics")
    }
}

impl PendingLookup {
    /// Whose flight it is.
    pub(super) fn caller(&self, hash: u64) -> CallerKey<'_> {
        CallerKey {
            hash,
            limit: &self.of.0,
            key: &self.of.1,
        }
    }

    /// Something that is better than nothing, for those whose time is over first.
    pub(super) fn offer(&self, resolved: ResolvedLimits) {
        self.progress.send_replace(LookupProgress {
            resolved,
            is_done: false,
        });
    }

    /// The best that was known so far.
    pub(super) fn best_so_far(&self) -> ResolvedLimits {
        self.progress.borrow().resolved.clone()
    }

    /// Tells everybody who waits.
    pub(super) fn finish(self, resolved: ResolvedLimits) {
        self.progress.send_replace(LookupProgress {
            resolved,
            is_done: true,
        });
    }
}

impl Drop for PendingLookup {
    fn drop(&mut self) {
        self.single_flight.under_way().remove(&self.of);
    }
}
