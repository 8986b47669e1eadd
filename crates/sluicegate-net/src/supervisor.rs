//! Supervision of one connection: its timeouts, its rest, and its end with the process or because
//! the process has too much to hold.
//!
//! The supervisor is not a task. It polls the future that serves the connection, and beside it
//! looks at three seldom things: the tick of the timeouts, the signal that the process ends, and the
//! time at which a quiet connection is put to rest. A flag in the connection's [`Activity`] tells it
//! when one of the three is due, so serving a request does not touch them. The timers of all
//! connections of a thread are one task (`connection_timers.rs`).
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

use crate::activity::Activity;
use crate::connection_timers::{TimerTime, TimersUse};
use crate::counters::{ConnectionCounters, ConnectionRefusal, OpenConnection};
use crate::lingering::Lingering;
use crate::overload::ShedConnection;
use crate::timeouts::{Expired, TimeoutCheck, TimeoutPolicy};

/// Ends a connection in time. It lies in a box, in every connection that waits, so it is kept small.
pub(crate) struct ConnectionSupervisor {
    /// Counts the connection as open, and those that are refused.
    open: OpenConnection,
    /// Its flag is set when the supervisor has something to look at.
    activity: Arc<Activity>,
    timers: TimersUse,
    check: TimeoutCheck,
    next_tick: TimerTime,
    /// The time at which a quiet connection rests, and the bytes read when it became quiet.
    rest: Option<(TimerTime, u64)>,
    /// What follows when the connection is quiet for a while.
    pub(crate) when_quiet: WhenQuiet,
    /// The connection was told to end.
    is_told: bool,
    /// The connection was told that it was idle for too long.
    is_told_idle: bool,
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
    /// Supervises a connection, which is counted as open from now on; `ending` becomes true when the
    /// process is about to end. To be called within a runtime.
    pub(crate) fn new(
        counters: &Arc<ConnectionCounters>,
        activity: Arc<Activity>,
        timeouts: TimeoutPolicy,
        ending: &watch::Receiver<bool>,
    ) -> Box<Self> {
        let timers = TimersUse::new(ending);
        Box::new(Self {
            open: counters.open_connection(),
            activity,
            next_tick: timers.now(),
            timers,
            check: TimeoutCheck::new(timeouts),
            rest: None,
            when_quiet: WhenQuiet::Nothing,
            is_told: false,
            is_told_idle: false,
        })
    }

    /// Timeouts of the supervised connection.
    pub(crate) fn timeouts(&self) -> TimeoutPolicy {
        self.check.policy()
    }

    /// The counters that refused connections are counted in.
    pub(crate) fn counters(&self) -> &Arc<ConnectionCounters> {
        self.open.counters()
    }

    /// Counts the connection as refused.
    pub(crate) fn refuse(&self, reason: ConnectionRefusal) {
        self.counters().refuse(reason);
    }

    /// Polls `future` until it is done or has to end.
    ///
    /// When the process ends or the connection has been idle, `end` asks the future to finish; it
    /// is awaited if that says so. Other timeouts end it at once.
    ///
    /// This is no `async fn`, which would have room for its arguments twice.
    pub(crate) fn supervise<F: Future>(
        &mut self,
        mut future: Pin<&mut F>,
        end: impl Fn(Pin<&mut F>, EndReason) -> EndMode,
    ) -> impl Future<Output = Supervised<F::Output>> {
        poll_fn(move |cx| {
            loop {
                // Before the future, so that an answer which is made now says that it is the last.
                if self.activity.flag().is_set() {
                    self.activity.flag().belongs_to(cx.waker());
                    if self.process_ends()
                        && end(future.as_mut(), EndReason::ProcessEnds) == EndMode::Immediate
                    {
                        return Poll::Ready(Supervised::Ended);
                    }
                }
                if let Poll::Ready(done) = future.as_mut().poll(cx) {
                    return Poll::Ready(Supervised::Finished(done));
                }
                if self.rest.is_none() && self.waits_for_quiet() && self.is_quiet() {
                    self.schedule_rest();
                }
                if !self.activity.flag().take() {
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
                        (self.is_told, self.is_told_idle) = (true, true);
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
    }

    /// Returns true once the connection was told to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_told
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
        if self.is_told || !self.timers.is_ending() {
            return false;
        }
        self.is_told = true;
        // The quiet begins anew.
        self.rest = None;
        true
    }

    /// Looks at everything that the flag may have been set for, and returns the first event. If more
    /// may be due the flag is set again.
    fn next_event(&mut self) -> SupervisorEvent {
        if self.process_ends() {
            // The timers were not looked at yet.
            self.activity.flag().set();
            return SupervisorEvent::End(EndReason::ProcessEnds);
        }
        let now = self.timers.now();
        while self.next_tick <= now {
            if let Some(event) = self.tick(now) {
                self.activity.flag().set();
                return event;
            }
        }
        match self.rest.take_if(|(until, _)| *until <= now) {
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

    /// Looks at the connection once a tick. Ticks that were missed are made up for.
    fn tick(&mut self, now: TimerTime) -> Option<SupervisorEvent> {
        self.next_tick = self.next_tick.after(self.check.interval());
        if self.next_tick > now {
            self.wake_at(self.next_tick, self.check.interval());
        }
        self.activity.record_tick();
        if let Some(expired) = self.check.tick(&self.activity) {
            return Some(SupervisorEvent::Timeout(expired));
        }
        self.sheds().map(SupervisorEvent::Shed)
    }

    /// Has the flag set at a time, which is `span` from now.
    fn wake_at(&self, time: TimerTime, span: Duration) {
        if self.timers.wake_at(time, span, &self.activity) && !self.is_told {
            // The signal came when there was no entry to wake.
            self.activity.flag().set_and_wake();
        }
    }

    /// Decides whether the connection has to go because the process has too much to hold. One that
    /// is ending already is left to its end.
    fn sheds(&self) -> Option<ShedConnection> {
        let overload = self.counters().overload();
        let shed = overload.sheds(&self.activity, self.check.still());
        let shed = shed.filter(|shed| *shed == ShedConnection::Large || !self.is_told_idle)?;
        overload.count(shed);
        Some(shed)
    }

    /// Sets the time at which the connection rests, or ends, if it stays quiet.
    fn schedule_rest(&mut self) {
        let quiet = if self.is_ending() {
            DRAIN_QUIET
        } else {
            time_before_rest(self.counters().open(), self.activity.requests_begun())
        };
        let until = self.timers.now().after(quiet);
        self.rest = Some((until, self.activity.bytes_read()));
        self.wake_at(until, quiet);
    }
}

/// Time for which a quiet connection keeps its memory: the more connections there are, the less.
/// With few there is memory enough, and making everything anew is work; many have longer pauses
/// between their requests anyway. One that has asked only once may never ask again, so fewer of
/// these count as many: thousands of clients that come at a time and wait would otherwise take the
/// memory of hundreds that are busy, and the allocator keeps what it once had.
fn time_before_rest(connections: u64, requests: u64) -> Duration {
    const LONGEST: Duration = Duration::from_millis(100);
    const FEW: u64 = 256;
    const FEW_WITH_ONE_REQUEST: u64 = 32;
    let few = if requests > 1 {
        FEW
    } else {
        FEW_WITH_ONE_REQUEST
    };
    LONGEST.mul_f64(few as f64 / connections.max(few) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_takes_little_memory() {
        let size = size_of::<ConnectionSupervisor>();
        assert!(size <= 160, "{size} bytes");
    }

    #[test]
    fn the_more_connections_there_are_the_sooner_each_rests() {
        for (requests, few) in [(1, 32), (2, 256), (1_000, 256)] {
            let time = |connections| time_before_rest(connections, requests);
            assert_eq!(time(0), time(few));
            assert_eq!(time(2 * few), time(few) / 2);
            assert!(time(1_000_000) < Duration::from_millis(1));
        }
    }
}
