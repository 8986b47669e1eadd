//! The end of a process, seen from the clients at every listener: nobody loses a request.

mod last_words;
mod stream_door;
mod text_door;

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluicegate_testkit::h2_frames::{
    END_HEADERS, END_STREAM, H2Connection, HEADERS, frame, get_fields,
};
use sluicegate_testkit::{eventually, free_port, raw_socket};

use self::stream_door::{StreamClient, StreamKind};
use self::text_door::{TextClient, TextProtocol};
use super::restart::{has_ended, successors};
use super::running::{Sluicegate, signal, times};

/// The listeners of a program; their ports stay the same for its successors.
#[derive(Clone, Copy)]
struct Listeners {
    proxy: SocketAddr,
    admin: SocketAddr,
    http: SocketAddr,
    grpc: SocketAddr,
    resp: SocketAddr,
}

impl Listeners {
    fn start() -> (Self, Sluicegate) {
        let address = || SocketAddr::from(([127, 0, 0, 1], free_port()));
        let listeners = Self {
            proxy: address(),
            admin: address(),
            http: address(),
            grpc: address(),
            resp: address(),
        };
        let Self {
            proxy,
            admin,
            http,
            grpc,
            resp,
        } = listeners;
        let sluicegate = Sluicegate::start(&format!(
            "
proxy: {{ listen: '{proxy}', workers: 2 }}
admin: {{ listen: '{admin}' }}
decisions: {{ http: '{http}', grpc: '{grpc}', resp: '{resp}' }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 1000000/s, burst: 1000000 }}
  - {{ name: per-user, key: ['descriptor:user'], rate: 1000000/s, burst: 1000000 }}
"
        ));
        (listeners, sluicegate)
    }

    /// Clients that keep their connections, one request at a time and eight.
    fn text_clients(&self) -> Vec<TextClient> {
        use TextProtocol::{Http, Resp};
        let get = "GET /load HTTP/1.1\r\nHost: a.example\r\n\r\n";
        let check = r#"{"limit": "per-client", "key": ["203.0.113.8"]}"#;
        let check = format!(
            "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{check}",
            check.len()
        );
        let throttle = "CL.THROTTLE ann 1000000 1000000 1\r\n";
        [1, 8]
            .into_iter()
            .flat_map(|depth| {
                [
                    TextClient::new(Http, self.proxy, get, depth),
                    TextClient::new(Http, self.http, check.as_str(), depth),
                    TextClient::new(Resp, self.resp, throttle, depth),
                ]
            })
            .collect()
    }

    /// Clients that have a new connection for each request.
    fn brief_clients(&self) -> Vec<TextClient> {
        let brief = "GET /load HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        let health = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", self.admin);
        vec![
            TextClient::new(TextProtocol::Http, self.proxy, brief, 1),
            TextClient::new(TextProtocol::Http, self.admin, health, 1),
        ]
    }
}

/// Clients under way, and whatever they have lost.
struct StrictLoad {
    stop: Arc<AtomicBool>,
    /// Answered batches of each client.
    answered: Vec<Arc<AtomicU64>>,
    lost: Arc<Mutex<Vec<String>>>,
    clients: Vec<JoinHandle<()>>,
}

impl StrictLoad {
    fn start(listeners: Listeners) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            answered: Vec::new(),
            lost: Arc::default(),
            clients: Vec::new(),
        };
        for _ in 0..4 {
            for mut client in listeners.text_clients() {
                load.spawn(move || client.ask());
            }
        }
        for mut client in listeners.brief_clients() {
            load.spawn(move || client.ask());
        }
        for (kind, address) in [
            (StreamKind::Http, listeners.proxy),
            (StreamKind::Http, listeners.proxy),
            (StreamKind::Grpc, listeners.grpc),
            (StreamKind::Grpc, listeners.grpc),
        ] {
            let mut client = StreamClient::new(kind, address, 8);
            load.spawn(move || client.ask());
        }
        load
    }

    fn spawn(&mut self, mut ask: impl FnMut() -> Result<(), String> + Send + 'static) {
        let (stop, lost) = (Arc::clone(&self.stop), Arc::clone(&self.lost));
        let answered = Arc::new(AtomicU64::new(0));
        self.answered.push(Arc::clone(&answered));
        self.clients.push(thread::spawn(move || {
            while !stop.load(Relaxed) {
                match ask() {
                    Ok(()) => _ = answered.fetch_add(1, Relaxed),
                    Err(error) => lost.lock().unwrap().push(error),
                }
            }
        }));
    }

    /// Waits until every client was answered twice more.
    fn go_on(&self) {
        let before: Vec<u64> = self
            .answered
            .iter()
            .map(|count| count.load(Relaxed))
            .collect();
        eventually("every client is answered", || {
            let now = self.answered.iter().map(|count| count.load(Relaxed));
            now.zip(&before).all(|(now, before)| now >= before + 2)
        });
    }

    /// Ends the clients; returns everything that they have lost, and the number of batches.
    fn stop(self) -> (Vec<String>, u64) {
        self.stop.store(true, Relaxed);
        for client in self.clients {
            client.join().unwrap();
        }
        let lost = self.lost.lock().unwrap().clone();
        (
            lost,
            self.answered.iter().map(|count| count.load(Relaxed)).sum(),
        )
    }
}

/// `cargo xtask chaos --only replacements` does a hundred.
#[test]
fn replacements_lose_no_request_at_any_listener() {
    let (listeners, mut sluicegate) = Listeners::start();
    let load = StrictLoad::start(listeners);
    let mut pid = sluicegate.pid();
    for replacement in 0..times(5) as usize {
        load.go_on();
        signal(pid, "USR2");
        let mut successor = None;
        eventually("a successor was started", || {
            successor = successors(&sluicegate).get(replacement).copied();
            successor.is_some()
        });
        eventually("it has taken over", || has_ended(pid));
        pid = successor.unwrap();
    }
    load.go_on();
    let (lost, batches) = load.stop();
    signal(pid, "TERM");
    sluicegate.wait();
    assert!(
        lost.is_empty(),
        "of {batches} batches {} were lost: {:#?}",
        lost.len(),
        &lost[..lost.len().min(20)]
    );
}

/// Everything that the system has when the process is told to end is answered: on connections that
/// are open and on those that were never accepted.
#[test]
fn the_end_of_a_process_answers_what_has_come_at_every_listener() {
    let (listeners, mut sluicegate) = Listeners::start();
    let mut open: Vec<TextClient> = (0..4).flat_map(|_| listeners.text_clients()).collect();
    open.iter_mut().for_each(|client| client.ask().unwrap());
    let mut streams: Vec<H2Connection> = (0..4)
        .map(|_| H2Connection::start(listeners.proxy, &[]))
        .collect();
    for connection in &mut streams {
        assert_eq!(connection.get("/first"), 200);
    }
    // bounded wait: quiet connections are put to rest, and half of those below are not quiet
    thread::sleep(Duration::from_millis(300));
    let fresh = open.len() / 2;
    (open.iter_mut().take(fresh)).for_each(|client| client.ask().unwrap());
    sluicegate.signal("STOP");
    eventually("it stands still", || {
        state_of(sluicegate.pid()) == Some('T')
    });
    let mut new = listeners.text_clients();
    new.extend(listeners.brief_clients());
    let all = open.iter_mut().chain(&mut new);
    all.for_each(|client| client.send().unwrap());
    let mut asked = Vec::new();
    for connection in &mut streams {
        let numbers: Vec<u32> = (0..5).map(|_| connection.next_stream()).collect();
        for stream in &numbers {
            let flags = END_HEADERS | END_STREAM;
            connection.send(&frame(HEADERS, flags, *stream, &get_fields("/late")));
        }
        asked.push(numbers);
    }
    sluicegate.signal("TERM");
    sluicegate.signal("CONT");
    for client in open.iter_mut().chain(&mut new) {
        client.receive().unwrap();
        // An answer that was sent before the process knew of its end could not announce it.
        if let Some(stream) = client.stream.take() {
            client.expect_end(stream).unwrap();
        }
    }
    for (connection, numbers) in streams.iter().zip(asked) {
        eventually("every stream is answered", || {
            let received = connection.received();
            (numbers.iter()).all(|stream| received.statuses.get(stream) == Some(&200))
        });
    }
    drop(streams);
    assert!(sluicegate.wait().success());
}

/// The admin API has few places, and its clients wait for one; the proxy has nothing to do and ends
/// at once.
#[test]
fn the_end_of_a_process_answers_what_has_come_at_the_admin_api() {
    const PLACES: usize = 64;
    let (listeners, mut sluicegate) = Listeners::start();
    let mut silent: Vec<TcpStream> = (0..PLACES)
        .map(|_| raw_socket::connect(listeners.admin))
        .collect();
    let waiting = || listeners.brief_clients().pop().unwrap();
    let mut waiting: Vec<TextClient> = (0..10).map(|_| waiting()).collect();
    let (begun, rest) = waiting[0].request.split_at(10);
    silent[0].write_all(begun).unwrap();
    let rest = rest.to_owned();
    waiting.iter_mut().for_each(|client| client.send().unwrap());
    sluicegate.signal("TERM");
    eventually("the proxy has ended", || {
        raw_socket::try_connect(listeners.proxy).is_err()
    });
    // bounded wait: everything but the admin API has ended by now
    thread::sleep(Duration::from_millis(300));
    silent[0].write_all(&rest).unwrap();
    assert_eq!(raw_socket::read_to_end(silent.swap_remove(0)).status(), 200);
    for client in &mut waiting {
        client.receive().unwrap();
    }
    assert!(sluicegate.wait().success());
}

/// A table that grows later stops the process for as long as the system likes.
#[test]
fn the_table_of_descriptors_is_large_from_the_start() {
    let (_, sluicegate) = Listeners::start();
    let status = fs::read_to_string(format!("/proc/{}/status", sluicegate.pid())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
    let size: usize = size.unwrap().trim().parse().unwrap();
    assert!(size >= 1024, "{size}");
}

/// The letter that the system has for what a process does.
fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}
