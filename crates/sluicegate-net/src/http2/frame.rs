//! Frames of HTTP/2 as bytes (RFC 9113, sections 4 and 6).

/// The bytes with which a client begins.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame's head.
pub(super) const HEAD_BYTES: usize = 9;
/// The most bytes of a frame's payload, in both directions: the least that the protocol allows.
pub(super) const PAYLOAD_MAX: usize = 16 * 1024;
/// The largest window.
pub(super) const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The window of a connection, and of a stream unless the settings say otherwise.
pub(super) const WINDOW_DEFAULT: u32 = 65_535;

/// Types of frames.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const PRIORITY: u8 = 2;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
    /// RFC 9218, section 7.1.
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames.
pub(super) mod flag {
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
    pub(crate) const PADDED: u8 = 8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Numbers of settings.
pub(super) mod setting {
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
    pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
    pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 8;
    /// RFC 9218, section 2.1.
    pub(crate) const NO_RFC7540_PRIORITIES: u16 = 9;
}

/// Reasons of RST_STREAM and GOAWAY (RFC 9113, section 7), as far as we send them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorCode {
    No = 0,
    Protocol = 1,
    Internal = 2,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    RefusedStream = 7,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    /// Bytes of the payload.
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    /// Reads a head; `None` if more bytes are needed.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let [high, middle, low, kind, flags, a, b, c, d, ..] = *bytes else {
            return None;
        };
        Some(Self {
            length: u32::from_be_bytes([0, high, middle, low]) as usize,
            kind,
            flags,
            // The highest bit is reserved and ignored.
            stream: u32::from_be_bytes([a, b, c, d]) & WINDOW_MAX,
        })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The bytes of this head.
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let [_, high, middle, low] = (self.length as u32).to_be_bytes();
        let [a, b, c, d] = self.stream.to_be_bytes();
        [high, middle, low, self.kind, self.flags, a, b, c, d]
    }
}

/// Appends a whole frame.
pub(super) fn push_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let head = FrameHead {
        length: payload.len(),
        kind,
        flags,
        stream,
    };
    out.extend_from_slice(&head.to_bytes());
    out.extend_from_slice(payload);
}

/// Appends the end of a stream.
pub(super) fn push_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    push_frame(
        out,
        kind::RST_STREAM,
        0,
        stream,
        &(code as u32).to_be_bytes(),
    );
}

/// Appends more window for the client.
pub(super) fn push_window_update(out: &mut Vec<u8>, stream: u32, by: u32) {
    push_frame(out, kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes());
}

/// Appends the end of the connection.
pub(super) fn push_goaway(out: &mut Vec<u8>, last_stream: u32, code: ErrorCode) {
    let [a, b, c, d] = last_stream.to_be_bytes();
    let [e, f, g, h] = (code as u32).to_be_bytes();
    push_frame(out, kind::GOAWAY, 0, 0, &[a, b, c, d, e, f, g, h]);
}

/// Appends settings.
pub(super) fn push_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let head = FrameHead {
        length: settings.len() * 6,
        kind: kind::SETTINGS,
        flags: 0,
        stream: 0,
    };
    out.extend_from_slice(&head.to_bytes());
    for (number, value) in settings {
        out.extend_from_slice(&number.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// The numbers and values of a payload of settings.
pub(super) fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    let (settings, _) = payload.as_chunks::<6>();
    settings.iter().map(|[a, b, c, d, e, f]| {
        (
            u16::from_be_bytes([*a, *b]),
            u32::from_be_bytes([*c, *d, *e, *f]),
        )
    })
}

/// The first four bytes of a payload as a number; `None` if there are fewer.
pub(super) fn number(payload: &[u8]) -> Option<u32> {
    payload
        .first_chunk()
        .map(|bytes| u32::from_be_bytes(*bytes))
}

/// The payload without its padding; `None` if there is more padding than payload.
pub(super) fn without_padding(flags: u8, payload: &[u8]) -> Option<&[u8]> {
    if flags & flag::PADDED == 0 {
        return Some(payload);
    }
    let (padding, rest) = payload.split_first()?;
    rest.get(..rest.len().checked_sub(usize::from(*padding))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_were_written() {
        let head = FrameHead {
            length: 0x01_02_03,
            kind: kind::HEADERS,
            flags: flag::END_HEADERS,
            stream: 0x7fff_ffff,
        };
        assert_eq!(FrameHead::parse(&head.to_bytes()), Some(head));
        assert_eq!(FrameHead::parse(&head.to_bytes()[..8]), None);
        let reserved = [0, 0, 0, 0, 0, 0x80, 0, 0, 1];
        assert_eq!(FrameHead::parse(&reserved).unwrap().stream, 1);
    }

    #[test]
    fn padding_is_at_most_the_rest_of_the_payload() {
        for (payload, rest) in [
            (&[2, b'x', 0, 0][..], Some(&b"x"[..])),
            (&[0, b'x'], Some(b"x")),
            (&[1, 0], Some(b"")),
            (&[2, 0], None),
            (&[], None),
        ] {
            assert_eq!(without_padding(flag::PADDED, payload), rest);
            assert_eq!(without_padding(0, payload), Some(payload));
        }
    }

    #[test]
    fn settings_are_read_as_they_were_written() {
        let (pairs, mut out) = ([(1, 2), (0xffff, u32::MAX)], Vec::new());
        push_settings(&mut out, &pairs);
        assert_eq!(settings(&out[HEAD_BYTES..]).collect::<Vec<_>>(), pairs);
    }
}
