//! Counts the frames that a client sends over HTTP/2, and ends floods of them.
//!
//! The HTTP/2 library answers every frame as the protocol demands, which a client can turn into
//! work for us that costs it nothing: pings, settings, resets, empty frames. So each connection
//! has a credit. Frames that carry requests and bodies add to it, and so do the bytes that we
//! send; frames that only make work subtract. An ordinary client never runs out; a flood does
//! within milliseconds, and its connection ends.

use std::fmt;

/// Credit of one connection, and the position in its stream of frames.
#[derive(Debug)]
pub(crate) struct FrameGuard {
    /// Bytes of the client's preface that have not come yet.
    preface_left: usize,
    /// The head of the current frame, as far as it has come.
    head: [u8; FRAME_HEAD],
    head_length: usize,
    /// Bytes of the current frame's payload that have not come yet.
    payload_left: usize,
    /// The connection ends when this is negative.
    credit: i64,
    /// Bytes sent to the client for which credit was given already.
    written: u64,
    /// CONTINUATION frames in a row.
    continuations: u32,
    /// Some of a request's header has come, and more frames of it must follow.
    in_header: bool,
    /// The setting in the payload of a SETTINGS frame, as far as it has come.
    setting: [u8; SETTING],
    setting_length: usize,
    /// The window with which the client begins each stream.
    initial_window: u32,
}

/// The client sends too many frames; names the type of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flood {
    kind: u8,
}

impl fmt::Display for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "too many HTTP/2 frames of type {}", self.kind)
    }
}

impl std::error::Error for Flood {}

/// Bytes of a frame's head (RFC 9113, section 4.1).
const FRAME_HEAD: usize = 9;
/// Bytes of `PRI * HTTP/2.0` and the rest of the client's preface.
const PREFACE: usize = 24;
/// Bytes of one setting: its number and its value.
const SETTING: usize = 6;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// The window of clients that name none.
const INITIAL_WINDOW: u32 = 65_535;
/// Credit of a new connection: about a hundred pings.
const CREDIT_AT_FIRST: i64 = 1_000;
/// A long-lived connection cannot save up for a flood.
const CREDIT_MAX: i64 = 10_000;
/// Bytes to the client that add one to its credit.
const BYTES_PER_CREDIT: u64 = 512;
/// No request needs more frames than this for its header.
const CONTINUATIONS_MAX: u32 = 16;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
/// End of stream, or acknowledgement.
const FLAG_END: u8 = 1;
const FLAG_END_HEADERS: u8 = 4;

impl FrameGuard {
    pub(crate) fn new() -> Self {
        Self {
            preface_left: PREFACE,
            head: [0; FRAME_HEAD],
            head_length: 0,
            payload_left: 0,
            credit: CREDIT_AT_FIRST,
            written: 0,
            continuations: 0,
            in_header: false,
            setting: [0; SETTING],
            setting_length: 0,
            initial_window: INITIAL_WINDOW,
        }
    }

    /// The window with which the client begins each stream, by its last word.
    pub(crate) fn initial_window(&self) -> u32 {
        self.initial_window
    }

    /// Counts the frames in `bytes`, which may end anywhere within a frame. `written` is the
    /// number of bytes that were sent to the client since its connection began.
    pub(crate) fn record(&mut self, mut bytes: &[u8], written: u64) -> Result<(), Flood> {
        let earned = (written - self.written) / BYTES_PER_CREDIT;
        self.written += earned * BYTES_PER_CREDIT;
        self.credit = (self.credit + earned.min(CREDIT_MAX as u64) as i64).min(CREDIT_MAX);
        while !bytes.is_empty() {
            let skipped = (self.preface_left + self.payload_left).min(bytes.len());
            let of_preface = self.preface_left.min(skipped);
            self.preface_left -= of_preface;
            self.payload_left -= skipped - of_preface;
            if self.head[3] == SETTINGS {
                self.read_settings(&bytes[of_preface..skipped]);
            }
            bytes = &bytes[skipped..];
            let part = (FRAME_HEAD - self.head_length).min(bytes.len());
            self.head[self.head_length..][..part].copy_from_slice(&bytes[..part]);
            self.head_length += part;
            bytes = &bytes[part..];
            if self.head_length == FRAME_HEAD {
                self.head_length = 0;
                self.count()?;
            }
        }
        Ok(())
    }

    /// Returns true when the bytes so far end within a frame, or within the frames of a header.
    pub(crate) fn is_mid_frame(&self) -> bool {
        self.in_header || self.preface_left + self.payload_left + self.head_length > 0
    }

    /// Reads settings out of a part of their frame.
    fn read_settings(&mut self, payload: &[u8]) {
        for byte in payload {
            self.setting[self.setting_length] = *byte;
            self.setting_length += 1;
            if self.setting_length == SETTING {
                self.setting_length = 0;
                let [high, low, value @ ..] = self.setting;
                if u16::from_be_bytes([high, low]) == INITIAL_WINDOW_SIZE {
                    self.initial_window = u32::from_be_bytes(value);
                }
            }
        }
    }

    /// Adds the price of the frame whose head is complete.
    fn count(&mut self) -> Result<(), Flood> {
        self.setting_length = 0;
        let [high, middle, low, kind, flags, ..] = self.head;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.payload_left = length;
        let is_end = flags & FLAG_END != 0;
        self.continuations = if kind == CONTINUATION {
            self.continuations + 1
        } else {
            0
        };
        if matches!(kind, HEADERS | CONTINUATION) {
            self.in_header = flags & FLAG_END_HEADERS == 0;
        }
        self.credit += match kind {
            DATA if length == 0 && !is_end => -10,
            DATA => 1,
            HEADERS => 4,
            // One more than its request earned, so that opening and resetting costs.
            RST_STREAM => -5,
            SETTINGS | PING if is_end => -1,
            SETTINGS | PING | GOAWAY => -10,
            CONTINUATION => -20,
            _ => -1,
        };
        if self.credit < 0 || self.continuations > CONTINUATIONS_MAX {
            return Err(Flood { kind });
        }
        self.credit = self.credit.min(CREDIT_MAX);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [_, high, middle, low] = (length as u32).to_be_bytes();
        let mut frame = vec![high, middle, low, kind, flags, 0, 0, 0, 1];
        frame.resize(FRAME_HEAD + length, 0);
        frame
    }

    fn begun() -> FrameGuard {
        let mut guard = FrameGuard::new();
        guard.record(&[0; PREFACE], 0).unwrap();
        guard
    }

    /// How many times frames are taken, up to a hundred thousand.
    fn taken(frames: &[Vec<u8>], written_each: u64) -> usize {
        let (mut guard, bytes) = (begun(), frames.concat());
        (1..100_000)
            .find(|time| guard.record(&bytes, *time as u64 * written_each).is_err())
            .unwrap_or(100_000)
    }

    #[test]
    fn floods_of_frames_that_only_make_work_end_soon() {
        assert!(taken(&[frame(PING, 0, 8)], 0) <= 101);
        assert!(taken(&[frame(SETTINGS, 0, 0)], 0) <= 101);
        assert!(taken(&[frame(DATA, 0, 0)], 0) <= 101);
        assert!(taken(&[frame(CONTINUATION, 0, 1)], 0) <= 17);
        assert!(taken(&[frame(2, 0, 5)], 0) <= 1_001, "priority");
        assert!(
            taken(&[frame(HEADERS, FLAG_END, 20), frame(RST_STREAM, 0, 4)], 0) <= 1_001,
            "rapid reset"
        );
        assert!(taken(&[frame(200, 0, 0)], 0) <= 1_001, "of no known kind");
    }

    #[test]
    fn what_clients_do_is_never_too_much() {
        assert_eq!(
            taken(&[frame(HEADERS, FLAG_END, 20)], 0),
            100_000,
            "requests"
        );
        assert_eq!(
            taken(
                &[
                    frame(HEADERS, 0, 20),
                    frame(DATA, 0, 100),
                    frame(DATA, FLAG_END, 0)
                ],
                0
            ),
            100_000
        );
        assert_eq!(
            taken(&[frame(8, 0, 4), frame(8, 0, 4)], 16 * 1_024),
            100_000,
            "window updates during a download"
        );
        assert_eq!(
            taken(&[frame(PING, FLAG_END, 8)], 1_024),
            100_000,
            "answers to our pings"
        );
        let half_cancelled = [
            frame(HEADERS, 5, 20),
            frame(HEADERS, 5, 20),
            frame(RST_STREAM, 0, 4),
        ];
        assert_eq!(taken(&half_cancelled, 0), 100_000);
    }

    #[test]
    fn it_is_known_when_a_header_or_frame_is_to_go_on() {
        let mut guard = FrameGuard::new();
        assert!(guard.is_mid_frame(), "the preface is to come");
        guard.record(&[0; PREFACE], 0).unwrap();
        assert!(!guard.is_mid_frame());
        for (bytes, is_within) in [
            (&frame(PING, 0, 8)[..], false),
            (&frame(PING, 0, 8)[..5], true),
            (&frame(PING, 0, 8)[5..15], true),
            (&frame(PING, 0, 8)[15..], false),
            (&frame(HEADERS, FLAG_END, 20), true),
            (&frame(CONTINUATION, 0, 20), true),
            (&frame(CONTINUATION, FLAG_END_HEADERS, 20), false),
        ] {
            guard.record(bytes, 0).unwrap();
            assert_eq!(guard.is_mid_frame(), is_within, "{bytes:?}");
        }
    }

    #[test]
    fn the_window_that_a_client_names_is_known_however_its_bytes_arrive() {
        let mut settings = frame(SETTINGS, 0, 12);
        settings[FRAME_HEAD..].copy_from_slice(&[0, 3, 0, 0, 0, 9, 0, 4, 0, 0, 1, 2]);
        let bytes = [&[0; PREFACE][..], &settings, &frame(PING, 0, 8)].concat();
        for piece in [1, 5, 7, 1_000] {
            let mut guard = FrameGuard::new();
            assert_eq!(guard.initial_window(), INITIAL_WINDOW);
            (bytes.chunks(piece)).for_each(|piece| guard.record(piece, 0).unwrap());
            assert_eq!(guard.initial_window(), 0x102, "{piece}");
        }
    }

    #[test]
    fn frames_are_counted_however_their_bytes_arrive() {
        let flood = [&[0; PREFACE][..], &frame(PING, 0, 8).repeat(200)].concat();
        for piece in [1, 2, 7, 9, 17, 1_000] {
            let mut guard = FrameGuard::new();
            let ended = flood
                .chunks(piece)
                .position(|bytes| guard.record(bytes, 0).is_err())
                .expect("a flood");
            assert!(
                (ended * piece).abs_diff(PREFACE + 101 * 17) <= 1_000 + 17,
                "{piece}: {ended}"
            );
        }
    }
}
