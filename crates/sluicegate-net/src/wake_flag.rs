//! A waker that leaves a mark, so that a task knows which of its parts woke it.
//!
//! A connection's task waits for several things at once: bytes of the client, which come all the
//! time, and timers and the end of the process, which come seldom. A task is woken without being
//! told why, so it would have to poll the timers on each wake. Instead the seldom things are
//! polled with the waker of a [`WakeFlag`]: when one of them is ready, its waker sets the flag and
//! then wakes the task. The task polls them only while the flag is set, which costs one atomic
//! load for each request instead of a look at three timers.
//!
//! **Invariant:** the flag is set before the task is woken, and cleared before the things are
//! polled. A wake that arrives during the poll sets it again, so none is lost.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Context, Wake, Waker};

/// Wakes one task, and remembers that it did.
pub(crate) struct WakeFlag {
    /// Sets the flag and wakes the task.
    waker: Waker,
    state: Arc<FlagState>,
}

struct FlagState {
    is_set: AtomicBool,
    /// The task that is woken. It never changes: a connection stays in the task that serves it.
    task: Waker,
}

impl WakeFlag {
    /// A flag for the calling task. It is set at first, so that everything is polled once: a
    /// future wakes the task only after it was polled with [`WakeFlag::context`].
    pub(crate) async fn for_this_task() -> Self {
        let task = std::future::poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone())).await;
        let state = Arc::new(FlagState {
            is_set: AtomicBool::new(true),
            task,
        });
        Self {
            waker: Waker::from(Arc::clone(&state)),
            state,
        }
    }

    /// Returns true when the flag is set, and leaves it so.
    pub(crate) fn is_set(&self) -> bool {
        self.state.is_set.load(Acquire)
    }

    /// Clears the flag; returns true when it was set.
    pub(crate) fn take(&self) -> bool {
        // The load comes first because it is cheap: most of the time the flag is not set.
        self.state.is_set.load(Acquire) && self.state.is_set.swap(false, Acquire)
    }

    /// A context whose waker sets the flag.
    pub(crate) fn context(&self) -> Context<'_> {
        Context::from_waker(&self.waker)
    }
}

impl Wake for FlagState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Release);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_set_once_for_each_wake() {
        let flag = WakeFlag::for_this_task().await;
        assert!(flag.take() && !flag.take());
        flag.context().waker().wake_by_ref();
        assert!(flag.take() && !flag.take());
    }
}
