//! Clients that do not take their answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::h2_frames::{
    END_HEADERS, END_STREAM, H2Connection, HEADERS, PING, PREFACE, PRIORITY, SETTINGS,
    WINDOW_UPDATE, frame, get_fields,
};
use sluicegate_testkit::{STEP_TIMEOUT, eventually};

use super::{CountedServer, wait_for_slow};
use crate::running::Sluicegate;
use crate::slow_clients::large_upstream;

const INITIAL_WINDOW_SIZE: u16 = 4;
const BEAT: Duration = Duration::from_millis(50);
const PATIENT: &str = "stalled_client: 1s";

fn ask(connection: &mut H2Connection, path: &str) -> u32 {
    let stream = connection.next_stream();
    let flags = END_HEADERS | END_STREAM;
    connection.send(&frame(HEADERS, flags, stream, &get_fields(path)));
    stream
}

fn open_window(connection: &mut H2Connection, stream: u32, bytes: u32) -> bool {
    connection.send(&frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()))
}

fn body_bytes(connection: &H2Connection, stream: u32) -> usize {
    let received = connection.received();
    received.body_bytes.get(&stream).copied().unwrap_or(0)
}

#[test]
fn a_client_of_http1_that_stops_reading_is_reset_and_frees_its_server() {
    let server = CountedServer::endless();
    let sluicegate = server.proxied(PATIENT);
    let mut stream = sluicegate.connect();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .unwrap();
    server.wait_for_open(1);
    wait_for_slow(&sluicegate, 1);
    server.wait_for_open(0);
    assert!(
        stream.read_to_end(&mut Vec::new()).is_err(),
        "it ended like any other response"
    );
}

/// Streams without a window, and streams whose window is opened by less than a hundred bytes a second.
#[test]
fn a_stream_that_is_hardly_read_is_reset_and_its_connection_goes_on() {
    let server = CountedServer::endless();
    let sluicegate = server.proxied(PATIENT);
    let mut connection = H2Connection::start(sluicegate.proxy, &[(INITIAL_WINDOW_SIZE, 0)]);
    let (silent, trickling) = (ask(&mut connection, "/a"), ask(&mut connection, "/b"));
    let since = Instant::now();
    while connection.received().reset_streams.len() < 2 {
        assert!(since.elapsed() < STEP_TIMEOUT, "they still go on");
        assert!(open_window(&mut connection, trickling, 1), "it was ended");
        // bounded wait: the deadline is above
        thread::sleep(BEAT);
    }
    assert_eq!(
        connection.received().reset_streams,
        [silent, trickling].into()
    );
    wait_for_slow(&sluicegate, 2);
    server.wait_for_open(0);
    let next = ask(&mut connection, "/c");
    open_window(&mut connection, next, 1000);
    eventually("the connection goes on", || {
        body_bytes(&connection, next) == 1000
    });
}

/// Also an answer that is complete for the server is not kept for ever.
#[test]
fn a_short_answer_that_is_not_read_is_reset_alone() {
    let upstream = large_upstream(1);
    let sluicegate = Sluicegate::start(&format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: '{}', timeouts: {{ {PATIENT} }} }}
admin: {{ listen: '127.0.0.1:0' }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 100000/s, burst: 100000 }}
",
        upstream.url()
    ));
    let mut connection = H2Connection::start(sluicegate.proxy, &[(INITIAL_WINDOW_SIZE, 0)]);
    let unread = ask(&mut connection, "/short");
    wait_for_slow(&sluicegate, 1);
    eventually("it is reset", || {
        connection.received().reset_streams.contains(&unread)
    });
    let read = ask(&mut connection, "/short");
    open_window(&mut connection, read, 100);
    eventually("another is answered to its end", || {
        connection.received().ended_streams.contains(&read)
    });
    assert_eq!(body_bytes(&connection, read), 2);
}

/// Of large streams, and no window of the connection: each had some of it.
#[test]
fn streams_are_reset_when_the_window_of_their_connection_stays_closed() {
    const STREAMS: usize = 10;
    let server = CountedServer::endless();
    let sluicegate = server.proxied(PATIENT);
    let mut connection = H2Connection::start(sluicegate.proxy, &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    for _ in 0..STREAMS {
        ask(&mut connection, "/");
    }
    wait_for_slow(&sluicegate, STREAMS as u64);
    server.wait_for_open(0);
    eventually("all are reset", || {
        connection.received().reset_streams.len() == STREAMS
    });
    open_window(&mut connection, 0, 1000);
    let next = ask(&mut connection, "/");
    eventually("the connection goes on", || {
        body_bytes(&connection, next) >= 1000
    });
}

#[test]
fn one_stream_that_moves_does_not_keep_the_others_nor_their_servers() {
    const CONNECTIONS: usize = 2;
    const UNREAD: usize = 60;
    let server = CountedServer::endless();
    let sluicegate = server.proxied(PATIENT);
    let mut connections: Vec<(H2Connection, u32)> = (0..CONNECTIONS)
        .map(|_| {
            let settings = [(INITIAL_WINDOW_SIZE, 0)];
            let mut connection = H2Connection::start(sluicegate.proxy, &settings);
            open_window(&mut connection, 0, 1 << 30);
            let moving = ask(&mut connection, "/moving");
            for _ in 0..UNREAD {
                ask(&mut connection, "/unread");
            }
            (connection, moving)
        })
        .collect();
    let mut move_on = || {
        for (connection, moving) in &mut connections {
            assert!(open_window(connection, *moving, 20_000), "it was ended");
            connection.send(&frame(PING, 0, 0, &[0; 8]));
        }
        let (connection, moving) = &connections[0];
        let received = connection.received();
        let bytes = received.body_bytes.get(moving).copied().unwrap_or(0);
        (received.reset_streams.len(), bytes)
    };
    let since = Instant::now();
    let mut bytes_at_reset = 0;
    loop {
        let (resets, bytes) = move_on();
        if resets < UNREAD {
            bytes_at_reset = bytes;
        } else if bytes > bytes_at_reset + 100_000 && server.open() == CONNECTIONS {
            break;
        }
        assert!(since.elapsed() < STEP_TIMEOUT, "{resets} resets");
        // bounded wait: the deadline is above
        thread::sleep(BEAT);
    }
    for (connection, moving) in &connections {
        assert!(!connection.received().reset_streams.contains(moving));
    }
    wait_for_slow(&sluicegate, (CONNECTIONS * UNREAD) as u64);
    drop(connections);
    server.wait_for_open(0);
}

/// What nobody reads waits in the servers, not in our memory: a hundred streams with open windows on each connection, and
/// a client that does not read from its socket.
#[test]
fn what_waits_for_one_connection_is_bounded() {
    const CONNECTIONS: usize = 4;
    const STREAMS: u32 = 100;
    let server = CountedServer::endless();
    let sluicegate = server.proxied("stalled_client: 60s");
    let begin = |streams: u32| {
        let mut stream = sluicegate.connect();
        let window = [
            &INITIAL_WINDOW_SIZE.to_be_bytes()[..],
            &(1u32 << 30).to_be_bytes(),
        ];
        let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &window.concat())].concat();
        bytes.extend(frame(WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes()));
        for number in (1..2 * streams).step_by(2) {
            let flags = END_HEADERS | END_STREAM;
            bytes.extend(frame(HEADERS, flags, number, &get_fields("/")));
        }
        stream.write_all(&bytes).unwrap();
        stream
    };
    // Memory that is allocated once is not counted.
    drop(begin(STREAMS));
    server.wait_for_open(0);
    let before = sluicegate.resident_kib();
    let unread: Vec<TcpStream> = (0..CONNECTIONS).map(|_| begin(STREAMS)).collect();
    server.wait_for_open(CONNECTIONS * STREAMS as usize);
    // bounded wait: time to fill whatever can be filled
    thread::sleep(BEAT * 20);
    let grown = sluicegate.resident_kib().saturating_sub(before);
    // A mebibyte for each, and what a connection to a server needs besides.
    let most = (CONNECTIONS as u64) * (1024 + u64::from(STREAMS) * 24);
    assert!(grown < most, "{grown} KiB, more than {most}");
    drop(unread);
    server.wait_for_open(0);
}

#[test]
fn frames_that_ask_for_nothing_do_not_keep_a_connection() {
    let server = CountedServer::endless();
    let sluicegate = server.proxied("idle: 1s");
    let useless = [
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(PING, 0, 0, &[0; 8]),
        frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]),
        frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 16]),
    ];
    for useless in useless {
        let mut connection = H2Connection::start(sluicegate.proxy, &[(INITIAL_WINDOW_SIZE, 10)]);
        let stream = ask(&mut connection, "/");
        eventually("it is answered", || body_bytes(&connection, stream) == 10);
        const CANCEL: [u8; 4] = [0, 0, 0, 8];
        connection.send(&frame(3, 0, stream, &CANCEL));
        let since = Instant::now();
        while connection.send(&useless) {
            assert!(since.elapsed() < STEP_TIMEOUT, "{useless:?} keeps it");
            // bounded wait: the deadline is above
            thread::sleep(BEAT * 2);
        }
    }
    let refused = |reason: &str| {
        sluicegate.metric(&format!(
            "sluicegate_connections_refused_total{{reason=\"{reason}\"}}"
        ))
    };
    assert_eq!((refused("protocol"), refused("slow")), (0, 0));
    eventually("nothing is left", || {
        sluicegate.metric("sluicegate_connections") == 0
    });
}
