//! Timeouts of one client's connection.
//!
//! A timer for each header, body and response would be armed and disarmed with every request.
//! Instead each connection is looked at once a tick. [`TimeoutCheck`] compares the connection's
//! [`Activity`] with that of the tick before and counts for how many ticks in a row nothing has
//! changed. A timeout has expired when the count exceeds the number of ticks that the
//! [`TimeoutPolicy`] allows, so it ends at most two ticks late (and the small part of a tick by
//! which `connection_timers.rs` may be late), and an ordinary request costs nothing at all.

use std::time::Duration;

use sluicegate_config::Timeouts;

use crate::activity::{Activity, ConnectionPhase};

/// Reason for which a connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// Nobody sent a request for a while: nothing is wrong.
    Idle,
    /// A header or a handshake took too long.
    Header,
    /// The client does not read its response, or reads too slowly.
    Unread,
}

/// Durations that a connection has to keep to, as given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpTimeouts {
    /// From the first byte of a connection or request to the end of its header; also the
    /// handshake.
    pub header: Duration,
    /// Longest pause between two requests.
    pub idle: Duration,
    /// Time in which a client has to take `unread_bytes_min` of a response that waits for it.
    pub unread: Duration,
    /// At least one.
    pub unread_bytes_min: u64,
}

impl HttpTimeouts {
    /// Slower than this nobody reads in earnest.
    const BYTES_PER_SECOND: u64 = 100;
}

impl From<&Timeouts> for HttpTimeouts {
    /// Timeouts of the proxy: a response has to be read at a hundred bytes a second, measured over
    /// the time that a stalled client has.
    fn from(timeouts: &Timeouts) -> Self {
        let unread = Duration::from(timeouts.stalled_client);
        Self {
            header: timeouts.header.into(),
            idle: timeouts.idle.into(),
            unread,
            unread_bytes_min: (Self::BYTES_PER_SECOND * unread.as_millis() as u64 / 1_000).max(1),
        }
    }
}

/// Timeouts in ticks.
#[derive(Clone, Copy, Debug)]
pub struct TimeoutPolicy {
    /// Interval between two checks: a quarter of the shortest timeout.
    pub(crate) tick: Duration,
    header: u32,
    idle: u32,
    unread: UnreadPolicy,
}

/// Time in ticks that a client has to take some bytes of a response that waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreadPolicy {
    pub(crate) ticks: u32,
    pub(crate) bytes_min: u64,
}

impl TimeoutPolicy {
    /// Converts durations to ticks, rounding up: no timeout ends early.
    pub fn new(timeouts: &HttpTimeouts) -> Self {
        const TICK_MIN: Duration = Duration::from_millis(20);
        let shortest = timeouts.header.min(timeouts.idle).min(timeouts.unread);
        let tick = (shortest / 4).max(TICK_MIN);
        Self {
            tick,
            header: ticks(timeouts.header, tick),
            idle: ticks(timeouts.idle, tick),
            unread: UnreadPolicy {
                ticks: ticks(timeouts.unread, tick),
                bytes_min: timeouts.unread_bytes_min.max(1),
            },
        }
    }

    /// Ticks in which a client has to take the least of what waits for it, and how much that is.
    pub(crate) fn unread(&self) -> UnreadPolicy {
        self.unread
    }

    /// Ticks in a span of time, rounded up.
    pub(crate) fn ticks(&self, span: Duration) -> u32 {
        ticks(span, self.tick)
    }
}

/// Ticks in a span of time, rounded up.
fn ticks(span: Duration, tick: Duration) -> u32 {
    (span.as_nanos().div_ceil(tick.as_nanos())).clamp(1, u128::from(u32::MAX)) as u32
}

/// Compares a connection's activity from tick to tick.
#[derive(Debug)]
pub(crate) struct TimeoutCheck {
    policy: TimeoutPolicy,
    /// Ticks in a row at which no request was answered, and none has begun between them. Bytes do
    /// not matter: over HTTP/2 a client can send frames for ever that ask for nothing.
    idle_ticks: u32,
    /// Ticks in a row at which the same header was incomplete, however its bytes trickle in.
    header_ticks: u32,
    /// Requests that had begun at the last tick: with another one, the header is another too.
    requests_begun: u64,
    /// Ticks since the client is waited for to read.
    unread_ticks: u32,
    /// Bytes written when that wait began.
    unread_from: u64,
}

impl TimeoutCheck {
    pub(crate) fn new(policy: TimeoutPolicy) -> Self {
        Self {
            policy,
            idle_ticks: 0,
            header_ticks: 0,
            requests_begun: 0,
            unread_ticks: 0,
            unread_from: 0,
        }
    }

    /// The timeouts that are checked.
    pub(crate) fn policy(&self) -> TimeoutPolicy {
        self.policy
    }

    /// Interval at which [`TimeoutCheck::tick`] has to be called.
    pub(crate) fn interval(&self) -> Duration {
        self.policy.tick
    }

    /// Looks at the connection once a tick; returns the timeout that has expired, if any.
    pub(crate) fn tick(&mut self, activity: &Activity) -> Option<Expired> {
        let (phase, begun) = (activity.phase(), activity.requests_begun());
        let has_begun = begun != std::mem::replace(&mut self.requests_begun, begun);
        self.header_ticks = match phase {
            ConnectionPhase::Header if has_begun => 1,
            ConnectionPhase::Header => self.header_ticks + 1,
            ConnectionPhase::Idle | ConnectionPhase::Busy => 0,
        };
        let is_unread = activity.is_unread();
        self.idle_ticks = match phase {
            ConnectionPhase::Busy => 0,
            // The client still takes its last response.
            _ if has_begun || is_unread => 0,
            // A header that has begun has its own time on top.
            ConnectionPhase::Header | ConnectionPhase::Idle => self.idle_ticks.saturating_add(1),
        };
        let is_unread_for_too_long =
            self.is_unread_for_too_long(is_unread, activity.bytes_written());
        match phase {
            ConnectionPhase::Header if self.header_ticks > self.policy.header => {
                Some(Expired::Header)
            }
            _ if is_unread_for_too_long => {
                activity.give_up();
                Some(Expired::Unread)
            }
            ConnectionPhase::Idle if self.idle_ticks > self.policy.idle => Some(Expired::Idle),
            ConnectionPhase::Header | ConnectionPhase::Idle | ConnectionPhase::Busy => None,
        }
    }

    /// Time for which nothing has changed, in whole ticks.
    pub(crate) fn still(&self) -> Duration {
        self.policy.tick.saturating_mul(self.idle_ticks)
    }

    /// Lets an idle connection be idle for this much longer, to come to its end.
    pub(crate) fn grant_time(&mut self, time: Duration) {
        self.idle_ticks = (self.policy.idle + 1).saturating_sub(self.policy.ticks(time));
    }

    /// Counts the ticks at which the client was waited for. After each full window the bytes that
    /// went out in it are compared with the least that must.
    fn is_unread_for_too_long(&mut self, is_unread: bool, written: u64) -> bool {
        if !is_unread {
            (self.unread_ticks, self.unread_from) = (0, written);
            return false;
        }
        self.unread_ticks += 1;
        if self.unread_ticks <= self.policy.unread.ticks {
            return false;
        }
        let went = written - self.unread_from;
        (self.unread_ticks, self.unread_from) = (0, written);
        went < self.policy.unread.bytes_min
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::ReadKind;

    /// Header four ticks, idle eight.
    fn check() -> TimeoutCheck {
        let idle = Duration::from_secs(2);
        TimeoutCheck::new(TimeoutPolicy::new(&HttpTimeouts {
            header: Duration::from_secs(1),
            idle,
            unread: idle,
            unread_bytes_min: 200,
        }))
    }

    /// Ticks until a timeout expires, at most fifty.
    fn ticks(
        check: &mut TimeoutCheck,
        activity: &Activity,
        mut meanwhile: impl FnMut(&Activity),
    ) -> Option<(usize, Expired)> {
        (1..=50).find_map(|tick| {
            meanwhile(activity);
            Some((tick, check.tick(activity)?))
        })
    }

    fn trickle(activity: &Activity) {
        activity.record_read(1, ReadKind::Partial);
    }

    fn ping(activity: &Activity) {
        activity.record_read(17, ReadKind::WholeFrames);
    }

    #[test]
    fn a_header_must_be_complete_in_time_however_its_bytes_trickle() {
        assert_eq!(
            ticks(&mut check(), &Activity::new(), |_| {}),
            Some((5, Expired::Header))
        );
        assert_eq!(
            ticks(&mut check(), &Activity::new(), trickle),
            Some((5, Expired::Header))
        );
    }

    #[test]
    fn headers_of_many_requests_in_a_row_each_have_their_own_time() {
        let answer_and_read_on = |activity: &Activity| {
            activity.begin_request();
            activity.end_request();
            trickle(activity);
        };
        assert_eq!(
            ticks(&mut check(), &Activity::new(), answer_and_read_on),
            None
        );
    }

    #[test]
    fn frames_between_requests_begin_no_request_and_half_a_frame_does() {
        let (activity, mut check) = (Activity::new(), check());
        assert_eq!(
            ticks(&mut check, &activity, ping),
            Some((5, Expired::Header)),
            "the first request is to come"
        );
        activity.begin_request();
        activity.end_request();
        assert_eq!(
            ticks(&mut check, &activity, ping),
            Some((10, Expired::Idle)),
            "they do not keep the connection either"
        );
        assert_eq!(
            ticks(&mut check, &activity, trickle),
            Some((5, Expired::Header))
        );
    }

    #[test]
    fn frames_that_begin_and_end_between_ticks_do_not_keep_a_connection() {
        let (activity, mut check) = (Activity::new(), check());
        activity.begin_request();
        activity.end_request();
        let mut count = 0;
        let by_turns = |activity: &Activity| {
            count += 1;
            if count % 4 == 0 {
                ping(activity);
            } else {
                trickle(activity);
            }
        };
        let (after, expired) = ticks(&mut check, &activity, by_turns).unwrap();
        assert_eq!(expired, Expired::Idle);
        assert!(after <= 8 + 4 + 1, "{after}");
    }

    #[test]
    fn between_requests_there_is_more_time() {
        let (activity, mut check) = (Activity::new(), check());
        activity.begin_request();
        activity.end_request();
        assert_eq!(
            ticks(&mut check, &activity, |_| {}),
            Some((10, Expired::Idle)),
            "a tick in which a request ended counts as its own"
        );
    }

    #[test]
    fn a_response_may_take_its_time_if_nobody_waits_for_the_client() {
        let activity = Activity::new();
        activity.begin_request();
        assert_eq!(ticks(&mut check(), &activity, |_| {}), None);
    }

    #[test]
    fn a_response_must_be_read_at_a_hundred_bytes_a_second() {
        let read = |bytes: usize| {
            move |activity: &Activity| {
                activity.record_write(bytes);
                activity.record_blocked_write();
            }
        };
        for requests in [0, 1] {
            let activity = Activity::new();
            (0..=requests).for_each(|_| activity.begin_request());
            activity.end_request();
            assert_eq!(
                ticks(&mut check(), &activity, Activity::record_blocked_write),
                Some((9, Expired::Unread))
            );
            assert_eq!(
                ticks(&mut check(), &activity, read(5)),
                Some((9, Expired::Unread))
            );
            assert!(activity.is_given_up());
            assert_eq!(ticks(&mut check(), &activity, read(30)), None);
        }
    }
}
