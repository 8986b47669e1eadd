//! Watches one client's connection: who keeps it waiting, and for how long.
//!
//! No clock is read and no timer is set for a request. The connection looks at its watch once a tick, and a rule is broken
//! when nothing has changed for as many ticks as the rule allows; so a timeout ends at most one tick late.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::time::Duration;

use sluicegate_config::Timeouts;

/// What the connection is doing, told by those who do it.
#[derive(Debug, Default)]
pub(super) struct Watch {
    phase: AtomicU8,
    /// Requests that are being answered; several on HTTP/2.
    requests: AtomicU32,
    has_begun: AtomicBool,
    /// Bytes that came from the client, and went to it.
    read: AtomicU64,
    written: AtomicU64,
    /// Whether somebody waits for the client to take what was sent.
    write_blocked: AtomicU8,
    /// Answers over HTTP/2 that wait until the client makes room for them.
    without_room: AtomicU32,
    is_given_up: AtomicBool,
    is_flooded: AtomicBool,
}

/// What the last bytes from a client belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Something that is to go on, such as a header; if no request is under way, the next one has begun.
    Unfinished,
    /// Frames of HTTP/2, all of them complete: no request is waited for.
    Frames,
}

/// Between requests or within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing of the next request has come.
    Idle,
    /// Some of a header has come, or a handshake is under way.
    Header,
    /// A request is being answered.
    Busy,
}

impl Watch {
    /// Of a connection that was just accepted: its first request is already late.
    pub(super) fn new() -> Self {
        let watch = Self::default();
        watch.phase.store(Phase::Header as u8, Relaxed);
        watch
    }

    pub(super) fn has_read(&self, bytes: usize, part: Part) {
        self.read.fetch_add(bytes as u64, Relaxed);
        if self.requests.load(Relaxed) > 0 {
            return;
        }
        let phase = match part {
            Part::Frames if self.has_begun.load(Relaxed) => Phase::Idle,
            Part::Frames | Part::Unfinished => Phase::Header,
        };
        self.phase.store(phase as u8, Relaxed);
    }

    pub(super) fn has_written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Relaxed);
        self.write_blocked.store(0, Relaxed);
    }

    pub(super) fn cannot_write(&self) {
        self.write_blocked.store(1, Relaxed);
    }

    /// An answer waits until the client makes room for it, or no longer does.
    pub(super) fn wants_room(&self, wanted: bool) {
        if wanted {
            self.without_room.fetch_add(1, Relaxed);
        } else {
            self.without_room.fetch_sub(1, Relaxed);
        }
    }

    /// Whether the client does not read, so that nothing more need be sent to it.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Relaxed)
    }

    /// The client sends more frames than anybody has use for.
    pub(super) fn has_flooded(&self) {
        self.is_flooded.store(true, Relaxed);
    }

    pub(super) fn is_flooded(&self) -> bool {
        self.is_flooded.load(Relaxed)
    }

    /// The header of a request is complete.
    pub(super) fn begin(&self) {
        self.requests.fetch_add(1, Relaxed);
        self.has_begun.store(true, Relaxed);
        self.phase.store(Phase::Busy as u8, Relaxed);
    }

    /// A request is answered to its last byte, or was given up.
    pub(super) fn end(&self) {
        if self.requests.fetch_sub(1, Relaxed) == 1 {
            self.phase.store(Phase::Idle as u8, Relaxed);
        }
    }

    /// Bytes that came from the client so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read.load(Relaxed)
    }

    /// Bytes that went to the client so far.
    pub(super) fn bytes_written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Whether nothing is under way and everything is sent.
    pub(super) fn is_quiet(&self) -> bool {
        self.phase() == Phase::Idle && self.write_blocked.load(Relaxed) == 0
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Idle,
            1 => Phase::Header,
            _ => Phase::Busy,
        }
    }
}

/// Why a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Late {
    /// Nobody sent a request for a while: nothing is wrong.
    Idle,
    /// A header or handshake took too long.
    Header,
    /// The client does not read, or hardly.
    Read,
}

/// What a look at a watch tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    Fine,
    Late(Late),
}

/// The rules, in ticks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) tick: Duration,
    header: u32,
    idle: u32,
    /// The least that must go of an answer within the idle time.
    answer_bytes: u64,
}

impl Rules {
    /// Slower than this nobody reads in earnest.
    const BYTES_PER_SECOND: u64 = 100;

    pub(super) fn new(timeouts: &Timeouts) -> Self {
        const SHORTEST: Duration = Duration::from_millis(20);
        let (header, idle) = (
            Duration::from(timeouts.header),
            Duration::from(timeouts.idle),
        );
        let tick = (header.min(idle) / 4).max(SHORTEST);
        let ticks = |span: Duration| {
            (span.as_nanos().div_ceil(tick.as_nanos())).clamp(1, u128::from(u32::MAX)) as u32
        };
        let answer_bytes = (Self::BYTES_PER_SECOND * idle.as_millis() as u64 / 1_000).max(1);
        Self {
            tick,
            header: ticks(header),
            idle: ticks(idle),
            answer_bytes,
        }
    }
}

/// What was seen at the ticks before.
#[derive(Debug)]
pub(super) struct Patrol {
    rules: Rules,
    seen: Option<(Phase, u64, u64)>,
    /// Ticks for which phase and bytes have stayed as they are; for which the header has not been complete.
    still: u32,
    header: u32,
    /// Ticks for which the client has been waited for to read, and the bytes written when that began.
    answer: (u32, u64),
}

impl Patrol {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            seen: None,
            still: 0,
            header: 0,
            answer: (0, 0),
        }
    }

    /// Looks at the watch; once a tick.
    pub(super) fn tick(&mut self, watch: &Watch) -> Notice {
        let (phase, read, written) = (
            watch.phase(),
            watch.read.load(Relaxed),
            watch.written.load(Relaxed),
        );
        self.still = if self.seen == Some((phase, read, written)) {
            self.still + 1
        } else {
            0
        };
        self.header = if phase == Phase::Header {
            self.header + 1
        } else {
            0
        };
        let is_unread =
            watch.write_blocked.load(Relaxed) != 0 || watch.without_room.load(Relaxed) > 0;
        let answer_is_slow = self.answer_is_slow(is_unread, written);
        self.seen = Some((phase, read, written));
        let is_still = self.still >= self.rules.idle;
        match phase {
            Phase::Header if self.header > self.rules.header => Notice::Late(Late::Header),
            _ if answer_is_slow => {
                watch.is_given_up.store(true, Relaxed);
                Notice::Late(Late::Read)
            }
            Phase::Idle if is_still => Notice::Late(Late::Idle),
            Phase::Header | Phase::Idle | Phase::Busy => Notice::Fine,
        }
    }

    fn answer_is_slow(&mut self, is_unread: bool, written: u64) -> bool {
        if !is_unread {
            self.answer = (0, written);
            return false;
        }
        self.answer.0 += 1;
        if self.answer.0 <= self.rules.idle {
            return false;
        }
        let went = written - self.answer.1;
        self.answer = (0, written);
        went < self.rules.answer_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_core::Nanos;

    /// Header four ticks, idle eight.
    fn patrol() -> Patrol {
        let second = Nanos::SECOND;
        let idle = Nanos::from_secs(2);
        Patrol::new(Rules::new(&Timeouts {
            header: second,
            idle,
            connect: second,
            request: second,
            drain: second,
        }))
    }

    /// Ticks until it is late, at most fifty.
    fn ticks(
        patrol: &mut Patrol,
        watch: &Watch,
        mut meanwhile: impl FnMut(&Watch),
    ) -> Option<(usize, Late)> {
        (1..=50).find_map(|tick| {
            meanwhile(watch);
            match patrol.tick(watch) {
                Notice::Late(late) => Some((tick, late)),
                Notice::Fine => None,
            }
        })
    }

    #[test]
    fn a_header_must_be_complete_in_time_however_its_bytes_trickle() {
        assert_eq!(
            ticks(&mut patrol(), &Watch::new(), |_| {}),
            Some((5, Late::Header))
        );
        assert_eq!(
            ticks(&mut patrol(), &Watch::new(), trickle),
            Some((5, Late::Header))
        );
    }

    fn trickle(watch: &Watch) {
        watch.has_read(1, Part::Unfinished);
    }

    #[test]
    fn frames_between_requests_begin_no_request_and_half_a_frame_does() {
        let (watch, mut patrol) = (Watch::new(), patrol());
        let ping = |watch: &Watch| watch.has_read(17, Part::Frames);
        assert_eq!(
            ticks(&mut patrol, &watch, ping),
            Some((5, Late::Header)),
            "the first request is to come"
        );
        watch.begin();
        watch.end();
        assert_eq!(ticks(&mut patrol, &watch, ping), None);
        assert_eq!(ticks(&mut patrol, &watch, trickle), Some((5, Late::Header)));
    }

    #[test]
    fn between_requests_there_is_more_time() {
        let (watch, mut patrol) = (Watch::new(), patrol());
        watch.begin();
        watch.end();
        assert_eq!(ticks(&mut patrol, &watch, |_| {}), Some((9, Late::Idle)));
    }

    #[test]
    fn a_connection_is_quiet_when_nothing_is_under_way_and_everything_is_sent() {
        let watch = Watch::new();
        assert!(!watch.is_quiet(), "its first request is to come");
        watch.begin();
        assert!(!watch.is_quiet());
        watch.end();
        assert!(watch.is_quiet());
        watch.cannot_write();
        assert!(!watch.is_quiet(), "the client has yet to take its answer");
        watch.has_written(1);
        assert!(watch.is_quiet());
        trickle(&watch);
        assert!(!watch.is_quiet(), "a request has begun");
    }

    #[test]
    fn an_answer_may_take_its_time_if_nobody_waits_for_the_client() {
        let watch = Watch::new();
        watch.begin();
        assert_eq!(ticks(&mut patrol(), &watch, |_| {}), None);
    }

    #[test]
    fn an_answer_must_be_taken_at_a_hundred_bytes_a_second() {
        let read = |bytes: usize| {
            move |watch: &Watch| {
                watch.has_written(bytes);
                watch.cannot_write();
            }
        };
        for requests in [0, 1] {
            let watch = Watch::new();
            (0..=requests).for_each(|_| watch.begin());
            watch.end();
            assert_eq!(
                ticks(&mut patrol(), &watch, Watch::cannot_write),
                Some((9, Late::Read))
            );
            assert_eq!(ticks(&mut patrol(), &watch, read(5)), Some((9, Late::Read)));
            assert!(watch.is_given_up());
            assert_eq!(ticks(&mut patrol(), &watch, read(30)), None);
        }
    }

    #[test]
    fn an_answer_without_room_is_given_up_whatever_frames_come_meanwhile() {
        let watch = Watch::new();
        watch.begin();
        watch.wants_room(true);
        let ping = |watch: &Watch| watch.has_read(17, Part::Frames);
        assert_eq!(ticks(&mut patrol(), &watch, ping), Some((9, Late::Read)));
        watch.wants_room(false);
        assert_eq!(ticks(&mut patrol(), &watch, ping), None);
    }
}
