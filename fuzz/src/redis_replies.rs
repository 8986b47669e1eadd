//! Replies of Redis, as the store reads them.

use sluicegate::fuzz_internals::parse_reply;

/// The first byte is where the reply is cut; the rest is what a server sends.
pub fn run(data: &[u8]) {
    let Some((cut, bytes)) = data.split_first() else {
        return;
    };
    let Ok(Some((written, used))) = parse_reply(bytes) else {
        return;
    };
    assert!(used > 0 && used <= bytes.len());
    for part in [used - 1, usize::from(*cut) * used / 256] {
        assert_eq!(
            parse_reply(&bytes[..part]),
            Ok(None),
            "{part} of {used} bytes"
        );
    }
    assert_eq!(
        parse_reply(&bytes[..used]),
        Ok(Some((written.clone(), used)))
    );
    let length = written.len();
    assert_eq!(parse_reply(&written), Ok(Some((written, length))));
}
