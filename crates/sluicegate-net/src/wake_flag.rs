//! A mark beside a waker, so that a task knows which of its parts woke it.
//!
//! A connection's task waits for several things at once: bytes of the client, which come all the
//! time, and timers and the end of the process, which come seldom. A task is woken without being
//! told why, so it would have to look at the timers on each wake. Instead the seldom things set a
//! [`WakeFlag`] and then wake the task, which looks at them only while the flag is set. That costs
//! one atomic load for each request.
//!
//! **Invariant:** the flag is set before the task is woken, and cleared before the things are
//! looked at. A wake that arrives meanwhile sets it again, so none is lost.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, OnceLock};
use std::task::{Wake, Waker};

/// Wakes one task, and remembers that it did.
#[derive(Debug)]
pub(crate) struct WakeFlag {
    is_set: AtomicBool,
    /// The task that is woken. It never changes: a connection stays in the task that serves it.
    task: OnceLock<Waker>,
}

impl Default for WakeFlag {
    /// A flag that is set, so that everything is looked at once: nobody has promised to wake the
    /// task yet.
    fn default() -> Self {
        Self {
            is_set: AtomicBool::new(true),
            task: OnceLock::new(),
        }
    }
}

impl WakeFlag {
    /// Tells which task is woken. The first one stays. To be called while the flag is set for the
    /// first time, before anything is looked at.
    pub(crate) fn belongs_to(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
    }

    /// Returns true when the flag is set, and leaves it so.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Acquire)
    }

    /// Sets the flag in the task itself, which will look at it without being woken.
    pub(crate) fn set(&self) {
        self.is_set.store(true, Release);
    }

    /// Clears the flag; returns true when it was set.
    pub(crate) fn take(&self) -> bool {
        // The load comes first because it is cheap: most of the time the flag is not set.
        self.is_set() && self.is_set.swap(false, Acquire)
    }

    /// Sets the flag and wakes the task.
    pub(crate) fn set_and_wake(&self) {
        self.set();
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.set_and_wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set_and_wake();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn it_is_set_once_for_each_wake() {
        let task = Arc::new(WakeFlag::default());
        assert!(task.take(), "at first everything is looked at");
        let flag = WakeFlag::default();
        flag.belongs_to(&Waker::from(Arc::clone(&task)));
        assert!(flag.take() && !flag.take());
        flag.set_and_wake();
        assert!(task.take() && flag.is_set());
        assert!(flag.take() && !flag.take());
        flag.set();
        assert!(flag.take() && !task.take());
    }
}
