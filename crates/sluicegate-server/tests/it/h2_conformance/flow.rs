//! Flow control (RFC 9113, sections 5.2 and 6.9). The response has six bytes.

use sluicegate_testkit::h2_frames::{DATA, END_STREAM, WINDOW_UPDATE, frame};

use super::driver::{
    Case, Expect, FLOW_CONTROL, PROTOCOL, STREAM_CLOSED, case, get, post, settings,
};

const INITIAL_WINDOW_SIZE: u16 = 4;

pub fn cases() -> Vec<Case> {
    let mut cases = increments();
    cases.extend(followed());
    cases
}

fn update(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

fn increments() -> Vec<Case> {
    let most = 0x7fff_ffff;
    vec![
        case(
            "an increment of nothing on the connection",
            update(0, 0),
            Expect::ConnectionError(&[PROTOCOL]),
        ),
        case(
            "an increment of nothing on a stream",
            [post(1), update(1, 0)].concat(),
            Expect::StreamError(1, &[PROTOCOL]),
        ),
        case(
            "a window of the connection beyond the largest",
            update(0, most),
            Expect::ConnectionError(&[FLOW_CONTROL]),
        ),
        case(
            "a window of the connection beyond the largest in steps",
            [
                update(0, most - 100_000),
                update(0, 90_000),
                update(0, 90_000),
            ]
            .concat(),
            Expect::ConnectionError(&[FLOW_CONTROL]),
        ),
        case(
            "a window of a stream beyond the largest",
            [post(1), update(1, most)].concat(),
            Expect::StreamError(1, &[FLOW_CONTROL]),
        ),
        case(
            "a window of a stream beyond the largest in steps",
            [
                post(1),
                update(1, most - 100_000),
                update(1, 90_000),
                update(1, 90_000),
            ]
            .concat(),
            Expect::StreamError(1, &[FLOW_CONTROL]),
        ),
        case(
            "a setting that lifts a window beyond the largest",
            [
                post(1),
                update(1, most - 65_535),
                settings(&[(INITIAL_WINDOW_SIZE, 65_536)]),
            ]
            .concat(),
            Expect::ConnectionError(&[FLOW_CONTROL]),
        ),
        case(
            "the largest window of the connection",
            [update(0, most - 65_535), get(1)].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "the largest window of a stream",
            [
                post(1),
                update(1, most - 65_535),
                frame(DATA, END_STREAM, 1, &[]),
            ]
            .concat(),
            Expect::Status(1, 200),
        ),
        case(
            "more of a body than its window",
            {
                let mut bytes = post(1);
                for _ in 0..80 {
                    bytes.extend(frame(DATA, 0, 1, &[0; 16_384]));
                }
                bytes
            },
            Expect::ErrorOrNothing(&[FLOW_CONTROL, STREAM_CLOSED]),
        ),
    ]
}

fn followed() -> Vec<Case> {
    let first = |size: u32, more: Vec<u8>| {
        [settings(&[(INITIAL_WINDOW_SIZE, size)]), get(1), more].concat()
    };
    vec![
        case(
            "a response in a window of one byte",
            first(1, Vec::new()),
            Expect::Pieces(1, vec![1]),
        ),
        case(
            "a response in a window of three bytes",
            first(3, Vec::new()),
            Expect::Pieces(1, vec![3]),
        ),
        case(
            "a response whose window opens",
            first(0, update(1, 6)),
            Expect::Pieces(1, vec![6]),
        ),
        case(
            "a setting that opens the windows of open streams",
            first(0, settings(&[(INITIAL_WINDOW_SIZE, 4)])),
            Expect::Pieces(1, vec![4]),
        ),
        case(
            "a window that is below zero stays closed until it is open",
            first(
                0,
                [
                    settings(&[(INITIAL_WINDOW_SIZE, 3)]),
                    settings(&[(INITIAL_WINDOW_SIZE, 0)]),
                    settings(&[(INITIAL_WINDOW_SIZE, 6)]),
                ]
                .concat(),
            ),
            Expect::Status(1, 200),
        ),
        case(
            "a stream without window does not hold up the others",
            [
                settings(&[(INITIAL_WINDOW_SIZE, 0)]),
                get(1),
                get(3),
                update(3, 6),
            ]
            .concat(),
            Expect::Pieces(3, vec![6]),
        ),
        case(
            "a response within the window is in one piece",
            get(1),
            Expect::Pieces(1, vec![6]),
        ),
    ]
}
