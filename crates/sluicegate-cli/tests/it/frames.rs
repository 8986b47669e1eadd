//! A client that writes HTTP/2 frames itself, as many as it likes, and remembers what came back.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use super::running::{LONGEST, Sluicegate, eventually};

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// A connection in HTTP/2. What comes is read all the time, in a thread that ends with the connection.
pub struct Session {
    stream: TcpStream,
    heard: Arc<Mutex<Heard>>,
    last: u32,
}

/// What the proxy has said so far.
#[derive(Debug, Default)]
pub struct Heard {
    /// The status of each stream that was answered; 0 if it is none of those that are expected here.
    pub statuses: HashMap<u32, u16>,
    pub resets: usize,
    /// It has said that it ends the connection, or just ended it.
    pub is_over: bool,
}

impl Session {
    /// Begins with these settings: numbers and values. The answers' fields are to come without a table.
    pub fn start(sluicegate: &Sluicegate, settings: &[(u16, u32)]) -> Self {
        const HEADER_TABLE_SIZE: (u16, u32) = (1, 0);
        let mut stream = sluicegate.connect();
        stream.set_nodelay(true).unwrap();
        let values: Vec<u8> = [&[HEADER_TABLE_SIZE], settings]
            .concat()
            .iter()
            .flat_map(|(number, value)| [&number.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &values)).unwrap();
        let heard = Arc::new(Mutex::new(Heard::default()));
        let (from, to) = (stream.try_clone().unwrap(), Arc::clone(&heard));
        thread::spawn(move || listen(from, &to));
        Self {
            stream,
            heard,
            last: 0,
        }
    }

    pub fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap()
    }

    /// Sends bytes; whether the connection still goes on.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        let is_sent = self.stream.write_all(bytes).is_ok();
        if !is_sent {
            self.heard().is_over = true;
        }
        !self.heard().is_over
    }

    /// The number of a new stream.
    pub fn next(&mut self) -> u32 {
        self.last = if self.last == 0 { 1 } else { self.last + 2 };
        self.last
    }

    /// The status of a request that is sent now; 0 if the connection ends before its answer.
    pub fn ask(&mut self, path: &str) -> u16 {
        let stream = self.next();
        self.send(&frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &request(path),
        ));
        eventually("a request is answered", || {
            let heard = self.heard();
            heard.is_over || heard.statuses.contains_key(&stream)
        });
        self.heard().statuses.get(&stream).copied().unwrap_or(0)
    }

    /// Waits for the end of the connection.
    pub fn wait_for_end(&self) {
        eventually("the connection is ended", || self.heard().is_over);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The fields of a GET.
pub fn request(path: &str) -> Vec<u8> {
    // GET and http from the static table.
    [
        vec![0x82, 0x86],
        field(":path", path),
        field(":authority", "a.example"),
    ]
    .concat()
}

/// The fields of a POST.
pub fn post(path: &str) -> Vec<u8> {
    [
        vec![0x83, 0x86],
        field(":path", path),
        field(":authority", "a.example"),
    ]
    .concat()
}

/// A field written out in full.
pub fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        push_number(&mut bytes, 0, 127, text.len());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// An integer whose first byte has room for `most` beside `flags` (RFC 7541, section 5.1).
pub fn push_number(bytes: &mut Vec<u8>, flags: u8, most: u8, number: usize) {
    if number < usize::from(most) {
        return bytes.push(flags | number as u8);
    }
    bytes.push(flags | most);
    let mut rest = number - usize::from(most);
    while rest >= 128 {
        bytes.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    bytes.push(rest as u8);
}

fn listen(mut stream: TcpStream, heard: &Mutex<Heard>) {
    stream.set_read_timeout(Some(LONGEST * 3)).unwrap();
    let mut head = [0; 9];
    while stream.read_exact(&mut head).is_ok() {
        let [high, middle, low, kind, flags, number @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        if stream.read_exact(&mut payload).is_err() {
            break;
        }
        let mut heard = heard.lock().unwrap();
        match kind {
            // Trailers come second.
            HEADERS => {
                heard
                    .statuses
                    .entry(u32::from_be_bytes(number))
                    .or_insert_with(|| status(&payload));
            }
            RST_STREAM => heard.resets += 1,
            GOAWAY => heard.is_over = true,
            SETTINGS if flags & ACK == 0 => {
                let _ = stream.write_all(&frame(SETTINGS, ACK, 0, &[]));
            }
            _ => {}
        }
    }
    heard.lock().unwrap().is_over = true;
}

/// The status is the first field of an answer: from the static table, or in the code of RFC 7541, appendix B.
fn status(block: &[u8]) -> u16 {
    match *block {
        // The table has no room.
        [0x20, ref rest @ ..] => status(rest),
        [0x88, ..] => 200,
        [0x8c, ..] => 400,
        [0x08 | 0x48, 0x83, 0x68, 0x0f, 0x7f, ..] => 408,
        [0x08 | 0x48, 0x83, 0x68, 0x2d, 0x7f, ..] => 414,
        [0x08 | 0x48, 0x83, 0x68, 0x4f, 0xff, ..] => 429,
        [0x08 | 0x48, 0x83, 0x69, 0x90, 0xff, ..] => 431,
        [0x08 | 0x48, 0x83, 0x6c, 0x0d, 0x7f, ..] => 504,
        _ => 0,
    }
}
