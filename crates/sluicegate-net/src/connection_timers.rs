//! The timers of all connections that one thread serves, and the signal that their process ends.
//!
//! A timer of the runtime and a wait for the signal would take more memory than all else that a
//! connection keeps while it waits for its next request. So a thread has one task that waits, for
//! all of its connections: it holds a list of those that want to be woken, by time, and wakes them
//! by their [`WakeFlag`](crate::wake_flag::WakeFlag). A connection is woken a little late, by a
//! thirty-second of its span at most, so that those of about the same time are woken together.
//!
//! The task lives as long as there are connections. Entries of connections that have ended stay in
//! the list until there are many of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::activity::Activity;

/// Timers of the connections of one thread that end with the same signal.
pub(crate) struct ConnectionTimers {
    /// The runtime that the connections, and the task that wakes them, belong to.
    runtime: runtime::Id,
    /// Becomes true when no request may begin any more.
    ending: watch::Receiver<bool>,
    /// Times are counted from here.
    start: Instant,
    state: Mutex<TimersState>,
    /// Told when an entry comes before all others, and when the last connection has ended.
    changed: Notify,
}

#[derive(Default)]
struct TimersState {
    /// Connections to be woken, by milliseconds.
    by_time: BTreeMap<u64, Vec<Weak<Activity>>>,
    /// Entries in `by_time`.
    entries: usize,
    /// Connections that use these timers.
    connections: usize,
    /// There is a task that wakes them.
    is_driven: bool,
    /// All connections were woken because the process ends.
    has_ended: bool,
}

thread_local! {
    static OF_THIS_THREAD: RefCell<Vec<Arc<ConnectionTimers>>> = const { RefCell::new(Vec::new()) };
}

/// A time of the [`ConnectionTimers`], in microseconds since they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerTime(u64);

impl TimerTime {
    /// The time so much later.
    pub(crate) fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.as_micros() as u64))
    }
}

/// A connection's use of the timers of its thread.
pub(crate) struct TimersUse(Arc<ConnectionTimers>);

impl TimersUse {
    /// The timers of this thread for connections that end when `ending` becomes true. To be called
    /// within a runtime.
    pub(crate) fn new(ending: &watch::Receiver<bool>) -> Self {
        let timers = ConnectionTimers::of_this_thread(ending);
        let mut state = timers.state();
        state.connections += 1;
        if !std::mem::replace(&mut state.is_driven, true) {
            let timers = Arc::clone(&timers);
            tokio::spawn(drive(Driven {
                timers,
                is_done: false,
            }));
        }
        drop(state);
        Self(timers)
    }

    /// The time now.
    pub(crate) fn now(&self) -> TimerTime {
        TimerTime(self.0.start.elapsed().as_micros() as u64)
    }

    /// Returns true when no request may begin any more.
    pub(crate) fn is_ending(&self) -> bool {
        *self.0.ending.borrow() || self.0.ending.has_changed().is_err()
    }

    /// Wakes a connection once, at `time` or a little later. `span` is the time from now until
    /// then, about. Returns true when the process ends, because this may not be told again.
    pub(crate) fn wake_at(&self, time: TimerTime, span: Duration, whom: &Arc<Activity>) -> bool {
        let key = rounded_up(time, span);
        let mut state = self.0.state();
        let is_first = (state.by_time.first_key_value()).is_none_or(|(first, _)| key < *first);
        state
            .by_time
            .entry(key)
            .or_default()
            .push(Arc::downgrade(whom));
        state.entries += 1;
        state.forget_the_gone();
        if is_first {
            self.0.changed.notify_one();
        }
        state.has_ended
    }
}

impl Drop for TimersUse {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.connections -= 1;
        state.forget_the_gone();
        if state.connections == 0 {
            self.0.changed.notify_one();
        }
    }
}

/// Milliseconds of a time, rounded up to a power of two that is at most a thirty-second of `span`.
fn rounded_up(time: TimerTime, span: Duration) -> u64 {
    let grain = (span.as_millis() as u64 / 32).max(1);
    time.0.div_ceil(1_000).next_multiple_of(1 << grain.ilog2())
}

impl ConnectionTimers {
    fn of_this_thread(ending: &watch::Receiver<bool>) -> Arc<Self> {
        let runtime = runtime::Handle::current().id();
        OF_THIS_THREAD.with_borrow_mut(|all| {
            let fits = |timers: &&Arc<Self>| {
                timers.runtime == runtime && timers.ending.same_channel(ending)
            };
            if let Some(timers) = all.iter().find(fits) {
                return Arc::clone(timers);
            }
            // Those of runtimes that have ended, and of signals that nobody waits for.
            all.retain(|timers| timers.state().is_driven);
            let timers = Arc::new(Self {
                runtime,
                ending: ending.clone(),
                start: Instant::now(),
                state: Mutex::default(),
                changed: Notify::new(),
            });
            all.push(Arc::clone(&timers));
            timers
        })
    }

    /// Wakes the connections whose time has come; returns the next time, or `None` when there is
    /// none. An error means that there are no connections left.
    fn wake_due(&self) -> Result<Option<Instant>, NoConnections> {
        let now = self.start.elapsed().as_millis() as u64;
        let mut due = Vec::new();
        let mut state = self.state();
        while let Some(first) = state.by_time.first_entry()
            && *first.key() <= now
        {
            due.append(&mut first.remove());
        }
        state.entries -= due.len();
        if state.connections == 0 {
            state.is_driven = false;
            return Err(NoConnections);
        }
        let next = state.by_time.first_key_value().map(|(key, _)| *key);
        drop(state);
        wake(due);
        Ok(next.map(|key| self.start + Duration::from_millis(key)))
    }

    /// Wakes all connections because the process ends. Each has an entry, or looks at its flag
    /// before it makes one.
    fn wake_all(&self) {
        let mut state = self.state();
        state.has_ended = true;
        let all: Vec<_> = state.by_time.values().flatten().cloned().collect();
        drop(state);
        wake(all);
    }

    fn state(&self) -> MutexGuard<'_, TimersState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct NoConnections;

/// Wakes those connections that are still there. No lock is held, because a woken task may run at
/// once in another thread.
fn wake(connections: Vec<Weak<Activity>>) {
    for connection in connections.into_iter().filter_map(|weak| weak.upgrade()) {
        connection.flag().set_and_wake();
    }
}

impl TimersState {
    /// Removes entries of connections that have ended, if there may be many. A connection has three
    /// at most: for its next tick, for its rest, and one for a rest that was put off. So what is
    /// looked at for nothing is a part of those that have ended since.
    fn forget_the_gone(&mut self) {
        const FEW: usize = 64;
        if self.entries <= 4 * self.connections + FEW {
            return;
        }
        self.by_time.retain(|_, connections| {
            connections.retain(|connection| connection.strong_count() > 0);
            !connections.is_empty()
        });
        self.entries = self.by_time.values().map(Vec::len).sum();
    }
}

/// The timers in the hands of the task that wakes their connections. A runtime that ends drops it.
struct Driven {
    timers: Arc<ConnectionTimers>,
    /// No connection was left, and the next one will be told so.
    is_done: bool,
}

impl Drop for Driven {
    fn drop(&mut self) {
        if !self.is_done {
            self.timers.state().is_driven = false;
        }
    }
}

/// Wakes connections when their time has come and when the process ends.
async fn drive(mut driven: Driven) {
    let timers = Arc::clone(&driven.timers);
    let mut ending = timers.ending.clone();
    let mut ended = pin!(async move { ending.wait_for(|ending| *ending).await.is_ok() });
    let mut is_over = false;
    loop {
        let Ok(next) = timers.wake_due() else {
            driven.is_done = true;
            return;
        };
        let time = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = &mut ended, if !is_over => {
                is_over = true;
                timers.wake_all();
            }
            () = timers.changed.notified() => {}
            () = time => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    struct Waiting {
        timers: TimersUse,
        activity: Arc<Activity>,
    }

    fn waiting(ending: &watch::Receiver<bool>) -> Waiting {
        let activity = Arc::new(Activity::new());
        activity.flag().take();
        Waiting {
            timers: TimersUse::new(ending),
            activity,
        }
    }

    impl Waiting {
        fn wake_in(&self, span: Duration) -> bool {
            let time = self.timers.now().after(span);
            self.timers.wake_at(time, span, &self.activity)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_are_woken_in_time_and_not_before() {
        let (_end, ending) = watch::channel(false);
        let all: Vec<Waiting> = (0..3).map(|_| waiting(&ending)).collect();
        for (span, connection) in [MINUTE, MINUTE / 60, MINUTE / 6000].into_iter().zip(&all) {
            assert!(!connection.wake_in(span));
        }
        let woken = || all.iter().map(|one| one.activity.flag().is_set());
        for (until, expected) in [
            (9, [false, false, false]),
            (12, [false, false, true]),
            (999, [false, false, true]),
            (1_032, [false, true, true]),
            (59_999, [false, true, true]),
            (61_900, [true, true, true]),
        ] {
            // bounded wait: the clock is paused
            tokio::time::sleep_until(all[0].timers.0.start + Duration::from_millis(until)).await;
            assert!(woken().eq(expected), "{until} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_process_wakes_all_and_is_told_to_those_who_come_later() {
        let (end, ending) = watch::channel(false);
        let (one, other) = (waiting(&ending), waiting(&ending));
        assert!(!one.wake_in(MINUTE) && !one.timers.is_ending());
        end.send_replace(true);
        // bounded wait: the clock is paused
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(one.activity.flag().is_set() && one.timers.is_ending());
        assert!(other.wake_in(MINUTE), "it had no entry");
        let (end, ending) = watch::channel(false);
        drop(end);
        assert!(waiting(&ending).timers.is_ending(), "nobody could tell it");
    }

    #[tokio::test]
    async fn connections_that_have_ended_leave_nothing_behind() {
        let (_end, ending) = watch::channel(false);
        let stays = waiting(&ending);
        stays.wake_in(MINUTE);
        for _ in 0..10_000 {
            waiting(&ending).wake_in(MINUTE);
        }
        let timers = Arc::clone(&stays.timers.0);
        assert!(timers.state().entries < 100);
        drop(stays);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!timers.state().is_driven, "its task has ended");
        let again = waiting(&ending);
        assert!(Arc::ptr_eq(&timers, &again.timers.0) && timers.state().is_driven);
    }

    #[test]
    fn a_runtime_that_ends_takes_its_timers_with_it() {
        let (_end, ending) = watch::channel(false);
        for _ in 0..3 {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().build().unwrap();
            runtime.block_on(async { waiting(&ending).wake_in(MINUTE) });
        }
        OF_THIS_THREAD.with_borrow(|all| assert_eq!(all.len(), 1));
    }
}
