//! An event that is waited for beside something that happens all the time.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::wake_flag::WakeFlag;

/// A future that is seldom ready. It is polled when it has woken its task itself, and not when the
/// task was woken for anything else.
pub struct RareEvent<F> {
    future: Pin<Box<F>>,
    flag: Arc<WakeFlag>,
    /// Sets the flag and wakes the task.
    waker: Waker,
    is_over: bool,
}

/// What was ready first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<T, U> {
    /// The one that is polled at every wake.
    Main(T),
    /// The rare event.
    Event(U),
}

impl<F: Future> RareEvent<F> {
    /// An event for the task that waits for it first.
    pub fn new(future: F) -> Self {
        let flag = Arc::<WakeFlag>::default();
        Self {
            future: Box::pin(future),
            waker: Waker::from(Arc::clone(&flag)),
            flag,
            is_over: false,
        }
    }

    /// Waits for `main` or the event, in this order. After the event has come, only `main` is waited
    /// for.
    pub async fn or<M: Future>(&mut self, mut main: Pin<&mut M>) -> First<M::Output, F::Output> {
        poll_fn(|cx| {
            if let Poll::Ready(done) = main.as_mut().poll(cx) {
                return Poll::Ready(First::Main(done));
            }
            if self.is_over || !self.flag.take() {
                return Poll::Pending;
            }
            self.flag.belongs_to(cx.waker());
            let event = (self.future.as_mut()).poll(&mut Context::from_waker(&self.waker));
            self.is_over = event.is_ready();
            event.map(First::Event)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_event_is_polled_for_its_own_wakes_only() {
        let polls = AtomicUsize::new(0);
        // bounded wait: the clock is paused
        let mut timer = Box::pin(sleep(Duration::from_secs(5)));
        let mut event = RareEvent::new(poll_fn(|cx| {
            polls.fetch_add(1, Relaxed);
            timer.as_mut().poll(cx)
        }));
        for _ in 0..2 {
            let mut main = pin!(async {
                for _ in 0..100 {
                    // bounded wait: the clock is paused
                    sleep(Duration::from_millis(1)).await;
                }
            });
            assert_eq!(event.or(main.as_mut()).await, First::Main(()));
        }
        assert_eq!(polls.load(Relaxed), 1);
        let mut never = pin!(std::future::pending::<()>());
        assert_eq!(event.or(never.as_mut()).await, First::Event(()));
        assert_eq!(polls.load(Relaxed), 2);
        let mut now = pin!(std::future::ready(1));
        assert_eq!(event.or(now.as_mut()).await, First::Main(1));
    }
}
