//! Settings: what they may be, and that they are acknowledged and followed (RFC 9113, section 6.5).

use sluicegate_testkit::h2_frames::{SETTINGS, frame};

use super::driver::{ACK, Case, Expect, FLOW_CONTROL, PROTOCOL, case, get, settings};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const ENABLE_CONNECT_PROTOCOL: u16 = 8;

pub fn cases() -> Vec<Case> {
    let mut cases = values();
    cases.extend(followed());
    cases
}

/// What a setting may be.
fn values() -> Vec<Case> {
    let acknowledged = || Expect::Frame(SETTINGS, ACK, 0, Vec::new());
    let fails = || Expect::ConnectionError(&[PROTOCOL]);
    vec![
        case("settings are acknowledged", settings(&[]), acknowledged()),
        case(
            "an acknowledgement that nobody waits for",
            frame(SETTINGS, ACK, 0, &[]),
            Expect::ErrorOrNothing(&[PROTOCOL]),
        ),
        case(
            "an unknown setting",
            settings(&[(0xff, 1), (0, 7), (0xffff, u32::MAX)]),
            acknowledged(),
        ),
        case(
            "a setting twice",
            settings(&[(MAX_CONCURRENT_STREAMS, 1), (MAX_CONCURRENT_STREAMS, 9)]),
            acknowledged(),
        ),
        case(
            "push that is neither on nor off",
            settings(&[(ENABLE_PUSH, 2)]),
            fails(),
        ),
        case(
            "push that is far from on or off",
            settings(&[(ENABLE_PUSH, u32::MAX)]),
            fails(),
        ),
        case(
            "push turned off",
            settings(&[(ENABLE_PUSH, 0)]),
            acknowledged(),
        ),
        case(
            "push turned on",
            settings(&[(ENABLE_PUSH, 1)]),
            acknowledged(),
        ),
        case(
            "a window of the largest size",
            settings(&[(INITIAL_WINDOW_SIZE, 0x7fff_ffff)]),
            acknowledged(),
        ),
        case(
            "a window that is too large",
            settings(&[(INITIAL_WINDOW_SIZE, 0x8000_0000)]),
            Expect::ConnectionError(&[FLOW_CONTROL]),
        ),
        case(
            "a window that is far too large",
            settings(&[(INITIAL_WINDOW_SIZE, u32::MAX)]),
            Expect::ConnectionError(&[FLOW_CONTROL]),
        ),
        case(
            "frames of the least size",
            settings(&[(MAX_FRAME_SIZE, 16_384)]),
            acknowledged(),
        ),
        case(
            "frames that are too small",
            settings(&[(MAX_FRAME_SIZE, 16_383)]),
            fails(),
        ),
        case(
            "frames of no size",
            settings(&[(MAX_FRAME_SIZE, 0)]),
            fails(),
        ),
        case(
            "frames of the largest size",
            settings(&[(MAX_FRAME_SIZE, 0xff_ffff)]),
            acknowledged(),
        ),
        case(
            "frames that are too large",
            settings(&[(MAX_FRAME_SIZE, 0x100_0000)]),
            fails(),
        ),
    ]
}

/// A request is answered under these settings.
fn followed() -> Vec<Case> {
    vec![
        case(
            "a table of no size",
            [settings(&[(HEADER_TABLE_SIZE, 0)]), get(1)].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "a table of any size",
            [settings(&[(HEADER_TABLE_SIZE, u32::MAX)]), get(1)].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "a table that shrinks and grows",
            [
                settings(&[(HEADER_TABLE_SIZE, 0), (HEADER_TABLE_SIZE, 4_096)]),
                get(1),
            ]
            .concat(),
            Expect::Status(1, 200),
        ),
        case(
            "no streams of the server",
            [settings(&[(MAX_CONCURRENT_STREAMS, 0)]), get(1)].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "a bound on headers",
            [settings(&[(MAX_HEADER_LIST_SIZE, 65_536)]), get(1)].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "extended CONNECT that is neither on nor off",
            settings(&[(ENABLE_CONNECT_PROTOCOL, 2)]),
            Expect::ErrorOrNothing(&[PROTOCOL]),
        ),
    ]
}
