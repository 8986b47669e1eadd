//! The server behind the proxy, which counts its connections and can be made to hold them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use sluicegate_testkit::raw_socket::serve_connections_in_parallel;

/// Sent again and again for a large body.
static PART: [u8; PART_BYTES] = [7; PART_BYTES];
const PART_BYTES: usize = 64 << 10;
const PARTS: usize = 128;
const LARGE_BODY: usize = PARTS * PART_BYTES;

pub struct CountedUpstream {
    pub address: SocketAddr,
    open: Arc<AtomicUsize>,
}

impl CountedUpstream {
    pub fn start() -> Self {
        let open = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&open);
        let address = serve_connections_in_parallel(move |stream| {
            counter.fetch_add(1, Ordering::Relaxed);
            serve(stream);
            counter.fetch_sub(1, Ordering::Relaxed);
        });
        Self { address, open }
    }

    pub fn open_connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

/// Answers until the connection ends. It has no timeouts: a connection is held as long as the proxy
/// holds it.
fn serve(stream: TcpStream) {
    let _ = stream.set_read_timeout(None);
    let _ = stream.set_write_timeout(None);
    let mut reader = BufReader::new(stream);
    while let Some(request_line) = read_request_line(&mut reader) {
        let stream = reader.get_mut();
        let (is_written, is_last) = match request_line.split(' ').nth(1) {
            Some("/large") => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE_BODY}\r\n\r\n");
                let parts = (0..PARTS).map(|_| &PART[..]);
                let mut all = [head.as_bytes()].into_iter().chain(parts);
                (all.try_for_each(|part| stream.write_all(part)), false)
            }
            Some("/stops") => {
                let part = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nsome of it";
                (stream.write_all(part), true)
            }
            Some("/socket") => {
                let switch = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                (stream.write_all(switch), true)
            }
            Some("/upload") => (Ok(()), true),
            _ => {
                let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                (stream.write_all(whole), false)
            }
        };
        if is_written.is_err() {
            return;
        }
        if is_last {
            drain(&mut reader);
            return;
        }
    }
}

/// `None` when the connection has ended.
fn read_request_line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut request_line = String::new();
    reader.read_line(&mut request_line).ok()?;
    let mut line = request_line.clone();
    while !line.trim_end().is_empty() {
        line.clear();
        reader.read_line(&mut line).ok()?;
    }
    (!request_line.is_empty()).then_some(request_line)
}

/// Takes all that comes until the end, at the pace of a slow disk. A thousand threads that take it as
/// fast as they can would leave the proxy no processor.
fn drain(reader: &mut BufReader<TcpStream>) {
    let mut bytes = vec![0; 64 << 10];
    while reader.read(&mut bytes).is_ok_and(|read| read > 0) {
        // bounded wait: until the proxy closes the connection
        thread::sleep(Duration::from_millis(100));
    }
}
