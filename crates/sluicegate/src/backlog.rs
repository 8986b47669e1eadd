//! Work that nobody waits for, in bounds: settling charges after the answer was sent.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Work to finish in the background.
pub type BackgroundWork = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Counts the work that is under way, so that a slow store cannot make it pile up.
///
/// ```
/// use sluicegate::Backlog;
///
/// let backlog = Backlog::default();
/// // Work that need not wait is done at once.
/// assert!(backlog.run(Box::pin(async {}), |_| unreachable!()));
/// ```
#[derive(Clone, Debug)]
pub struct Backlog {
    under_way: Arc<AtomicUsize>,
    most: usize,
}

impl Default for Backlog {
    fn default() -> Self {
        Self::of(Self::MAX)
    }
}

/// One piece of work under way.
struct WorkPermit(Arc<AtomicUsize>);

impl Drop for WorkPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Backlog {
    /// The most pieces of work under way. Each ends within the store's deadline, so a store would
    /// have to be asked more than a million times in a second for so many.
    pub const MAX: usize = 65_536;

    /// Room for this much work under way.
    pub fn of(most: usize) -> Self {
        Self {
            under_way: Arc::default(),
            most,
        }
    }

    /// Does the work as far as it needs not wait, and hands the rest to `spawn`. False when too much
    /// is under way: then the rest is dropped.
    pub fn run(&self, mut work: BackgroundWork, spawn: impl FnOnce(BackgroundWork)) -> bool {
        // Whoever polls it next brings a waker that counts.
        let first = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(()) = first {
            return true;
        }
        let permit = WorkPermit(Arc::clone(&self.under_way));
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= self.most {
            return false;
        }
        spawn(Box::pin(async move {
            let _permit = permit;
            work.await;
        }));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_beyond_the_bound_is_dropped_until_some_is_done() {
        let backlog = Backlog::of(2);
        let (sender, receiver) = tokio::sync::watch::channel(false);
        let waiting = || -> BackgroundWork {
            let mut receiver = receiver.clone();
            Box::pin(async move {
                let _ = receiver.wait_for(|is_over| *is_over).await;
            })
        };
        let mut spawned = Vec::new();
        let mut run = |work| backlog.run(work, |rest| spawned.push(rest));
        assert_eq!([run(waiting()), run(waiting())], [true, true]);
        assert!(!run(waiting()), "two are under way");
        assert!(
            run(Box::pin(async {})),
            "what is done at once needs no room"
        );
        assert_eq!(spawned.len(), 2);
        sender.send_replace(true);
        for work in spawned {
            work.await;
        }
        sender.send_replace(false);
        let forgotten = || backlog.run(waiting(), drop);
        assert_eq!([forgotten(), forgotten(), forgotten()], [true; 3]);
    }
}
