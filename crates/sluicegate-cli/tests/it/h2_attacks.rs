//! Floods of frames: the connection is ended, memory stays, others are served, and whatever began is charged.

use std::io::Write;

use sluicegate_testkit::h2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, H2Connection, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, field, frame, get_fields, post_fields, push_integer,
};
use sluicegate_testkit::{UpstreamRecorder, eventually};

use super::running::Sluicegate;

/// Frames that a flood consists of if nobody ends it.
const FLOOD: usize = 10_000;
const GROWTH_KIB: u64 = 16 << 10;

fn start(upstream: &UpstreamRecorder, burst: u32) -> Sluicegate {
    Sluicegate::start(&format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: 'http://{}', workers: 1 }}
admin: {{ listen: '127.0.0.1:0' }}
limits:
  - {{ name: per-caller, key: ['header:X-Caller'], on_missing_key: shared, rate: 1/h, burst: {burst} }}
",
        upstream.address
    ))
}

fn start_unlimited(upstream: &UpstreamRecorder) -> Sluicegate {
    start(upstream, 1_000_000)
}

/// Plays a flood on one connection after the other: each is ended for what it is, and nobody else notices.
fn play(flood: impl Fn(&mut H2Connection)) {
    let upstream = UpstreamRecorder::start();
    let sluicegate = start_unlimited(&upstream);
    let play = |_| {
        let before = ended_floods(&sluicegate);
        let mut connection = H2Connection::start(sluicegate.proxy, &[]);
        assert_eq!(connection.get("/"), 200);
        flood(&mut connection);
        connection.wait_for_end();
        eventually("it was no other end", || {
            ended_floods(&sluicegate) == before + 1
        });
    };
    let mut other = H2Connection::start(sluicegate.proxy, &[]);
    assert_eq!(other.get("/other"), 200);
    // Memory that is allocated once is not counted.
    (0..3).for_each(play);
    let before = sluicegate.resident_kib();
    (0..20).for_each(play);
    let after = sluicegate.resident_kib();
    assert!(
        after < before + GROWTH_KIB,
        "grew from {before} to {after} KiB"
    );
    assert_eq!(other.get("/other"), 200);
    assert_eq!(sluicegate.get("/other", &[]).status(), 200);
    drop(other);
    eventually("nothing is left", || {
        sluicegate.metric("sluicegate_connections") == 0
    });
}

/// Connections that were ended because of what came on them.
fn ended_floods(sluicegate: &Sluicegate) -> u64 {
    sluicegate.metric("sluicegate_connections_refused_total{reason=\"protocol\"}")
}

/// Sends the same again until the connection ends. On a busy machine the system may have taken all of it before the proxy has
/// read the first.
fn repeat(connection: &mut H2Connection, bytes: &[u8]) {
    (0..FLOOD)
        .take_while(|_| connection.send(bytes))
        .for_each(drop);
}

#[test]
fn a_flood_of_pings_ends_its_connection() {
    play(|connection| repeat(connection, &frame(PING, 0, 0, &[0; 8])));
}

#[test]
fn a_flood_and_what_is_no_http_are_counted() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = start_unlimited(&upstream);
    let counted = || ended_floods(&sluicegate);
    let mut connection = H2Connection::start(sluicegate.proxy, &[]);
    assert_eq!((connection.get("/"), counted()), (200, 0));
    repeat(&mut connection, &frame(PING, 0, 0, &[0; 8]));
    eventually("the flood is counted", || counted() == 1);
    let mut other = sluicegate.connect();
    other.write_all(b"SSH-2.0-client\r\n\r\n").unwrap();
    eventually("so is another protocol", || counted() == 2);
}

#[test]
fn a_flood_of_settings_ends_its_connection() {
    play(|connection| repeat(connection, &frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100])));
}

#[test]
fn a_flood_of_empty_data_ends_its_connection() {
    play(|connection| {
        let stream = connection.next_stream();
        connection.send(&frame(HEADERS, END_HEADERS, stream, &post_fields("/empty")));
        repeat(connection, &frame(DATA, 0, stream, &[]));
    });
}

#[test]
fn a_flood_of_header_frames_ends_its_connection() {
    play(|connection| {
        let stream = connection.next_stream();
        connection.send(&frame(HEADERS, END_STREAM, stream, &get_fields("/never")));
        repeat(
            connection,
            &frame(CONTINUATION, 0, stream, &field("x", "y")),
        );
    });
}

/// A request in between lets each stream begin before its end comes.
#[test]
fn streams_that_are_reset_at_once_again_and_again_end_their_connection() {
    play(|connection| {
        let rounds = (0..FLOOD / 10).take_while(|_| {
            for _ in 0..10 {
                let stream = connection.next_stream();
                connection.send(&begun_and_reset(stream, ""));
            }
            connection.get("/") == 200
        });
        assert!(rounds.count() < FLOOD / 10, "all of the flood was taken");
    });
}

/// The same in as few packets as possible.
#[test]
fn a_burst_of_streams_that_are_reset_at_once_ends_its_connection() {
    play(|connection| {
        let burst: Vec<u8> = (0..FLOOD / 10)
            .flat_map(|_| begun_and_reset(connection.next_stream(), ""))
            .collect();
        connection.send(&burst);
    });
}

fn begun_and_reset(stream: u32, caller: &str) -> Vec<u8> {
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    let fields = [get_fields("/reset"), field("x-caller", caller)].concat();
    [
        frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields),
        frame(RST_STREAM, 0, stream, &CANCEL),
    ]
    .concat()
}

/// Frames that are wrong for their stream, so that it is the proxy that resets it.
fn faults(stream: u32) -> [Vec<u8>; 3] {
    let beyond_the_window = [frame(WINDOW_UPDATE, 0, stream, &[0x7f, 0xff, 0xff, 0xff])].concat();
    [
        [
            frame(HEADERS, END_HEADERS, stream, &post_fields("/made")),
            frame(WINDOW_UPDATE, 0, stream, &[0; 4]),
        ]
        .concat(),
        [
            frame(HEADERS, END_HEADERS, stream, &post_fields("/made")),
            beyond_the_window,
        ]
        .concat(),
        // More bytes than were announced.
        [
            frame(
                HEADERS,
                END_HEADERS,
                stream,
                &[post_fields("/made"), field("content-length", "1")].concat(),
            ),
            frame(DATA, 0, stream, b"two"),
        ]
        .concat(),
    ]
}

#[test]
fn streams_that_the_proxy_is_made_to_reset_end_their_connection() {
    for fault in 0..faults(1).len() {
        play(|connection| {
            let rounds = (0..FLOOD / 10).take_while(|_| {
                for _ in 0..5 {
                    let stream = connection.next_stream();
                    connection.send(&faults(stream)[fault]);
                }
                connection.get("/") == 200
            });
            assert!(
                rounds.count() < 200,
                "fault {fault}: all of the flood was taken"
            );
        });
    }
}

/// A few bytes that stand for many: an entry of the table is named thousands of times.
#[test]
fn a_header_that_unpacks_to_sixty_mebibytes_is_refused_in_flat_memory() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = start_unlimited(&upstream);
    let mut entry = vec![0x40];
    for text in ["x-bomb", &"a".repeat(4_000)] {
        push_integer(&mut entry, 0, 127, text.len());
        entry.extend_from_slice(text.as_bytes());
    }
    // The newest entry of the table is number 62.
    let bomb = [get_fields("/bomb"), vec![0x80 | 62; 16_000]].concat();
    let explode = |_| {
        let mut connection = H2Connection::start(sluicegate.proxy, &[]);
        let first = connection.next_stream();
        connection.send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            first,
            &[get_fields("/"), entry.clone()].concat(),
        ));
        let streams: Vec<u32> = (0..20).map(|_| connection.next_stream()).collect();
        for stream in &streams {
            connection.send(&frame(HEADERS, END_HEADERS | END_STREAM, *stream, &bomb));
        }
        eventually("all are refused", || {
            let received = connection.received();
            let answered = streams
                .iter()
                .filter(|stream| received.statuses.contains_key(stream))
                .count();
            received.is_closed || answered + received.resets >= streams.len()
        });
        assert!(
            connection
                .received()
                .statuses
                .iter()
                .all(|(stream, status)| *stream == first || *status == 431)
        );
    };
    explode(0);
    let before = sluicegate.resident_kib();
    (0..10).for_each(explode);
    let after = sluicegate.resident_kib();
    assert!(
        after < before + GROWTH_KIB,
        "grew from {before} to {after} KiB"
    );
    assert!(
        upstream
            .requests()
            .iter()
            .all(|recorded| recorded.target == "/"),
        "a bomb was passed on"
    );
}

/// A reset is no way around a limit.
#[test]
fn streams_are_charged_also_if_they_are_reset_at_once() {
    const BURST: usize = 5;
    let upstream = UpstreamRecorder::start();
    let sluicegate = start(&upstream, BURST as u32);
    let mut connection = H2Connection::start(sluicegate.proxy, &[]);
    let asked = 4 * BURST;
    for _ in 0..asked {
        let stream = connection.next_stream();
        assert!(connection.send(&begun_and_reset(stream, "ann")));
        // The next begins when this one has: on the same thread, a request of nobody comes after it.
        assert_ne!(connection.get("/nobody"), 0);
    }
    let decided = |outcome: &str| {
        sluicegate.metric(&format!(
            "sluicegate_limit_decisions_total{{limit=\"per-caller\",outcome=\"{outcome}\"}}"
        ))
    };
    // Ann's and nobody's: a burst each.
    assert_eq!(
        (decided("allowed"), decided("denied")),
        (2 * BURST as u64, 2 * (asked - BURST) as u64)
    );
    assert_eq!(sluicegate.get("/reset", &["X-Caller: ann"]).status(), 429);
    assert_eq!(sluicegate.get("/reset", &["X-Caller: bob"]).status(), 200);
    let of_ann = upstream
        .requests()
        .iter()
        .filter(|request| request.header("x-caller") == Some("ann"))
        .count();
    assert!(of_ann <= BURST, "{of_ann}");
}
