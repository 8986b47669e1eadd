//! Supervision of one connection: its timeouts, its rest, and its end with the process.
//!
//! The supervisor is not a task. It polls the future that serves the connection, and beside it
//! three seldom things: the tick of the timeouts, the signal that the process ends, and a timer
//! after which a quiet connection is put to rest. A [`WakeFlag`] tells it when one of the three is
//! due, so serving a request does not touch them.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Interval, Sleep, sleep};

use crate::activity::Activity;
use crate::counters::{ConnectionCounters, ConnectionRefusal};
use crate::timeouts::{Expired, TimeoutCheck};
use crate::wake_flag::WakeFlag;

/// Ends a connection in time.
pub(crate) struct ConnectionSupervisor {
    counters: Arc<ConnectionCounters>,
    activity: Arc<Activity>,
    check: TimeoutCheck,
    ticks: Interval,
    /// Ready when no request may begin any more; `None` once the connection was told to end.
    ending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Time after which a quiet connection rests, and the bytes read when it became quiet.
    rest: Option<(Pin<Box<Sleep>>, u64)>,
    /// The supervised future can be dropped and made anew while the connection is quiet.
    pub(crate) can_rest: bool,
    /// Set when one of the above is due.
    flag: WakeFlag,
}

/// Manner in which a supervised future ends that has to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndMode {
    /// By itself and soon, because it was told.
    Graceful,
    /// At once, by being dropped.
    Immediate,
}

/// Result of supervising a future.
pub(crate) enum Supervised<T> {
    /// The future is done.
    Finished(T),
    /// The connection has been quiet for a while. The future is to be dropped to save its memory.
    Resting,
    /// A timeout expired, or the process ends. The connection is to be dropped.
    Ended,
}

/// Event that the flag was set for.
enum SupervisorEvent {
    /// Nothing that matters.
    None,
    Rest,
    ProcessEnds,
    Timeout(Expired),
}

impl ConnectionSupervisor {
    /// Supervises a connection from the calling task; `ending` becomes true when the process is
    /// about to end.
    pub(crate) async fn new(
        counters: Arc<ConnectionCounters>,
        activity: Arc<Activity>,
        check: TimeoutCheck,
        mut ending: watch::Receiver<bool>,
    ) -> Self {
        let ending = Box::pin(async move {
            let _ = ending.wait_for(|is_ending| *is_ending).await;
        });
        Self {
            counters,
            activity,
            ticks: tokio::time::interval(check.interval()),
            check,
            ending: Some(ending),
            rest: None,
            can_rest: false,
            flag: WakeFlag::for_this_task().await,
        }
    }

    /// State of the supervised connection.
    pub(crate) fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Counts the connection as refused.
    pub(crate) fn refuse(&self, reason: ConnectionRefusal) {
        self.counters.refuse(reason);
    }

    /// Polls `future` until it is done or has to end.
    ///
    /// When the process ends, `end` asks the future to finish; it is awaited if that says so. When
    /// a timeout expires, `on_timeout` chooses between the same and an immediate end.
    pub(crate) async fn supervise<F: Future>(
        &mut self,
        mut future: Pin<&mut F>,
        end: impl Fn(Pin<&mut F>) -> EndMode,
        on_timeout: impl Fn(Expired) -> EndMode,
    ) -> Supervised<F::Output> {
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(done) = future.as_mut().poll(cx) {
                    return Poll::Ready(Supervised::Finished(done));
                }
                if self.can_rest && self.rest.is_none() && self.activity.is_quiet() {
                    self.schedule_rest();
                }
                if !self.flag.take() {
                    return Poll::Pending;
                }
                match self.next_event() {
                    SupervisorEvent::None => {}
                    SupervisorEvent::Rest => return Poll::Ready(Supervised::Resting),
                    SupervisorEvent::ProcessEnds => {
                        if end(future.as_mut()) == EndMode::Immediate {
                            return Poll::Ready(Supervised::Ended);
                        }
                    }
                    SupervisorEvent::Timeout(expired)
                        if !self.is_ending() && on_timeout(expired) == EndMode::Graceful =>
                    {
                        self.ending = None;
                        end(future.as_mut());
                    }
                    SupervisorEvent::Timeout(expired) => {
                        if expired != Expired::Idle {
                            self.refuse(ConnectionRefusal::Slow);
                        }
                        return Poll::Ready(Supervised::Ended);
                    }
                }
            }
        })
        .await
    }

    /// Returns true once the connection was told to end.
    fn is_ending(&self) -> bool {
        self.ending.is_none()
    }

    /// Polls everything that the flag may have been set for, and returns the first event. If more
    /// may be due the flag is set again.
    fn next_event(&mut self) -> SupervisorEvent {
        let mut cx = self.flag.context();
        if let Some(ending) = &mut self.ending
            && ending.as_mut().poll(&mut cx).is_ready()
        {
            self.ending = None;
            // The timers were not polled yet.
            cx.waker().wake_by_ref();
            return SupervisorEvent::ProcessEnds;
        }
        while self.ticks.poll_tick(&mut cx).is_ready() {
            if let Some(expired) = self.check.tick(&self.activity) {
                cx.waker().wake_by_ref();
                return SupervisorEvent::Timeout(expired);
            }
        }
        let rested = self
            .rest
            .take_if(|(until, _)| until.as_mut().poll(&mut cx).is_ready());
        match rested {
            // Bytes that were read since show that it was not quiet all the time.
            Some((_, read))
                if !self.is_ending()
                    && self.activity.is_quiet()
                    && self.activity.bytes_read() == read =>
            {
                SupervisorEvent::Rest
            }
            _ => SupervisorEvent::None,
        }
    }

    /// Starts the timer after which the connection rests, if it stays quiet.
    fn schedule_rest(&mut self) {
        let mut until = Box::pin(sleep(time_before_rest(self.counters.open())));
        // Polled once, so that the timer knows the flag.
        let _ = until.as_mut().poll(&mut self.flag.context());
        self.rest = Some((until, self.activity.bytes_read()));
    }
}

/// Time for which a quiet connection keeps its memory: the more connections there are, the less.
/// With few there is memory enough, and making everything anew is work; many have longer pauses
/// between their requests anyway.
fn time_before_rest(connections: u64) -> Duration {
    const LONGEST: Duration = Duration::from_millis(100);
    const FEW: u64 = 256;
    LONGEST.mul_f64(FEW as f64 / connections.max(FEW) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_connections_there_are_the_sooner_each_rests() {
        assert_eq!(time_before_rest(0), time_before_rest(256));
        assert_eq!(time_before_rest(512), time_before_rest(256) / 2);
        assert!(time_before_rest(1_000_000) < Duration::from_millis(1));
    }
}
