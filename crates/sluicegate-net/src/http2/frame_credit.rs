//! Ends floods of frames.
//!
//! Every frame has to be answered or followed as the protocol demands, which a client can turn into
//! work for us that costs it nothing: pings, settings, resets, empty frames. So each connection
//! has a credit. Frames that carry requests and bodies add to it, and so do the bytes that we
//! send, and time; frames that only make work subtract. An ordinary client never runs out; a flood
//! does within milliseconds, and its connection ends.

use super::frame::{ErrorCode, FrameHead, flag, kind};

/// Credit of one connection.
#[derive(Debug)]
pub(super) struct FrameCredit {
    /// The connection ends when this is negative.
    credit: i64,
    /// Bytes sent to the client for which credit was given already.
    written: u64,
    /// Ticks of the connection's timer for which credit was given already.
    ticks: u32,
    /// CONTINUATION frames in a row.
    continuations: u32,
}

/// What a connection has done and lived through, from which credit is earned.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Earned {
    /// Bytes sent to the client.
    pub(super) written: u64,
    /// Ticks of the timer.
    pub(super) ticks: u32,
}

impl FrameCredit {
    /// Credit of a new connection: about a hundred pings.
    const AT_FIRST: i64 = 1_000;
    /// A long-lived connection cannot save up for a flood.
    const MOST: i64 = 10_000;
    /// Bytes to the client that add one.
    const BYTES: u64 = 512;
    /// Added for each tick, so that a client may ask for a sign of life now and then for ever.
    const TICK: i64 = 20;
    /// No request needs more frames than this for its header.
    const CONTINUATIONS_MAX: u32 = 16;

    pub(super) fn new() -> Self {
        Self {
            credit: Self::AT_FIRST,
            written: 0,
            ticks: 0,
            continuations: 0,
        }
    }

    /// Adds what was earned since the last call.
    pub(super) fn earn(&mut self, now: Earned) {
        let parts = (now.written - self.written) / Self::BYTES;
        self.written += parts * Self::BYTES;
        let ticks = now
            .ticks
            .wrapping_sub(std::mem::replace(&mut self.ticks, now.ticks));
        let earned = parts.min(Self::MOST as u64) as i64 + i64::from(ticks.min(1_000)) * Self::TICK;
        self.credit = (self.credit + earned).min(Self::MOST);
    }

    /// Adds the price of a frame.
    pub(super) fn count(&mut self, head: FrameHead) -> Result<(), ErrorCode> {
        self.continuations = match head.kind {
            kind::CONTINUATION => self.continuations + 1,
            _ => 0,
        };
        let is_end = head.has(flag::END_STREAM);
        let price = match head.kind {
            kind::DATA if head.length == 0 && !is_end => -10,
            kind::DATA => 1,
            kind::HEADERS => 4,
            // More than its request earned, so that opening and resetting costs; and as much as
            // two earn, so that a client may cancel half of what it asks for.
            kind::RST_STREAM => -8,
            kind::SETTINGS | kind::PING if is_end => -1,
            kind::SETTINGS | kind::PING | kind::GOAWAY => -10,
            kind::CONTINUATION => -20,
            _ => -1,
        };
        if self.continuations > Self::CONTINUATIONS_MAX {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        self.spend(-price)
    }

    /// A part of a body was sent, which the client may answer with more window for the stream and
    /// for the connection.
    pub(super) fn sent_data(&mut self) {
        self.credit = (self.credit + 2).min(Self::MOST);
    }

    /// The client made us refuse a stream.
    pub(super) fn refused_stream(&mut self, code: ErrorCode) -> Result<(), ErrorCode> {
        self.spend(match code {
            ErrorCode::RefusedStream => 10,
            _ => 20,
        })
    }

    /// A stream was reset together with its header. Clients change their mind, but not before the
    /// request has left them.
    pub(super) fn reset_at_once(&mut self) -> Result<(), ErrorCode> {
        self.spend(32)
    }

    /// A header was larger than allowed, and was unpacked for nothing.
    pub(super) fn refused_header(&mut self) -> Result<(), ErrorCode> {
        self.spend(100)
    }

    fn spend(&mut self, price: i64) -> Result<(), ErrorCode> {
        self.credit = (self.credit - price).min(Self::MOST);
        if self.credit < 0 {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> FrameHead {
        FrameHead {
            length,
            kind,
            flags,
            stream: 1,
        }
    }

    /// How many times frames are taken, up to a hundred thousand.
    fn taken(frames: &[FrameHead], written_each: u64) -> usize {
        let mut credit = FrameCredit::new();
        (1..100_000)
            .find(|time| {
                credit.earn(Earned {
                    written: *time as u64 * written_each,
                    ticks: 0,
                });
                frames.iter().any(|head| credit.count(*head).is_err())
            })
            .unwrap_or(100_000)
    }

    #[test]
    fn floods_of_frames_that_only_make_work_end_soon() {
        assert!(taken(&[frame(kind::PING, 0, 8)], 0) <= 101);
        assert!(taken(&[frame(kind::SETTINGS, 0, 0)], 0) <= 101);
        assert!(taken(&[frame(kind::DATA, 0, 0)], 0) <= 101);
        assert!(taken(&[frame(kind::CONTINUATION, 0, 1)], 0) <= 17);
        assert!(taken(&[frame(kind::PRIORITY, 0, 5)], 0) <= 1_001);
        assert!(taken(&[frame(kind::WINDOW_UPDATE, 0, 4)], 0) <= 1_001);
        let rapid_reset = [
            frame(kind::HEADERS, flag::END_STREAM, 20),
            frame(kind::RST_STREAM, 0, 4),
        ];
        assert!(taken(&rapid_reset, 0) <= 251);
        assert!(taken(&[frame(200, 0, 0)], 0) <= 1_001, "of no known kind");
    }

    #[test]
    fn streams_that_we_are_made_to_refuse_end_soon() {
        for (code, most) in [(ErrorCode::Protocol, 63), (ErrorCode::RefusedStream, 168)] {
            let mut credit = FrameCredit::new();
            let refused = (0..1_000).find(|_| {
                let begun = credit.count(frame(kind::HEADERS, 0, 20));
                begun.and_then(|()| credit.refused_stream(code)).is_err()
            });
            assert!(refused.unwrap() <= most, "{code:?}: {refused:?}");
        }
    }

    #[test]
    fn streams_that_are_reset_with_their_header_end_sooner() {
        let mut credit = FrameCredit::new();
        let taken = (0..1_000).take_while(|_| {
            let begun = credit.count(frame(kind::HEADERS, flag::END_STREAM, 20));
            let reset = begun.and_then(|()| credit.count(frame(kind::RST_STREAM, 0, 4)));
            reset.and_then(|()| credit.reset_at_once()).is_ok()
        });
        assert!(taken.count() <= 28);
    }

    #[test]
    fn headers_that_are_too_large_end_soon() {
        let mut credit = FrameCredit::new();
        let taken = (0..1_000).take_while(|_| credit.refused_header().is_ok());
        assert_eq!(taken.count(), 10);
    }

    #[test]
    fn what_clients_do_is_never_too_much() {
        let request = frame(kind::HEADERS, flag::END_STREAM, 20);
        assert_eq!(taken(&[request], 0), 100_000, "requests");
        let upload = [
            frame(kind::HEADERS, 0, 20),
            frame(kind::DATA, 0, 100),
            frame(kind::DATA, flag::END_STREAM, 0),
        ];
        assert_eq!(taken(&upload, 0), 100_000);
        let update = frame(kind::WINDOW_UPDATE, 0, 4);
        assert_eq!(taken(&[update, update], 16 * 1_024), 100_000, "a download");
        let half_cancelled = [request, request, frame(kind::RST_STREAM, 0, 4)];
        assert_eq!(taken(&half_cancelled, 0), 100_000);
    }

    #[test]
    fn small_parts_of_a_body_may_each_be_answered_with_window() {
        let mut credit = FrameCredit::new();
        for _ in 0..100_000 {
            credit.sent_data();
            for _ in 0..2 {
                credit.count(frame(kind::WINDOW_UPDATE, 0, 4)).unwrap();
            }
        }
    }

    #[test]
    fn a_sign_of_life_now_and_then_is_fine_for_ever() {
        let mut credit = FrameCredit::new();
        for ticks in 0..10_000 {
            credit.earn(Earned { written: 0, ticks });
            credit.count(frame(kind::PING, 0, 8)).unwrap();
        }
    }
}
