//! The guard that counts frames of HTTP/2: it finds the same frames however the bytes arrive.

use sluicegate_net::fuzz_internals::FrameCounter;

/// The first byte is the length of the pieces; then come two bytes that are the number of bytes
/// written to the client, and what the client sends.
pub fn run(data: &[u8]) {
    let Some(([piece, high, low], bytes)) = data.split_first_chunk() else {
        return;
    };
    let written = u64::from(*high) * 256 + u64::from(*low);
    let mut whole = FrameCounter::new();
    let is_taken = whole.record(bytes, written);
    let mut pieces = FrameCounter::new();
    let mut parts = bytes.chunks(1 + usize::from(*piece % 32));
    assert_eq!(is_taken, parts.all(|part| pieces.record(part, written)));
    if is_taken {
        assert_eq!(whole.is_mid_frame(), pieces.is_mid_frame());
        assert_eq!(whole.is_mid_frame(), is_mid_frame(bytes));
    }
    // Frames that only make work end every connection, whatever came before.
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    if is_taken && !whole.is_mid_frame() {
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
        let Some(([high, middle, low, kind, flags, ..], after)) = rest.split_first_chunk::<9>()
        else {
            return true;
        };
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        if matches!(kind, 1 | 9) {
            is_header_open = flags & 4 == 0;
        }
        let Some((_, after)) = after.split_at_checked(length) else {
            return true;
        };
        rest = after;
    }
    is_header_open
}
