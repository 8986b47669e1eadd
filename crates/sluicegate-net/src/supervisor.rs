//! Supervision of one connection: its timeouts, its rest, and its end with the process or because
//! the process has too much to hold.
//!
//! The supervisor is not a task. It polls the future that serves the connection, and beside it
//! three seldom things: the tick of the timeouts, the signal that the process ends, and a timer
//! after which a quiet connection is put to rest. A [`WakeFlag`] tells it when one of the three is
//! due, so serving a request does not touch them.
//!
//! When the process ends, a connection of HTTP/1 is told twice: at once, so that its next answer
//! says that it closes, and again when nothing has come for [`DRAIN_QUIET`]. A client that is about
//! to send a request is so answered and told, where a close would have crossed its request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Interval, Sleep, sleep};

use crate::activity::Activity;
use crate::counters::{ConnectionCounters, ConnectionRefusal};
use crate::lingering::Lingering;
use crate::overload::ShedConnection;
use crate::timeouts::{Expired, TimeoutCheck, TimeoutPolicy};
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
    /// What follows when the connection is quiet for a while.
    pub(crate) when_quiet: WhenQuiet,
    /// The connection was told that it was idle for too long.
    is_told_idle: bool,
    /// Set when one of the above is due.
    flag: WakeFlag,
}

/// Time for which a connection must be quiet before it is closed because the process ends.
pub(crate) const DRAIN_QUIET: Duration = Duration::from_secs(1);

/// What follows when a connection is quiet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenQuiet {
    /// Nothing.
    Nothing,
    /// The supervised future is dropped and made anew when bytes come. If the process ends, the
    /// connection does.
    Rest,
    /// The connection rests already. If the process ends, it does too.
    End,
}

/// Reason for which a supervised future has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// The process ends.
    ProcessEnds,
    /// The process ends, and nothing has come for a while.
    Quiet,
    /// Nothing has come for as long as a connection may be idle.
    Idle,
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
    End(EndReason),
    Timeout(Expired),
    /// The process has too much to hold, and this connection has to go.
    Shed(ShedConnection),
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
            is_told_idle: false,
            when_quiet: WhenQuiet::Nothing,
            flag: WakeFlag::for_this_task().await,
        }
    }

    /// Timeouts of the supervised connection.
    pub(crate) fn timeouts(&self) -> TimeoutPolicy {
        self.check.policy()
    }

    /// The counters that refused connections are counted in.
    pub(crate) fn counters(&self) -> &Arc<ConnectionCounters> {
        &self.counters
    }

    /// Counts the connection as refused.
    pub(crate) fn refuse(&self, reason: ConnectionRefusal) {
        self.counters.refuse(reason);
    }

    /// Polls `future` until it is done or has to end.
    ///
    /// When the process ends or the connection has been idle, `end` asks the future to finish; it
    /// is awaited if that says so. Other timeouts end it at once.
    pub(crate) async fn supervise<F: Future>(
        &mut self,
        mut future: Pin<&mut F>,
        end: impl Fn(Pin<&mut F>, EndReason) -> EndMode,
    ) -> Supervised<F::Output> {
        poll_fn(|cx| {
            loop {
                // Before the future, so that an answer which is made now says that it is the last.
                if self.flag.is_set()
                    && self.process_ends()
                    && end(future.as_mut(), EndReason::ProcessEnds) == EndMode::Immediate
                {
                    return Poll::Ready(Supervised::Ended);
                }
                if let Poll::Ready(done) = future.as_mut().poll(cx) {
                    return Poll::Ready(Supervised::Finished(done));
                }
                if self.rest.is_none() && self.waits_for_quiet() && self.is_quiet() {
                    self.schedule_rest();
                }
                if !self.flag.take() {
                    return Poll::Pending;
                }
                match self.next_event() {
                    SupervisorEvent::None => {}
                    SupervisorEvent::Rest => return Poll::Ready(Supervised::Resting),
                    SupervisorEvent::End(reason) => {
                        if end(future.as_mut(), reason) == EndMode::Immediate {
                            return Poll::Ready(Supervised::Ended);
                        }
                    }
                    SupervisorEvent::Shed(ShedConnection::Large) => {
                        // What it holds is thrown away, also what the system has yet to send.
                        self.activity.give_up();
                        return Poll::Ready(Supervised::Ended);
                    }
                    SupervisorEvent::Shed(_) | SupervisorEvent::Timeout(Expired::Idle)
                        if !self.is_told_idle =>
                    {
                        (self.ending, self.is_told_idle) = (None, true);
                        self.check.grant_time(Lingering::<()>::LONGEST);
                        if end(future.as_mut(), EndReason::Idle) == EndMode::Immediate {
                            return Poll::Ready(Supervised::Ended);
                        }
                    }
                    SupervisorEvent::Shed(_) => {}
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
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_none()
    }

    /// Returns true when something follows if the connection is quiet.
    fn waits_for_quiet(&self) -> bool {
        match self.when_quiet {
            WhenQuiet::Nothing => false,
            WhenQuiet::Rest => true,
            WhenQuiet::End => self.is_ending(),
        }
    }

    /// Returns true when no request is going on. A connection that has yet to begin its first is
    /// not put to rest, but need not be waited for when the process ends.
    fn is_quiet(&self) -> bool {
        self.activity.is_quiet() || self.is_ending() && self.activity.bytes_read() == 0
    }

    /// Returns true once, when the process ends.
    fn process_ends(&mut self) -> bool {
        let mut cx = self.flag.context();
        let ended = (self.ending).take_if(|ending| ending.as_mut().poll(&mut cx).is_ready());
        if ended.is_some() {
            // The quiet begins anew.
            self.rest = None;
        }
        ended.is_some()
    }

    /// Polls everything that the flag may have been set for, and returns the first event. If more
    /// may be due the flag is set again.
    fn next_event(&mut self) -> SupervisorEvent {
        if self.process_ends() {
            // The timers were not polled yet.
            self.flag.context().waker().wake_by_ref();
            return SupervisorEvent::End(EndReason::ProcessEnds);
        }
        let mut cx = self.flag.context();
        while self.ticks.poll_tick(&mut cx).is_ready() {
            self.activity.record_tick();
            if let Some(expired) = self.check.tick(&self.activity) {
                cx.waker().wake_by_ref();
                return SupervisorEvent::Timeout(expired);
            }
            if let Some(shed) = self.sheds() {
                cx.waker().wake_by_ref();
                return SupervisorEvent::Shed(shed);
            }
        }
        let rested = self
            .rest
            .take_if(|(until, _)| until.as_mut().poll(&mut cx).is_ready());
        match rested {
            // Bytes that were read since show that it was not quiet all the time.
            Some((_, read)) if self.is_quiet() && self.activity.bytes_read() == read => {
                if self.is_ending() {
                    SupervisorEvent::End(EndReason::Quiet)
                } else {
                    SupervisorEvent::Rest
                }
            }
            _ => SupervisorEvent::None,
        }
    }

    /// Decides whether the connection has to go because the process has too much to hold. One that
    /// is ending already is left to its end.
    fn sheds(&self) -> Option<ShedConnection> {
        let overload = self.counters.overload();
        let shed = overload.sheds(&self.activity, self.check.still());
        let shed = shed.filter(|shed| *shed == ShedConnection::Large || !self.is_told_idle)?;
        overload.count(shed);
        Some(shed)
    }

    /// Starts the timer after which the connection rests, or ends, if it stays quiet.
    fn schedule_rest(&mut self) {
        let quiet = if self.is_ending() {
            DRAIN_QUIET
        } else {
            time_before_rest(self.counters.open())
        };
        let mut until = Box::pin(sleep(quiet));
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
