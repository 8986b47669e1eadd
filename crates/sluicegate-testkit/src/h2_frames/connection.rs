//! A connection that stays open for many frames.

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::fields::{get_fields, status};
use super::{
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS, frame,
    read_frame,
};
use crate::{STEP_TIMEOUT, eventually, raw_socket};

/// A client's connection. A thread reads all the time what comes back, and ends with the connection.
///
/// ```
/// use sluicegate_testkit::h2_frames::H2Connection;
/// use sluicegate_testkit::{UpstreamProtocol, UpstreamRecorder};
///
/// let upstream = UpstreamRecorder::start_with(UpstreamProtocol::Http2);
/// let mut connection = H2Connection::start(upstream.address, &[]);
/// assert_eq!(connection.get("/a"), 200);
/// ```
pub struct H2Connection {
    stream: TcpStream,
    received: Arc<Mutex<Received>>,
    last_stream: u32,
}

/// Everything that the peer has sent so far.
#[derive(Debug, Default)]
pub struct Received {
    /// The status of each stream that has a response; 0 if it cannot be decoded.
    pub statuses: HashMap<u32, u16>,
    /// How many streams the peer has reset.
    pub resets: usize,
    /// The streams that the peer has reset.
    pub reset_streams: HashSet<u32>,
    /// The bytes of each stream's body.
    pub body_bytes: HashMap<u32, usize>,
    /// The streams that the peer has ended.
    pub ended_streams: HashSet<u32>,
    /// True once the peer has announced the end of the connection or has closed it.
    pub is_closed: bool,
}

impl H2Connection {
    /// Connects and sends these settings, as numbers and values, after one that keeps the peer from
    /// compressing headers with a table.
    pub fn start(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        const HEADER_TABLE_SIZE: (u16, u32) = (1, 0);
        let mut stream = raw_socket::connect(address);
        let values: Vec<u8> = [&[HEADER_TABLE_SIZE], settings]
            .concat()
            .iter()
            .flat_map(|(number, value)| [&number.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        let begin = [PREFACE, &frame(SETTINGS, 0, 0, &values)].concat();
        let reader = stream
            .write_all(&begin)
            .and_then(|()| stream.try_clone())
            .expect("a new connection takes a few bytes");
        let received = Arc::new(Mutex::new(Received::default()));
        let record = Arc::clone(&received);
        thread::spawn(move || record_frames(reader, &record));
        Self {
            stream,
            received,
            last_stream: 0,
        }
    }

    /// Everything that has come so far; the reading thread waits while this is held.
    pub fn received(&self) -> MutexGuard<'_, Received> {
        lock(&self.received)
    }

    /// Sends bytes. Returns true while the connection goes on.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        let is_sent = self.stream.write_all(bytes).is_ok();
        let mut received = self.received();
        received.is_closed |= !is_sent;
        !received.is_closed
    }

    /// The number of the next stream: 1, 3, 5 and so on.
    pub fn next_stream(&mut self) -> u32 {
        self.last_stream = if self.last_stream == 0 {
            1
        } else {
            self.last_stream + 2
        };
        self.last_stream
    }

    /// Sends a GET and returns its status; 0 if the connection ends before the response.
    pub fn get(&mut self, path: &str) -> u16 {
        let stream = self.next_stream();
        let flags = END_HEADERS | END_STREAM;
        self.send(&frame(HEADERS, flags, stream, &get_fields(path)));
        eventually("a request is answered", || {
            let received = self.received();
            received.is_closed || received.statuses.contains_key(&stream)
        });
        self.received().statuses.get(&stream).copied().unwrap_or(0)
    }

    /// Waits until the peer has ended the connection.
    pub fn wait_for_end(&self) {
        eventually("the connection is ended", || self.received().is_closed);
    }
}

impl Drop for H2Connection {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn record_frames(mut stream: TcpStream, record: &Mutex<Received>) {
    // Some tests are silent on purpose for longer than a step takes.
    let _ = stream.set_read_timeout(Some(STEP_TIMEOUT * 3));
    while let Ok(frame_in) = read_frame(&mut stream) {
        let mut received = lock(record);
        if matches!(frame_in.kind, DATA | HEADERS) && frame_in.flags & END_STREAM != 0 {
            received.ended_streams.insert(frame_in.stream);
        }
        match frame_in.kind {
            // Trailers come second.
            HEADERS => {
                let decode = || status(&frame_in.payload).unwrap_or(0);
                received
                    .statuses
                    .entry(frame_in.stream)
                    .or_insert_with(decode);
            }
            DATA => {
                *received.body_bytes.entry(frame_in.stream).or_default() += frame_in.payload.len();
            }
            RST_STREAM => {
                received.resets += 1;
                received.reset_streams.insert(frame_in.stream);
            }
            GOAWAY => received.is_closed = true,
            SETTINGS if frame_in.flags & ACK == 0 => {
                let _ = stream.write_all(&frame(SETTINGS, ACK, 0, &[]));
            }
            _ => {}
        }
    }
    lock(record).is_closed = true;
}

fn lock(received: &Mutex<Received>) -> MutexGuard<'_, Received> {
    received.lock().unwrap_or_else(PoisonError::into_inner)
}
