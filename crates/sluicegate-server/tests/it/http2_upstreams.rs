//! Servers of HTTP/2 that hang, end their connection, or allow few streams.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_config::{Upstream, UpstreamHttp};
use sluicegate_core::Nanos;
use sluicegate_testkit::h2_frames::{
    ACK, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, ReceivedFrame, SETTINGS, frame,
    read_frame,
};
use sluicegate_testkit::raw_socket::serve_connections_in_parallel;
use sluicegate_testkit::{HttpRequest, STEP_TIMEOUT, eventually};

use super::edge::Edge;

/// A proxy with one thread in front of a server of HTTP/2, with this time to wait for a stream.
fn edge(upstream: SocketAddr, wait: Duration) -> Edge {
    edge_with_time(upstream, wait, Nanos::from_secs(60))
}

/// The same with this time for a request.
fn edge_with_time(upstream: SocketAddr, wait: Duration, request: Nanos) -> Edge {
    Edge::with(upstream, Vec::new(), |config| {
        let proxy = config.proxy.as_mut().unwrap();
        proxy.timeouts.upstream_wait = Nanos::from_millis(wait.as_millis() as u64);
        proxy.timeouts.request = request;
        let Upstream::Server { http, .. } = &mut proxy.routes[0].upstreams[0] else {
            panic!("the upstream is a server")
        };
        *http = UpstreamHttp::Http2;
    })
}

/// Serves a connection: `answer` gets the stream of each request, and each ping. Settings are
/// acknowledged.
fn serve(mut stream: TcpStream, settings: &[u8], answer: impl Fn(&mut TcpStream, ReceivedFrame)) {
    let mut preface = [0; PREFACE.len()];
    if stream.read_exact(&mut preface).is_err() {
        return;
    }
    let _ = stream.set_read_timeout(Some(STEP_TIMEOUT * 3));
    let _ = stream.write_all(&frame(SETTINGS, 0, 0, settings));
    while let Ok(received) = read_frame(&mut stream) {
        match received.kind {
            SETTINGS if received.flags & ACK == 0 => {
                let _ = stream.write_all(&frame(SETTINGS, ACK, 0, &[]));
            }
            HEADERS | PING => answer(&mut stream, received),
            _ => {}
        }
    }
}

/// 200 without a body.
fn ok(request: &ReceivedFrame) -> Vec<u8> {
    const STATUS_200: u8 = 0x88;
    let flags = END_HEADERS | END_STREAM;
    frame(HEADERS, flags, request.stream, &[STATUS_200])
}

fn answer_ok(stream: &mut TcpStream, request: &ReceivedFrame) {
    let _ = stream.write_all(&ok(request));
}

fn answer_ping(stream: &mut TcpStream, ping: &ReceivedFrame) {
    let _ = stream.write_all(&frame(PING, ACK, 0, &ping.payload));
}

#[test]
fn a_connection_that_hangs_is_pinged_and_replaced() {
    let hangs = Arc::new(AtomicBool::new(true));
    let (pings, accepted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let upstream = {
        let (hangs, pings, accepted) = (hangs.clone(), pings.clone(), accepted.clone());
        serve_connections_in_parallel(move |stream| {
            // Only the first connection hangs, as after a fault in the network.
            let is_hung = accepted.fetch_add(1, SeqCst) == 0 && hangs.load(SeqCst);
            serve(stream, &[], |stream, received| match received.kind {
                PING if is_hung => drop(pings.fetch_add(1, SeqCst)),
                PING => answer_ping(stream, &received),
                _ if is_hung => {}
                _ => answer_ok(stream, &received),
            });
        })
    };
    let edge = edge(upstream, Duration::from_secs(1));
    let begun = Instant::now();
    let failed = HttpRequest::get("/").send(edge.address);
    assert_eq!(failed.status(), 502);
    // Ten seconds, and as much again as a busy machine may need.
    assert!(
        begun.elapsed() < Duration::from_secs(40),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(pings.load(SeqCst), 1);
    assert_eq!(HttpRequest::get("/").send(edge.address).status(), 200);
    assert_eq!(accepted.load(SeqCst), 2);
}

/// The time of the request is over before the connection would be pinged.
#[test]
fn a_connection_without_a_sign_of_life_in_the_time_of_a_request_is_replaced() {
    let accepted = Arc::new(AtomicUsize::new(0));
    let upstream = {
        let accepted = accepted.clone();
        serve_connections_in_parallel(move |stream| {
            let is_first = accepted.fetch_add(1, SeqCst) == 0;
            serve(stream, &[], |stream, received| match received.stream {
                // Everything after the first request is lost, as after a fault in the network.
                stream_number if is_first && stream_number != 1 => {}
                _ if received.kind == PING => answer_ping(stream, &received),
                _ => answer_ok(stream, &received),
            });
        })
    };
    let edge = edge_with_time(upstream, Duration::from_secs(1), Nanos::from_secs(2));
    let statuses = [(); 3].map(|()| HttpRequest::get("/").send(edge.address).status());
    assert_eq!(statuses, [200, 504, 200]);
    assert_eq!(accepted.load(SeqCst), 2);
}

/// Servers of gRPC end connections that ping much, so a slow server is pinged once in ten seconds.
#[test]
fn a_server_that_is_slow_and_alive_keeps_its_connection() {
    let pings = Arc::new(AtomicUsize::new(0));
    let accepted = Arc::new(AtomicUsize::new(0));
    let upstream = {
        let (pings, accepted) = (pings.clone(), accepted.clone());
        serve_connections_in_parallel(move |stream| {
            accepted.fetch_add(1, SeqCst);
            serve(stream, &[], |stream, received| {
                if received.kind == PING {
                    pings.fetch_add(1, SeqCst);
                    return answer_ping(stream, &received);
                }
                let mut writer = stream.try_clone().unwrap();
                thread::spawn(move || {
                    // bounded wait: the server is slow
                    thread::sleep(Duration::from_secs(12));
                    answer_ok(&mut writer, &received);
                });
            });
        })
    };
    let edge = edge(upstream, Duration::from_secs(1));
    assert_eq!(HttpRequest::get("/").send(edge.address).status(), 200);
    assert_eq!((pings.load(SeqCst), accepted.load(SeqCst)), (1, 1));
}

/// The connection goes on for the request that it has, and takes no more.
#[test]
fn a_server_that_ends_its_connection_gets_the_next_request_on_another() {
    let accepted = Arc::new(AtomicUsize::new(0));
    let upstream = {
        let accepted = accepted.clone();
        serve_connections_in_parallel(move |stream| {
            accepted.fetch_add(1, SeqCst);
            serve(stream, &[], |stream, received| {
                let last = received.stream.to_be_bytes();
                let goaway = frame(GOAWAY, 0, 0, &[last, [0; 4]].concat());
                let _ = stream.write_all(&[ok(&received), goaway].concat());
            });
        })
    };
    let edge = edge(upstream, Duration::from_secs(1));
    for _ in 0..20 {
        let response = HttpRequest::post("/", "hello").send(edge.address);
        assert_eq!(response.status(), 200, "{response}");
    }
    assert_eq!(accepted.load(SeqCst), 20);
}

/// A request waits for the only stream of a connection, and the server ends the connection.
#[test]
fn a_request_that_a_connection_did_not_take_any_more_goes_over_another() {
    const MAX_CONCURRENT_STREAMS: [u8; 6] = [0, 3, 0, 0, 0, 1];
    let held: Arc<Mutex<Option<(TcpStream, ReceivedFrame)>>> = Arc::default();
    let accepted = Arc::new(AtomicUsize::new(0));
    let upstream = {
        let (held, accepted) = (held.clone(), accepted.clone());
        serve_connections_in_parallel(move |stream| {
            let is_first = accepted.fetch_add(1, SeqCst) == 0;
            serve(
                stream,
                &MAX_CONCURRENT_STREAMS,
                |stream, received| match received.stream {
                    _ if received.kind == PING => answer_ping(stream, &received),
                    3 if is_first => {
                        let writer = stream.try_clone().unwrap();
                        *held.lock().unwrap() = Some((writer, received));
                    }
                    _ => answer_ok(stream, &received),
                },
            );
        })
    };
    let edge = edge(upstream, STEP_TIMEOUT);
    let address = edge.address;
    assert_eq!(HttpRequest::get("/").send(address).status(), 200);
    let first = thread::spawn(move || HttpRequest::get("/").send(address));
    eventually("the first has come", || held.lock().unwrap().is_some());
    let second = thread::spawn(move || HttpRequest::post("/", "hello").send(address));
    // bounded wait: the second gets into the queue; later it would not meet the old connection
    thread::sleep(Duration::from_millis(500));
    let (mut stream, request) = held.lock().unwrap().take().unwrap();
    let goaway = frame(GOAWAY, 0, 0, &[[0, 0, 0, 3], [0; 4]].concat());
    let _ = stream.write_all(&[ok(&request), goaway].concat());
    assert_eq!(first.join().unwrap().status(), 200);
    assert_eq!(second.join().unwrap().status(), 200);
    assert_eq!(accepted.load(SeqCst), 2);
}

#[test]
fn requests_beyond_the_streams_that_a_server_allows_wait_for_a_moment() {
    const MAX_CONCURRENT_STREAMS: [u8; 6] = [0, 3, 0, 0, 0, 2];
    let held: Arc<Mutex<Vec<(TcpStream, ReceivedFrame)>>> = Arc::default();
    let (holds, accepted) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let upstream = {
        let (held, holds, accepted) = (held.clone(), holds.clone(), accepted.clone());
        serve_connections_in_parallel(move |stream| {
            accepted.fetch_add(1, SeqCst);
            serve(
                stream,
                &MAX_CONCURRENT_STREAMS,
                |stream, received| match received.kind {
                    PING => answer_ping(stream, &received),
                    _ if holds.load(SeqCst) => {
                        let writer = stream.try_clone().unwrap();
                        held.lock().unwrap().push((writer, received));
                    }
                    _ => answer_ok(stream, &received),
                },
            );
        })
    };
    let edge = edge(upstream, Duration::from_millis(500));
    let address = edge.address;
    // After the first response it is known how many there may be.
    assert_eq!(HttpRequest::get("/").send(address).status(), 200);
    holds.store(true, SeqCst);
    let get = move || HttpRequest::get("/").send(address);
    let first: Vec<_> = (0..2).map(|_| thread::spawn(get)).collect();
    eventually("two requests have come", || held.lock().unwrap().len() == 2);
    let begun = Instant::now();
    let refused = get();
    assert_eq!(
        (refused.status(), refused.header("retry-after")),
        (503, Some("1"))
    );
    assert!(begun.elapsed() >= Duration::from_millis(500));
    holds.store(false, SeqCst);
    for (mut stream, request) in held.lock().unwrap().drain(..) {
        answer_ok(&mut stream, &request);
    }
    for one in first {
        assert_eq!(one.join().unwrap().status(), 200);
    }
    assert_eq!(get().status(), 200);
    assert_eq!(accepted.load(SeqCst), 1, "connections");
}
