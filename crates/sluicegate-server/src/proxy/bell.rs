//! Wakes a task and says so: what is seldom ready need not be asked each time the task wakes for something else.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::task::{Context, Wake, Waker};

/// Rings for a task.
pub(super) struct Bell {
    rope: Waker,
    rung: Arc<Rung>,
}

struct Rung {
    has_rung: AtomicBool,
    task: Waker,
}

impl Bell {
    /// For the task that calls; it has rung, so that whatever it is for is asked once.
    pub(super) async fn for_this_task() -> Self {
        let task = std::future::poll_fn(|cx| std::task::Poll::Ready(cx.waker().clone())).await;
        let rung = Arc::new(Rung {
            has_rung: AtomicBool::new(true),
            task,
        });
        Self {
            rope: Waker::from(Arc::clone(&rung)),
            rung,
        }
    }

    /// Whether it has rung since the last time this was asked.
    pub(super) fn has_rung(&self) -> bool {
        self.rung.has_rung.load(Acquire) && self.rung.has_rung.swap(false, Acquire)
    }

    /// What is asked in this context rings when it is ready.
    pub(super) fn context(&self) -> Context<'_> {
        Context::from_waker(&self.rope)
    }
}

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Release);
        self.task.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_rings_once_for_each_time_it_is_pulled() {
        let bell = Bell::for_this_task().await;
        assert!(bell.has_rung() && !bell.has_rung());
        bell.context().waker().wake_by_ref();
        assert!(bell.has_rung() && !bell.has_rung());
    }
}
