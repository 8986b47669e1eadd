//! A client that writes HTTP/2 frames itself, so that they can be wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::raw;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A field of a request.
pub type Field = (Vec<u8>, Vec<u8>);

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer; `is_all` when it has neither body nor trailers.
    Answer { status: u16, is_all: bool },
    /// The stream was reset.
    Reset,
    /// The connection was ended.
    Ended,
}

/// Sends one request on a connection of its own.
pub fn exchange(address: SocketAddr, fields: &[Field], body: Option<&[u8]>) -> Outcome {
    let mut stream = raw::connect(address);
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    let flags = END_HEADERS | if body.is_none() { END_STREAM } else { 0 };
    bytes.extend(frame(HEADERS, flags, 1, &block(fields)));
    if let Some(body) = body {
        bytes.extend(frame(DATA, END_STREAM, 1, body));
    }
    // A proxy that refuses early may have ended the connection already.
    let _ = stream.write_all(&bytes);
    outcome(&mut stream)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Fields written out in full: a literal without indexing, its name and value as they are.
fn block(fields: &[Field]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            push_length(&mut block, text.len());
            block.extend_from_slice(text);
        }
    }
    block
}

/// An integer with a prefix of seven bits (RFC 7541, section 5.1).
fn push_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        return block.push(length as u8);
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    block.push(rest as u8);
}

fn outcome(stream: &mut TcpStream) -> Outcome {
    loop {
        let mut head = [0; 9];
        if !has_read(stream, &mut head) {
            return Outcome::Ended;
        }
        let [high, middle, low, kind, flags, _, _, _, number] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        if !has_read(stream, &mut payload) {
            return Outcome::Ended;
        }
        match (kind, number) {
            (HEADERS, 1) => {
                return Outcome::Answer {
                    status: status(&payload),
                    is_all: flags & END_STREAM != 0,
                };
            }
            (RST_STREAM, 1) => return Outcome::Reset,
            (GOAWAY, _) => return Outcome::Ended,
            (SETTINGS, _) if flags == 0 => {
                let _ = stream.write_all(&frame(SETTINGS, 1, 0, &[]));
            }
            _ => {}
        }
    }
}

/// Whether so many bytes came before the connection ended.
fn has_read(stream: &mut TcpStream, bytes: &mut [u8]) -> bool {
    match stream.read_exact(bytes) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("the proxy is silent")
        }
        Err(_) => false,
    }
}

/// The status is the first field of an answer: from the static table, or three digits of five or six bits each.
fn status(block: &[u8]) -> u16 {
    match *block {
        [0x88, ..] => 200,
        [0x89, ..] => 204,
        [0x8a, ..] => 206,
        [0x8b, ..] => 304,
        [0x8c, ..] => 400,
        [0x8d, ..] => 404,
        [0x8e, ..] => 500,
        [0x08 | 0x48, 0x03, a, b, c, ..] => str::from_utf8(&[a, b, c]).unwrap().parse().unwrap(),
        [0x08 | 0x48, 0x82, a, b, ..] => digits(u32::from(u16::from_be_bytes([a, b])) << 8),
        [0x08 | 0x48, 0x83, a, b, c, ..] => digits(u32::from_be_bytes([0, a, b, c])),
        _ => panic!(
            "an answer that begins with {:x?}",
            &block[..block.len().min(8)]
        ),
    }
}

/// Three digits in the code of RFC 7541, appendix B, from the highest of 24 bits on.
fn digits(bits: u32) -> u16 {
    let mut at = 24;
    let mut take = |count: u32| {
        at -= count;
        (bits >> at) & ((1 << count) - 1)
    };
    let mut number = 0;
    for _ in 0..3 {
        let five = take(5);
        // 0, 1 and 2 have five bits; 3 to 9 have six and begin with 011.
        let digit = if five < 3 {
            five
        } else {
            five * 2 + take(1) - 0b011001 + 3
        };
        number = number * 10 + digit;
    }
    u16::try_from(number).unwrap()
}

#[test]
fn statuses_are_read_in_every_form() {
    assert_eq!(status(&[0x88]), 200);
    assert_eq!(status(b"\x08\x03431"), 431);
    // 4 is 011010, 2 is 00010, 9 is 011111.
    assert_eq!(
        status(&[0x48, 0x83, 0b0110_1000, 0b0100_1111, 0b1111_1111]),
        429
    );
}
