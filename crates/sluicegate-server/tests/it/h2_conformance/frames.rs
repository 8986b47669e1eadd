//! The connection's beginning, and frames of every type: sizes, flags, padding, places
//! (RFC 9113, sections 3.4, 4 and 6).

use sluicegate_testkit::h2_frames::{
    CONTINUATION, DATA, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, get_fields,
};

use super::driver::{
    ACK, Begin, Case, Expect, FRAME_SIZE, HAS_PRIORITY, PADDED, PRIORITY, PROTOCOL, PUSH_PROMISE,
    STREAM_CLOSED, case, get, headers, post, settings,
};

/// A type that no RFC defines.
const UNKNOWN: u8 = 0x16;

pub fn cases() -> Vec<Case> {
    let mut cases = beginnings();
    cases.extend(unknown_parts());
    cases.extend(sizes());
    cases.extend(padding());
    cases.extend(wrong_places());
    cases.extend(interrupted_headers());
    cases
}

fn beginnings() -> Vec<Case> {
    let raw = |name, send, expect| Case {
        begin: Begin::Raw,
        ..case(name, send, expect)
    };
    let ends = || Expect::ConnectionError(&[PROTOCOL]);
    vec![
        raw(
            "a preface that is another",
            b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n".to_vec(),
            ends(),
        ),
        raw(
            "a preface and then PING",
            [PREFACE, &frame(PING, 0, 0, &[0; 8])].concat(),
            ends(),
        ),
        raw(
            "a preface and then HEADERS",
            [PREFACE, &get(1)].concat(),
            ends(),
        ),
        raw(
            "a preface and then an acknowledgement and DATA",
            [
                PREFACE,
                &frame(SETTINGS, ACK, 0, &[]),
                &frame(DATA, 0, 1, b"x"),
            ]
            .concat(),
            ends(),
        ),
        raw(
            "settings with values at the beginning",
            [PREFACE, &settings(&[(3, 100), (4, 65_535)]), &get(1)].concat(),
            Expect::Status(1, 200),
        ),
        raw(
            "a request right behind the preface",
            [PREFACE, &settings(&[]), &get(1)].concat(),
            Expect::Status(1, 200),
        ),
    ]
}

fn unknown_parts() -> Vec<Case> {
    let ping = |flags, stream| frame(PING, flags, stream, b"abcdefgh");
    vec![
        case(
            "a frame of unknown type",
            frame(UNKNOWN, 0, 0, b"abc"),
            Expect::Nothing,
        ),
        case(
            "an unknown frame on a stream",
            frame(UNKNOWN, 0, 1, b"abc"),
            Expect::Nothing,
        ),
        case(
            "an unknown frame with all flags",
            frame(0xff, 0xff, 7, &[]),
            Expect::Nothing,
        ),
        case(
            "an unknown frame while a body comes",
            [
                post(1),
                frame(UNKNOWN, 0, 1, b"x"),
                frame(DATA, END_STREAM, 1, b"y"),
            ]
            .concat(),
            Expect::Status(1, 200),
        ),
        case(
            "PING with unknown flags",
            ping(0x16, 0),
            Expect::Frame(PING, ACK, 0, b"abcdefgh".to_vec()),
        ),
        case(
            "PING with the reserved bit",
            ping(0, 0x8000_0000),
            Expect::Frame(PING, ACK, 0, b"abcdefgh".to_vec()),
        ),
        case(
            "HEADERS with unknown flags",
            headers(1, END_STREAM | 0x42, &get_fields("/")),
            Expect::Status(1, 200),
        ),
        case(
            "HEADERS with the reserved bit",
            headers(0x8000_0001, END_STREAM, &get_fields("/")),
            Expect::Status(1, 200),
        ),
        case(
            "DATA with unknown flags",
            [post(1), frame(DATA, END_STREAM | 0x46, 1, b"x")].concat(),
            Expect::Status(1, 200),
        ),
        case(
            "SETTINGS with unknown flags",
            frame(SETTINGS, 0x16, 0, &[]),
            Expect::Frame(SETTINGS, ACK, 0, Vec::new()),
        ),
        case(
            "WINDOW_UPDATE with unknown flags",
            frame(WINDOW_UPDATE, 0xff, 0, &[0, 0, 0, 1]),
            Expect::Nothing,
        ),
        case(
            "WINDOW_UPDATE with the reserved bit",
            frame(WINDOW_UPDATE, 0, 0, &[0x80, 0, 0, 1]),
            Expect::Nothing,
        ),
        case(
            "RST_STREAM with unknown flags and code",
            [post(1), frame(RST_STREAM, 0xff, 1, &[0, 0, 0xff, 0xff])].concat(),
            Expect::Nothing,
        ),
    ]
}

fn sizes() -> Vec<Case> {
    let fails = || Expect::ConnectionError(&[FRAME_SIZE]);
    let stream_fails = || Expect::StreamError(1, &[FRAME_SIZE]);
    let body = |size: usize| [post(1), frame(DATA, END_STREAM, 1, &vec![0; size])].concat();
    let fields = |size: usize| {
        let long = sluicegate_testkit::h2_frames::field("x", vec![b'a'; size]);
        headers(1, END_STREAM, &[get_fields("/"), long].concat())
    };
    vec![
        case(
            "DATA of the largest size",
            body(16_384),
            Expect::Status(1, 200),
        ),
        case("DATA that is too large", body(16_385), stream_fails()),
        case("HEADERS that is too large", fields(17_000), fails()),
        case(
            "SETTINGS of five bytes",
            frame(SETTINGS, 0, 0, &[0; 5]),
            fails(),
        ),
        case(
            "SETTINGS of seven bytes",
            frame(SETTINGS, 0, 0, &[0; 7]),
            fails(),
        ),
        case(
            "an acknowledgement with settings",
            frame(SETTINGS, ACK, 0, &[0; 6]),
            fails(),
        ),
        case("PING of seven bytes", frame(PING, 0, 0, &[0; 7]), fails()),
        case("PING of nine bytes", frame(PING, 0, 0, &[0; 9]), fails()),
        case("PING of no bytes", frame(PING, 0, 0, &[]), fails()),
        case(
            "RST_STREAM of three bytes",
            [post(1), frame(RST_STREAM, 0, 1, &[0; 3])].concat(),
            fails(),
        ),
        case(
            "RST_STREAM of five bytes",
            [post(1), frame(RST_STREAM, 0, 1, &[0; 5])].concat(),
            fails(),
        ),
        case(
            "PRIORITY of four bytes",
            [post(1), frame(PRIORITY, 0, 1, &[0; 4])].concat(),
            stream_fails(),
        ),
        case(
            "PRIORITY of six bytes",
            [post(1), frame(PRIORITY, 0, 1, &[0; 6])].concat(),
            stream_fails(),
        ),
        case(
            "WINDOW_UPDATE of three bytes",
            frame(WINDOW_UPDATE, 0, 0, &[0; 3]),
            fails(),
        ),
        case(
            "WINDOW_UPDATE of five bytes",
            frame(WINDOW_UPDATE, 0, 0, &[0; 5]),
            fails(),
        ),
        case(
            "WINDOW_UPDATE of no bytes on a stream",
            [post(1), frame(WINDOW_UPDATE, 0, 1, &[])].concat(),
            fails(),
        ),
        case(
            "GOAWAY of seven bytes",
            frame(GOAWAY, 0, 0, &[0; 7]),
            fails(),
        ),
        case(
            "an unknown frame that is too large",
            frame(UNKNOWN, 0, 0, &vec![0; 16_385]),
            fails(),
        ),
    ]
}

fn padding() -> Vec<Case> {
    let fails = || Expect::ConnectionError(&[PROTOCOL, FRAME_SIZE]);
    let data = |payload: &[u8]| [post(1), frame(DATA, END_STREAM | PADDED, 1, payload)].concat();
    let fields = |flags, before: &[u8], after: &[u8]| {
        let payload = [before, &get_fields("/"), after].concat();
        headers(1, END_STREAM | flags, &payload)
    };
    vec![
        case(
            "DATA with padding",
            data(&[3, b'x', 0, 0, 0]),
            Expect::Status(1, 200),
        ),
        case(
            "DATA of nothing but padding",
            data(&[3, 0, 0, 0]),
            Expect::Status(1, 200),
        ),
        case(
            "DATA with an empty padding",
            data(&[0, b'x']),
            Expect::Status(1, 200),
        ),
        case(
            "DATA with more padding than bytes",
            data(&[4, b'x', 0, 0]),
            fails(),
        ),
        case(
            "DATA with as much padding as the frame",
            data(&[4, 0, 0, 0]),
            fails(),
        ),
        case("DATA without the length of its padding", data(&[]), fails()),
        case(
            "HEADERS with padding",
            fields(PADDED, &[2], &[0, 0]),
            Expect::Status(1, 200),
        ),
        case(
            "HEADERS with a priority",
            fields(HAS_PRIORITY, &[0, 0, 0, 0, 15], &[]),
            Expect::Status(1, 200),
        ),
        case(
            "HEADERS with padding and priority",
            fields(PADDED | HAS_PRIORITY, &[1, 0x80, 0, 0, 0, 15], &[0]),
            Expect::Status(1, 200),
        ),
        case(
            "HEADERS with too much padding",
            headers(1, END_STREAM | PADDED, &[200, 0x82]),
            fails(),
        ),
        case(
            "HEADERS without the length of its padding",
            headers(1, END_STREAM | PADDED, &[]),
            fails(),
        ),
        case(
            "HEADERS too short for its priority",
            headers(1, END_STREAM | HAS_PRIORITY, &[0, 0, 0]),
            fails(),
        ),
    ]
}

fn wrong_places() -> Vec<Case> {
    let fails = || Expect::ConnectionError(&[PROTOCOL]);
    vec![
        case("DATA on the connection", frame(DATA, 0, 0, b"x"), fails()),
        case(
            "HEADERS on the connection",
            headers(0, END_STREAM, &get_fields("/")),
            fails(),
        ),
        case(
            "PRIORITY on the connection",
            frame(PRIORITY, 0, 0, &[0; 5]),
            fails(),
        ),
        case(
            "RST_STREAM on the connection",
            frame(RST_STREAM, 0, 0, &[0; 4]),
            fails(),
        ),
        case(
            "SETTINGS on a stream",
            [post(1), frame(SETTINGS, 0, 1, &[])].concat(),
            fails(),
        ),
        case(
            "PUSH_PROMISE of a client",
            [
                post(1),
                frame(
                    PUSH_PROMISE,
                    4,
                    1,
                    &[&[0, 0, 0, 2], &get_fields("/")[..]].concat(),
                ),
            ]
            .concat(),
            fails(),
        ),
        case(
            "PING on a stream",
            [post(1), frame(PING, 0, 1, &[0; 8])].concat(),
            fails(),
        ),
        case(
            "GOAWAY on a stream",
            [post(1), frame(GOAWAY, 0, 1, &[0; 8])].concat(),
            fails(),
        ),
        case(
            "CONTINUATION on the connection",
            frame(CONTINUATION, 4, 0, &[]),
            fails(),
        ),
        case(
            "CONTINUATION before any HEADERS",
            frame(CONTINUATION, 4, 1, &get_fields("/")),
            fails(),
        ),
        case(
            "CONTINUATION behind the last of a header",
            [post(1), frame(CONTINUATION, 4, 1, &[])].concat(),
            fails(),
        ),
        case(
            "CONTINUATION behind DATA",
            [
                post(1),
                frame(DATA, 0, 1, b"x"),
                frame(CONTINUATION, 4, 1, &[]),
            ]
            .concat(),
            fails(),
        ),
        case(
            "CONTINUATION behind the end of a stream",
            [get(1), frame(CONTINUATION, 4, 1, &[])].concat(),
            Expect::ConnectionError(&[PROTOCOL, STREAM_CLOSED]),
        ),
        case(
            "PING is answered with its bytes",
            frame(PING, 0, 0, b"12345678"),
            Expect::Frame(PING, ACK, 0, b"12345678".to_vec()),
        ),
        case(
            "an acknowledgement of a PING that was not sent",
            frame(PING, ACK, 0, b"12345678"),
            Expect::Nothing,
        ),
    ]
}

/// The frames of a header follow each other, and nothing comes between them.
fn interrupted_headers() -> Vec<Case> {
    let fails = || Expect::ConnectionError(&[PROTOCOL]);
    let fields = get_fields("/");
    let (first, second) = fields.split_at(1);
    let begun = frame(HEADERS, END_STREAM, 1, first);
    let then = |between: Vec<u8>| [begun.clone(), between].concat();
    let in_pieces: Vec<u8> = second
        .iter()
        .enumerate()
        .flat_map(|(at, byte)| {
            let flags = if at + 1 == second.len() { 4 } else { 0 };
            frame(CONTINUATION, flags, 1, &[*byte])
        })
        .collect();
    let few = [
        frame(CONTINUATION, 0, 1, &second[..4]),
        frame(CONTINUATION, 0, 1, &[]),
        frame(CONTINUATION, 4, 1, &second[4..]),
    ];
    vec![
        case(
            "a header in three pieces",
            then(few.concat()),
            Expect::Status(1, 200),
        ),
        case(
            "a header in a piece for each byte",
            then(in_pieces),
            Expect::ErrorOrNothing(&[PROTOCOL, super::driver::ENHANCE_YOUR_CALM]),
        ),
        case(
            "PRIORITY within a header",
            then(frame(PRIORITY, 0, 1, &[0; 5])),
            fails(),
        ),
        case(
            "DATA within a header",
            then(frame(DATA, 0, 1, b"x")),
            fails(),
        ),
        case(
            "HEADERS of the same stream within a header",
            then(get(1)),
            fails(),
        ),
        case(
            "HEADERS of another stream within a header",
            then(get(3)),
            fails(),
        ),
        case(
            "PING within a header",
            then(frame(PING, 0, 0, &[0; 8])),
            fails(),
        ),
        case("SETTINGS within a header", then(settings(&[])), fails()),
        case(
            "WINDOW_UPDATE within a header",
            then(frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
            fails(),
        ),
        case(
            "RST_STREAM within a header",
            then(frame(RST_STREAM, 0, 1, &[0; 4])),
            fails(),
        ),
        case(
            "GOAWAY within a header",
            then(frame(GOAWAY, 0, 0, &[0; 8])),
            fails(),
        ),
        case(
            "an unknown frame within a header",
            then(frame(UNKNOWN, 0, 1, b"x")),
            fails(),
        ),
        case(
            "CONTINUATION of another stream within a header",
            then(frame(CONTINUATION, 4, 3, second)),
            fails(),
        ),
    ]
}
