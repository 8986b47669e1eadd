//! Clients that dawdle, by the hundred, beside one that does not.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sluicegate_testkit::h2_frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, H2Connection, HEADERS, PING, PREFACE, SETTINGS,
    frame, get_fields, post_fields,
};
use sluicegate_testkit::raw_socket::{read_head, read_to_end};
use sluicegate_testkit::{UpstreamRecorder, UpstreamResponse, eventually};

use super::protocols::server;
use super::running::{Sluicegate, write_certificate};

/// Each time that the configuration allows is a second; whoever is later is gone within five.
const GONE: Duration = Duration::from_secs(5);
/// Dawdlers add a byte in each.
const BEAT: Duration = Duration::from_millis(50);
const CROWD: usize = 200;
pub const SLOW: &str = "sluicegate_connections_refused_total{reason=\"slow\"}";

pub fn start(upstream: &UpstreamRecorder) -> Sluicegate {
    Sluicegate::start(&format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: 'http://{}', timeouts: {{ header: 1s, idle: 1s, stalled_client: 1s }} }}
admin: {{ listen: '127.0.0.1:0' }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 100000/s, burst: 100000 }}
",
        upstream.address
    ))
}

/// Begins many connections with `first`, and adds the byte `then` to each again and again until the proxy has ended it.
fn dawdle(sluicegate: &Sluicegate, first: &[u8], then: u8) {
    let mut crowd: Vec<(TcpStream, Instant)> = (0..CROWD)
        .map(|_| {
            let mut stream = sluicegate.connect();
            stream.write_all(first).unwrap();
            stream.set_nonblocking(true).unwrap();
            (stream, Instant::now())
        })
        .collect();
    while !crowd.is_empty() {
        let left = crowd.len();
        crowd.retain_mut(|(stream, since)| {
            assert!(since.elapsed() < GONE, "{left} connections are still open");
            let _ = stream.write(&[then]);
            !has_ended(stream)
        });
        // bounded wait: each connection has its deadline above
        thread::sleep(BEAT);
    }
}

fn has_ended(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    match stream.read(&mut bytes) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Asks again and again; as long as `crowd` is busy, and some times at least.
pub fn with_good_client(sluicegate: &Sluicegate, crowd: impl FnOnce() + Send) {
    thread::scope(|scope| {
        let crowd = scope.spawn(crowd);
        let mut times = Vec::new();
        while !crowd.is_finished() || times.len() < 20 {
            let begun = Instant::now();
            let answer = sluicegate.get("/good", &[]);
            assert_eq!(answer.status(), 200, "{answer}");
            times.push(begun.elapsed());
        }
        times.sort();
        let (median, most) = (times[times.len() / 2], times[times.len() - 1]);
        assert!(
            median < Duration::from_millis(100) && most < GONE,
            "half within {median:?}, all within {most:?}"
        );
    });
}

#[test]
fn headers_that_trickle_end_in_time_and_nobody_waits_for_them() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = start(&upstream);
    with_good_client(&sluicegate, || {
        dawdle(&sluicegate, b"GET /slow HTTP/1.1\r\nHost: a.exam", b'a')
    });
    assert_eq!(sluicegate.metric(SLOW), CROWD as u64);
}

#[test]
fn a_second_header_that_trickles_ends_in_time() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = start(&upstream);
    dawdle(
        &sluicegate,
        b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\nGET /next HTTP/1.1\r\nHost: a.exam",
        b'a',
    );
    assert_eq!(sluicegate.metric(SLOW), CROWD as u64);
}

#[test]
fn frames_that_trickle_end_in_time() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = start(&upstream);
    // The heads of frames of 600 bytes.
    let (settings, continuation) = (
        [0, 2, 88, SETTINGS, 0, 0, 0, 0, 0],
        [0, 2, 88, CONTINUATION, 0, 0, 0, 0, 1],
    );
    dawdle(&sluicegate, &[PREFACE, &settings].concat(), 0);
    let headers = [
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_STREAM, 1, &get_fields("/never")),
    ]
    .concat();
    dawdle(&sluicegate, &[PREFACE, &headers, &continuation].concat(), 0);
    assert_eq!(sluicegate.metric(SLOW), 2 * CROWD as u64);
}

/// Frames that come between requests are nothing to hurry for.
#[test]
fn a_connection_in_http2_with_signs_of_life_may_be_idle_for_longer_than_a_header_may_take() {
    let sluicegate = Sluicegate::start(
        "
proxy: { listen: '127.0.0.1:0', timeouts: { header: 100ms, idle: 20s } }
admin: off
limits:
  - { name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }
",
    );
    let mut connection = H2Connection::start(sluicegate.proxy, &[]);
    assert_eq!(connection.get("/"), 200);
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(500) {
        assert!(connection.send(&frame(PING, 0, 0, &[0; 8])), "it was ended");
        // bounded wait: the time is above
        thread::sleep(BEAT);
    }
    assert_eq!(connection.get("/"), 200);
}

#[test]
fn handshakes_that_trickle_end_in_time() {
    let directory = tempfile::tempdir().unwrap();
    write_certificate(directory.path(), "a.example");
    let config = "
proxy: { listen: '127.0.0.1:0', timeouts: { header: 1s, idle: 1s }, tls: { cert: cert.pem, key: key.pem } }
admin: { listen: '127.0.0.1:0' }
limits:
  - { name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }
";
    std::fs::write(directory.path().join("sluicegate.yaml"), config).unwrap();
    let sluicegate = Sluicegate::start_in(directory);
    // A record of 8 KiB, which begins a handshake.
    dawdle(
        &sluicegate,
        &[0x16, 3, 1, 0x20, 0, 1, 0, 0x1f, 0xfc, 3, 3],
        7,
    );
    assert_eq!(sluicegate.metric(SLOW), CROWD as u64);
}

#[test]
fn bodies_that_trickle_end_in_time_and_nobody_waits_for_them() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = start(&upstream);
    let head = b"POST /slow HTTP/1.1\r\nHost: a.example\r\nContent-Length: 100000\r\n\r\nsome";
    with_good_client(&sluicegate, || dawdle(&sluicegate, head, b'a'));
    assert_eq!(sluicegate.metric(SLOW), CROWD as u64);
    assert!(
        upstream
            .requests()
            .iter()
            .all(|request| request.target == "/good" || !request.is_complete),
        "half a body was taken for a whole one"
    );
}

/// A stream is as slow as its own body, however much comes beside it.
#[test]
fn a_stream_whose_body_trickles_is_refused_and_the_others_go_on() {
    let upstream = UpstreamRecorder::start();
    let sluicegate = start(&upstream);
    let mut connection = H2Connection::start(sluicegate.proxy, &[]);
    let slow = connection.next_stream();
    connection.send(&frame(HEADERS, END_HEADERS, slow, &post_fields("/slow")));
    let since = Instant::now();
    while !connection.received().statuses.contains_key(&slow) {
        assert!(since.elapsed() < GONE, "it still goes on");
        connection.send(&frame(DATA, 0, slow, b"a"));
        assert_eq!(connection.get("/beside"), 200);
        // bounded wait: the deadline is above
        thread::sleep(BEAT);
    }
    assert_eq!(connection.received().statuses[&slow], 408);
    assert_eq!(connection.get("/beside"), 200);
}

/// Both may speak in turn, and for as long as they like.
#[test]
fn who_is_being_answered_may_pause() {
    let url = server(|mut stream| {
        read_head(&mut stream);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            .unwrap();
        let mut came = Vec::new();
        while !came.ends_with(b"0\r\n\r\n") {
            let mut bytes = [0; 256];
            let read = stream.read(&mut bytes).unwrap();
            assert!(read > 0, "cut off after {}", String::from_utf8_lossy(&came));
            came.extend_from_slice(&bytes[..read]);
        }
        stream.write_all(b"4\r\nlast\r\n0\r\n\r\n").unwrap();
    });
    let sluicegate = Sluicegate::start(&format!(
        "
proxy: {{ listen: '127.0.0.1:0', upstream: '{url}', timeouts: {{ header: 100ms }} }}
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }}
"
    ));
    let mut stream = sluicegate.connect();
    let head = b"POST /talk HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream
        .write_all(&[&head[..], b"2\r\nhi\r\n"].concat())
        .unwrap();
    let head = read_head(&mut stream).unwrap();
    // bounded wait: much longer than a header may take
    thread::sleep(Duration::from_millis(700));
    stream.write_all(b"3\r\nbye\r\n0\r\n\r\n").unwrap();
    let rest = read_to_end(stream);
    assert!(
        rest.contains("first") && rest.contains("last"),
        "{head}{rest}"
    );
}

/// A server that is silent is not excused by what else the client does.
#[test]
fn a_silent_server_is_too_late_however_busy_the_connection_is() {
    let upstream = UpstreamRecorder::start();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let sluicegate = Sluicegate::start(&format!(
        "
proxy:
  listen: '127.0.0.1:0'
  timeouts: {{ request: 500ms }}
  routes:
    - {{ path: /silent, upstream: 'http://{}' }}
  upstream: 'http://{}'
admin: off
limits:
  - {{ name: per-client, key: [client_ip], rate: 1000/s, burst: 1000 }}
",
        silent.local_addr().unwrap(),
        upstream.address
    ));
    let mut connection = H2Connection::start(sluicegate.proxy, &[]);
    let (bare, posted) = (connection.next_stream(), connection.next_stream());
    connection.send(&frame(
        HEADERS,
        END_HEADERS | END_STREAM,
        bare,
        &get_fields("/silent"),
    ));
    connection.send(&frame(
        HEADERS,
        END_HEADERS,
        posted,
        &post_fields("/silent"),
    ));
    connection.send(&frame(DATA, END_STREAM, posted, b"all of it"));
    let since = Instant::now();
    while ![bare, posted]
        .iter()
        .all(|stream| connection.received().statuses.contains_key(stream))
    {
        assert!(since.elapsed() < GONE, "it still waits");
        assert_eq!(connection.get("/beside"), 200);
        // bounded wait: the deadline is above
        thread::sleep(BEAT);
    }
    let received = connection.received();
    assert_eq!(
        (received.statuses[&bare], received.statuses[&posted]),
        (504, 504)
    );
}

/// Answers `/large` with so many mebibytes. Sockets hold some, but not sixteen.
pub fn large_upstream(mebibytes: usize) -> UpstreamRecorder {
    let large = Bytes::from(vec![7; mebibytes << 20]);
    UpstreamRecorder::answering(move |request| match request.path() {
        "/large" => UpstreamResponse::ok(large.clone()),
        _ => UpstreamResponse::ok("ok"),
    })
}

#[test]
fn clients_that_do_not_read_or_hardly_are_given_up_in_time_and_nobody_waits_for_them() {
    const READERS: usize = 40;
    let upstream = large_upstream(16);
    let sluicegate = start(&upstream);
    with_good_client(&sluicegate, || {
        let mut crowd: Vec<TcpStream> = (0..READERS)
            .map(|_| {
                let mut stream = sluicegate.connect();
                stream
                    .write_all(b"GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n")
                    .unwrap();
                stream
            })
            .collect();
        let deadline = Instant::now() + GONE;
        while sluicegate.metric(SLOW) < READERS as u64 {
            assert!(
                Instant::now() < deadline,
                "{} were given up",
                sluicegate.metric(SLOW)
            );
            for stream in crowd.iter_mut().step_by(2) {
                let _ = stream.read(&mut [0]);
            }
            // bounded wait: the deadline is above
            thread::sleep(BEAT);
        }
        // Bytes that the system still holds for them are of no use to anybody.
        for mut stream in crowd {
            let mut rest = Vec::new();
            assert!(
                stream.read_to_end(&mut rest).is_err(),
                "{} bytes and an end like any other",
                rest.len()
            );
        }
    });
}

#[test]
fn streams_without_room_for_their_answer_are_given_up_in_time_whatever_else_is_sent() {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    const STREAMS: usize = 50;
    let upstream = large_upstream(16);
    let sluicegate = start(&upstream);
    let before = sluicegate.resident_kib();
    for window in [0, 1] {
        let mut connection =
            H2Connection::start(sluicegate.proxy, &[(INITIAL_WINDOW_SIZE, window)]);
        for _ in 0..STREAMS {
            let stream = connection.next_stream();
            connection.send(&frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                stream,
                &get_fields("/large"),
            ));
        }
        let since = Instant::now();
        // A sign of life now and then makes no room, and keeps no connection without requests.
        while connection.send(&frame(PING, 0, 0, &[0; 8])) {
            assert!(since.elapsed() < GONE, "it still goes on");
            // bounded wait: the deadline is above
            thread::sleep(BEAT * 10);
        }
        assert_eq!(connection.received().reset_streams.len(), STREAMS);
    }
    assert_eq!(sluicegate.metric(SLOW), 2 * STREAMS as u64);
    eventually("all is given back", || {
        sluicegate.metric("sluicegate_connections") == 0
    });
    let after = sluicegate.resident_kib();
    assert!(
        after < before + 64 * 1024,
        "grew from {before} to {after} KiB"
    );
}
