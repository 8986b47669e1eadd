//! Requests that are far too large, a thousand times.

use sluicegate_testkit::h2_frames::{
    CONTINUATION, END_HEADERS, END_STREAM, H2Connection, HEADERS, field, frame, get_fields,
};
use sluicegate_testkit::{UpstreamRecorder, eventually};

use super::running::Sluicegate;

/// The statuses of a request that is too large.
const REFUSALS: [u16; 3] = [400, 414, 431];
const TIMES: usize = 1_000;
/// More than the allocator keeps for later, and far less than a thousand requests of a mebibyte.
const GROWTH_KIB: u64 = 32 << 10;

/// Plays an attack again and again: nothing reaches the server, memory stays, and everybody else is served.
fn play(attack: impl Fn(&Sluicegate, usize)) {
    let upstream = UpstreamRecorder::start();
    let sluicegate = Sluicegate::in_front_of(&upstream.url());
    // Memory that is allocated once is not counted.
    (0..TIMES / 10).for_each(|time| attack(&sluicegate, time));
    let before = sluicegate.resident_kib();
    (0..TIMES).for_each(|time| attack(&sluicegate, time));
    let after = sluicegate.resident_kib();
    assert!(
        after < before + GROWTH_KIB,
        "grew from {before} to {after} KiB"
    );
    assert_eq!(upstream.count(), 0, "{:?}", upstream.requests().first());
    assert_eq!(sluicegate.get("/good", &[]).status(), 200);
}

#[test]
fn headers_that_are_too_large_or_too_many_are_refused_in_bounded_memory() {
    let head = "GET /large HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n";
    let large = format!("{head}X-Large: {}\r\n\r\n", "a".repeat(16 << 10));
    let larger = format!("{head}X-Large: {}\r\n\r\n", "a".repeat(1 << 20));
    let many: String = (0..500)
        .map(|number| format!("X-{number}: a\r\n"))
        .collect();
    let many = format!("{head}{many}\r\n");
    let without_end: String = format!("{head}{}", "X: y\r\n".repeat(40_000));
    let attacks = [large, larger, many, without_end];
    play(|sluicegate, time| {
        let attack = &attacks[time % attacks.len()];
        let status = sluicegate.exchange(attack.as_bytes()).status();
        assert!(
            REFUSALS.contains(&status),
            "{status} for {} bytes",
            attack.len()
        );
    });
}

#[test]
fn a_target_of_a_mebibyte_is_refused_in_bounded_memory() {
    let path = "a".repeat(1 << 20);
    let long = "a".repeat(12 << 10);
    let attacks = [
        // No longer than a header may be.
        format!("GET /{long} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
        format!("GET /{path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
        format!("GET /?{path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
        format!("GET http://{path}/ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
        format!("{path} / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n"),
    ];
    play(|sluicegate, time| {
        let status = sluicegate
            .exchange(attacks[time % attacks.len()].as_bytes())
            .status();
        assert!(REFUSALS.contains(&status), "{status}");
    });
}

#[test]
fn headers_in_frames_that_are_too_large_or_too_many_are_refused_in_bounded_memory() {
    let large = [get_fields("/large"), field("x-large", "a".repeat(16_200))].concat();
    let path = get_fields(&format!("/{}", "a".repeat(16_000)));
    let many = (0..500).fold(get_fields("/many"), |block, number| {
        [block, field(format!("x-{number}"), "a")].concat()
    });
    let attacks = [large, path, many];
    play(|sluicegate, time| {
        let mut connection = H2Connection::start(sluicegate.proxy, &[]);
        let stream = connection.next_stream();
        connection.send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &attacks[time % attacks.len()],
        ));
        eventually("it is refused", || {
            let received = connection.received();
            received.is_closed || received.resets > 0 || received.statuses.contains_key(&stream)
        });
        if let Some(status) = connection.received().statuses.get(&stream) {
            assert!(REFUSALS.contains(status), "{status} for {time}");
        }
    });
}

/// A mebibyte of header in HTTP/2 takes 64 frames.
#[test]
fn a_header_of_many_frames_ends_its_connection_in_bounded_memory() {
    let block = [get_fields("/large"), field("x-large", "a".repeat(1 << 20))].concat();
    play(|sluicegate, _| {
        let mut connection = H2Connection::start(sluicegate.proxy, &[]);
        let mut parts = block.chunks(16_384);
        connection.send(&frame(HEADERS, END_STREAM, 1, parts.next().unwrap()));
        for part in parts {
            connection.send(&frame(CONTINUATION, 0, 1, part));
        }
        connection.wait_for_end();
    });
}
