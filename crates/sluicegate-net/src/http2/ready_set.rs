//! The streams of a connection that were woken.
//!
//! All streams of a connection are polled by its one task. A stream's waker leaves a mark in the
//! set, so that the task polls that stream and no other, and wakes the task unless that runs
//! anyway: it looks at the set before it rests.
//!
//! **Invariant:** a mark is set before `is_running` is read, and `is_running` is cleared before the
//! marks are read for the last time; both in one order for all threads (`SeqCst`). So a mark is
//! either seen by the task before it rests, or its waker sees that the task rests and wakes it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::{Wake, Waker};

/// Marks of up to [`ReadySet::SLOTS`] streams, by the places that they have in the connection.
pub(super) struct ReadySet {
    low: AtomicU64,
    high: AtomicU64,
    is_running: AtomicBool,
    /// The task that serves the connection. It never changes.
    task: Waker,
}

impl ReadySet {
    pub(super) const SLOTS: usize = 128;

    pub(super) fn new(task: Waker) -> Arc<Self> {
        Arc::new(Self {
            low: AtomicU64::new(0),
            high: AtomicU64::new(0),
            is_running: AtomicBool::new(false),
            task,
        })
    }

    /// A waker that leaves the mark of this place.
    pub(super) fn waker(self: &Arc<Self>, slot: usize) -> Waker {
        Waker::from(Arc::new(SlotWaker {
            set: Arc::clone(self),
            slot,
        }))
    }

    /// The task begins to run: it needs no waking.
    pub(super) fn begin(&self) {
        self.is_running.store(true, SeqCst);
    }

    /// The task wants to rest. Returns false if it must not, because there are marks.
    pub(super) fn rest(&self) -> bool {
        self.is_running.store(false, SeqCst);
        self.low.load(SeqCst) == 0 && self.high.load(SeqCst) == 0
    }

    /// The marks, which are cleared.
    pub(super) fn take(&self) -> u128 {
        let take = |marks: &AtomicU64| match marks.load(SeqCst) {
            0 => 0,
            _ => u128::from(marks.swap(0, SeqCst)),
        };
        take(&self.low) | take(&self.high) << 64
    }
}

/// The waker of one stream.
struct SlotWaker {
    set: Arc<ReadySet>,
    slot: usize,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let marks = match self.slot {
            ..64 => &self.set.low,
            _ => &self.set.high,
        };
        marks.fetch_or(1 << (self.slot % 64), SeqCst);
        if !self.set.is_running.load(SeqCst) {
            self.set.task.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn a_mark_wakes_a_task_that_rests_and_holds_up_one_that_runs() {
        let wakes = Arc::new(Wakes::default());
        let set = ReadySet::new(Waker::from(Arc::clone(&wakes)));
        let (first, last) = (set.waker(0), set.waker(ReadySet::SLOTS - 1));
        first.wake_by_ref();
        assert_eq!((wakes.0.load(SeqCst), set.take(), set.take()), (1, 1, 0));
        set.begin();
        last.wake_by_ref();
        assert_eq!((wakes.0.load(SeqCst), set.rest()), (1, false));
        assert_eq!((set.take(), set.rest()), (1 << 127, true));
    }
}
