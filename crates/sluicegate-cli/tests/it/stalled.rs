//! Clients and servers that stop in the middle: each stream and each body has its time, and what it held is free afterwards.

mod bodies;
mod clients;
mod servers;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use sluicegate_testkit::h2_frames::serve_frames;
use sluicegate_testkit::raw_socket::{read_head, serve_connections_in_parallel};
use sluicegate_testkit::{STEP_TIMEOUT, eventually};

use super::running::Sluicegate;
use super::slow_clients::SLOW;

const STALLED_SERVER: &str = "sluicegate_upstream_errors_total{reason=\"stalled\"}";

/// A server whose open connections are counted.
struct CountedServer {
    url: String,
    open: Arc<AtomicUsize>,
}

impl CountedServer {
    /// Reads a head on each connection and lets `answer` write what it likes; then it waits until the proxy closes.
    fn http1(answer: impl Fn(&mut TcpStream) + Clone + Send + 'static) -> Self {
        Self::start("http", move |mut stream| {
            if read_head(&mut stream).is_some() {
                answer(&mut stream);
            }
            wait_for_end(stream);
        })
    }

    /// Calls `serve` for each frame, with its type and stream.
    fn http2(serve: impl Fn(u8, u32, &mut TcpStream) + Clone + Send + 'static) -> Self {
        Self::start("h2c", move |stream| serve_frames(stream, &serve))
    }

    fn start(scheme: &str, serve: impl Fn(TcpStream) + Clone + Send + 'static) -> Self {
        let open = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&open);
        let address = serve_connections_in_parallel(move |stream| {
            counted.fetch_add(1, Ordering::SeqCst);
            serve(stream);
            counted.fetch_sub(1, Ordering::SeqCst);
        });
        Self {
            url: format!("{scheme}://{address}"),
            open,
        }
    }

    /// A response that never ends, as fast as it is read.
    fn endless() -> Self {
        Self::http1(|stream| {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n";
            let mut is_sent = stream.write_all(head).is_ok();
            while is_sent {
                is_sent = send(stream, &[7; 16 * 1024]);
            }
        })
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    fn wait_for_open(&self, expected: usize) {
        eventually(
            "the connections to the server are as many as expected",
            || self.open() == expected,
        );
    }

    /// The proxy in front of it. Every stall may last a second, unless `timeouts` says otherwise.
    fn proxied(&self, timeouts: &str) -> Sluicegate {
        Sluicegate::start(&format!(
            "
proxy: {{ listen: '127.0.0.1:0', upstream: '{}', timeouts: {{ {timeouts} }} }}
admin: {{ listen: '127.0.0.1:0' }}
limits:
  - {{ name: per-client, key: [client_ip], rate: 100000/s, burst: 100000 }}
",
            self.url
        ))
    }
}

/// Sends all bytes, however long the proxy does not read. Returns false when it has closed.
fn send(stream: &mut TcpStream, mut bytes: &[u8]) -> bool {
    let deadline = Instant::now() + STEP_TIMEOUT * 3;
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {}
            Err(_) => return false,
        }
    }
    true
}

/// Reads until the proxy has closed the connection.
fn wait_for_end(mut stream: TcpStream) {
    let (deadline, mut bytes) = (Instant::now() + STEP_TIMEOUT * 3, [0; 4096]);
    loop {
        match stream.read(&mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// Waits until so many clients were given up, and not one more.
fn wait_for_slow(sluicegate: &Sluicegate, expected: u64) {
    eventually("the clients are counted", || {
        sluicegate.metric(SLOW) >= expected
    });
    assert_eq!(sluicegate.metric(SLOW), expected);
}
