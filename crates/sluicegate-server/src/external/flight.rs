//! One call for a caller, however many wait for it.
//!
//! A flight is a task of its own: who waits may go away, and a flight that breaks down leaves nobody waiting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::watch;

use super::front::Caller;
use super::told::Known;

/// All flights under way.
#[derive(Debug, Default)]
pub(super) struct Flights {
    under_way: Mutex<HashMap<(String, String), watch::Receiver<Progress>>>,
}

/// How far a flight is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Progress {
    /// The best that is known so far.
    pub(super) known: Known,
    pub(super) is_done: bool,
}

/// One flight. When it is dropped, the next who asks begins another.
#[derive(Debug)]
pub(super) struct Flight {
    flights: Arc<Flights>,
    of: (String, String),
    progress: watch::Sender<Progress>,
}

impl Flights {
    /// Callers who are asked for at the same time: those who went away may still be among them.
    pub(super) const MAX: usize = 10_000;

    /// The progress of the caller's flight; `begin` is given a new one if there is none. `None` when there are too many.
    pub(super) fn join(
        self: &Arc<Self>,
        caller: Caller<'_>,
        begin: impl FnOnce(Flight),
    ) -> Option<watch::Receiver<Progress>> {
        let of = (caller.limit.to_owned(), caller.key.to_owned());
        let mut under_way = self.under_way();
        if let Some(progress) = under_way.get(&of) {
            return Some(progress.clone());
        }
        if under_way.len() >= Self::MAX {
            return None;
        }
        let (progress, receiver) = watch::channel(Progress {
            known: Known::Static,
            is_done: false,
        });
        under_way.insert(of.clone(), receiver.clone());
        drop(under_way);
        begin(Flight {
            flights: Arc::clone(self),
            of,
            progress,
        });
        Some(receiver)
    }

    pub(super) fn len(&self) -> usize {
        self.under_way().len()
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<(String, String), watch::Receiver<Progress>>> {
        self.under_way
            .lock()
            .expect("no holder of this lock panics")
    }
}

impl Flight {
    /// Whose flight it is.
    pub(super) fn caller(&self, hash: u64) -> Caller<'_> {
        Caller {
            hash,
            limit: &self.of.0,
            key: &self.of.1,
        }
    }

    /// Something that is better than nothing, for those whose time is over first.
    pub(super) fn suggest(&self, known: Known) {
        self.progress.send_replace(Progress {
            known,
            is_done: false,
        });
    }

    /// The best that was known so far.
    pub(super) fn best(&self) -> Known {
        self.progress.borrow().known.clone()
    }

    /// Tells everybody who waits.
    pub(super) fn land(self, known: Known) {
        self.progress.send_replace(Progress {
            known,
            is_done: true,
        });
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.under_way().remove(&self.of);
    }
}
