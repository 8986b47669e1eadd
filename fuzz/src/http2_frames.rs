//! The guard that counts frames of HTTP/2: it finds the same frames however the bytes arrive.

use sluicegate_net::fuzz_internals::FrameCounter;

use crate::input::InputBytes;

/// The first byte is the length of the pieces, the second the bytes that were written to the client
/// in units of 64; the rest is what the client sends.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let piece = input.piece_length();
    let written = 64 * u64::from(input.byte());
    let bytes = input.rest();
    let mut whole = FrameCounter::new();
    let is_taken = whole.record(bytes, written);
    let mut pieces = FrameCounter::new();
    let mut parts = bytes.chunks(piece);
    let are_taken = parts.all(|part| pieces.record(part, written));
    assert_eq!(is_taken, are_taken);
    if is_taken {
        assert_eq!(whole.is_mid_frame(), pieces.is_mid_frame());
        assert_eq!(whole.is_mid_frame(), is_mid_frame(bytes));
    }
    // Frames that only make work end every connection, whatever came before.
    if is_taken && !whole.is_mid_frame() {
        let ping = b"\0\0\x08\x06\0\0\0\0\0pingping";
        let pings = ping.repeat(1_100);
        assert!(!whole.record(&pings, written), "a flood is not noticed");
    }
}

/// True when bytes end within the preface, a frame, or the frames of a header.
fn is_mid_frame(bytes: &[u8]) -> bool {
    let Some((_, mut rest)) = bytes.split_at_checked(24) else {
        return true;
    };
    let mut is_header_open = false;
    while !rest.is_empty() {
        let Some((head, after)) = rest.split_first_chunk::<9>() else {
            return true;
        };
        let [high, middle, low, kind, flags, ..] = *head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        if matches!(kind, 1 | 9) {
            is_header_open = flags & 4 == 0;
        }
        let Some((_, after)) = after.split_at_checked(length as usize) else {
            return true;
        };
        rest = after;
    }
    is_header_open
}
