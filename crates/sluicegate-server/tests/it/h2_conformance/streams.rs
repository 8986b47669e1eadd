//! States of streams, their numbers, how many there may be, and priorities (RFC 9113, section 5).

use sluicegate_testkit::h2_frames::{
    DATA, END_STREAM, GOAWAY, PING, RST_STREAM, WINDOW_UPDATE, frame, get_fields, post_fields,
};

use super::driver::{
    ACK, Case, Expect, HAS_PRIORITY, PRIORITY, PROTOCOL, REFUSED_STREAM, STREAM_CLOSED, case, get,
    headers, post,
};

pub fn cases() -> Vec<Case> {
    let mut cases = idle();
    cases.extend(half_closed());
    cases.extend(closed());
    cases.extend(numbers());
    cases.extend(priorities());
    cases
}

/// CANCEL.
const CANCEL: [u8; 4] = [0, 0, 0, 8];
/// One more byte of window.
const ONE: [u8; 4] = [0, 0, 0, 1];

fn idle() -> Vec<Case> {
    let fails = || Expect::ConnectionError(&[PROTOCOL, STREAM_CLOSED]);
    vec![
        case(
            "DATA on an idle stream",
            frame(DATA, END_STREAM, 1, b"x"),
            fails(),
        ),
        case(
            "RST_STREAM on an idle stream",
            frame(RST_STREAM, 0, 1, &CANCEL),
            fails(),
        ),
        case(
            "WINDOW_UPDATE on an idle stream",
            frame(WINDOW_UPDATE, 0, 1, &ONE),
            fails(),
        ),
        case(
            "DATA on an idle stream of the server",
            frame(DATA, 0, 2, b"x"),
            fails(),
        ),
        case(
            "RST_STREAM on an idle stream of the server",
            frame(RST_STREAM, 0, 2, &CANCEL),
            fails(),
        ),
        case(
            "PRIORITY on an idle stream",
            frame(PRIORITY, 0, 7, &[0, 0, 0, 0, 9]),
            Expect::Nothing,
        ),
    ]
}

/// The client has ended its side.
fn half_closed() -> Vec<Case> {
    let ended = || [post(1), frame(DATA, END_STREAM, 1, b"x")].concat();
    let then = |more: Vec<u8>| [ended(), more].concat();
    let fails = || Expect::StreamError(1, &[STREAM_CLOSED, PROTOCOL]);
    vec![
        case(
            "DATA behind the end of a body",
            then(frame(DATA, 0, 1, b"y")),
            fails(),
        ),
        case(
            "empty DATA behind the end of a body",
            then(frame(DATA, END_STREAM, 1, &[])),
            fails(),
        ),
        case(
            "HEADERS behind the end of a body",
            then(headers(1, END_STREAM, &get_fields("/"))),
            fails(),
        ),
        case(
            "trailers behind the end of a body",
            then(headers(
                1,
                END_STREAM,
                &sluicegate_testkit::h2_frames::field("x", "y"),
            )),
            fails(),
        ),
        case(
            "WINDOW_UPDATE behind the end of a body",
            then(frame(WINDOW_UPDATE, 0, 1, &ONE)),
            Expect::Nothing,
        ),
        case(
            "PRIORITY behind the end of a body",
            then(frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])),
            Expect::Nothing,
        ),
        case(
            "RST_STREAM behind the end of a body",
            then(frame(RST_STREAM, 0, 1, &CANCEL)),
            Expect::Nothing,
        ),
    ]
}

/// The client has reset the stream.
fn closed() -> Vec<Case> {
    let then = |more: Vec<u8>| [post(1), frame(RST_STREAM, 0, 1, &CANCEL), more].concat();
    let may_fail = || Expect::ErrorOrNothing(&[STREAM_CLOSED, PROTOCOL]);
    vec![
        case(
            "DATA behind a reset",
            then(frame(DATA, END_STREAM, 1, b"y")),
            may_fail(),
        ),
        case(
            "HEADERS behind a reset",
            then(headers(1, END_STREAM, &get_fields("/"))),
            may_fail(),
        ),
        case(
            "WINDOW_UPDATE behind a reset",
            then(frame(WINDOW_UPDATE, 0, 1, &ONE)),
            may_fail(),
        ),
        case(
            "a second reset",
            then(frame(RST_STREAM, 0, 1, &CANCEL)),
            may_fail(),
        ),
        case(
            "PRIORITY behind a reset",
            then(frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 9])),
            Expect::Nothing,
        ),
        case(
            "a reset of a stream whose response has begun",
            [get(1), frame(RST_STREAM, 0, 1, &CANCEL)].concat(),
            Expect::Nothing,
        ),
    ]
}

fn numbers() -> Vec<Case> {
    let fails = || Expect::ConnectionError(&[PROTOCOL, STREAM_CLOSED]);
    let many: Vec<u8> = (0..101).flat_map(|at| post(2 * at + 1)).collect();
    let hundred: Vec<u8> = (0..100).flat_map(|at| post(2 * at + 1)).collect();
    let room = [hundred, frame(DATA, END_STREAM, 1, b"x")].concat();
    vec![
        case(
            "a stream with an even number",
            headers(2, END_STREAM, &get_fields("/")),
            fails(),
        ),
        case(
            "a stream with a lower number than the last",
            [get(5), get(3)].concat(),
            fails(),
        ),
        case(
            "the same stream again",
            [get(1), get(1)].concat(),
            Expect::StreamError(1, &[PROTOCOL, STREAM_CLOSED]),
        ),
        case(
            "numbers that are left out",
            [get(7), get(101)].concat(),
            Expect::Status(101, 200),
        ),
        case(
            "the highest number",
            headers(0x7fff_ffff, END_STREAM, &get_fields("/")),
            Expect::Status(0x7fff_ffff, 200),
        ),
        case(
            "more streams than allowed",
            many,
            Expect::StreamError(201, &[REFUSED_STREAM, PROTOCOL]),
        ),
        case("as many streams as allowed", room, Expect::Status(1, 200)),
        case(
            "GOAWAY of the client lets its requests end",
            [get(1), frame(GOAWAY, 0, 0, &[0; 8])].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "GOAWAY with words",
            [
                frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\0bye"),
                frame(PING, 0, 0, &[7; 8]),
            ]
            .concat(),
            Expect::ErrorOrNothing(&[PROTOCOL]),
        ),
        case(
            "PING beside a request",
            [post(1), frame(PING, 0, 0, &[7; 8])].concat(),
            Expect::Frame(PING, ACK, 0, vec![7; 8]),
        ),
        case(
            "two requests at once",
            [get(1), get(3)].concat(),
            Expect::Status(3, 200),
        ),
        case(
            "a body on each of two streams, in turn",
            [
                post(1),
                post(3),
                frame(DATA, 0, 1, b"a"),
                frame(DATA, END_STREAM, 3, b"b"),
                frame(DATA, END_STREAM, 1, b"c"),
            ]
            .concat(),
            Expect::Status(1, 200),
        ),
    ]
}

/// Priorities are no more (RFC 9113, section 5.3.2), and their frames are still understood.
fn priorities() -> Vec<Case> {
    let on_itself = [0, 0, 0, 1, 15];
    let with_itself = [&on_itself[..], &get_fields("/")].concat();
    let on_three = [&[0x80, 0, 0, 3, 15][..], &post_fields("/")].concat();
    vec![
        case(
            "HEADERS that depends on itself",
            headers(1, END_STREAM | HAS_PRIORITY, &with_itself),
            Expect::ErrorOrNothing(&[PROTOCOL]),
        ),
        case(
            "PRIORITY that depends on itself",
            [post(1), frame(PRIORITY, 0, 1, &on_itself)].concat(),
            Expect::ErrorOrNothing(&[PROTOCOL]),
        ),
        case(
            "HEADERS that depends on a stream to come",
            [
                headers(1, HAS_PRIORITY, &on_three),
                frame(DATA, END_STREAM, 1, &[]),
            ]
            .concat(),
            Expect::Status(1, 200),
        ),
        case(
            "a PRIORITY_UPDATE",
            frame(0x10, 0, 0, b"\0\0\0\x01u=1"),
            Expect::Nothing,
        ),
    ]
}
