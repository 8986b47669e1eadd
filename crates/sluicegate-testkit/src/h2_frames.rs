//! HTTP/2 frames written by hand, so that they can be wrong or too many.
//!
//! [`exchange`] sends one request and tells how its stream ended; an [`H2Connection`] stays open for
//! as many frames as a test likes, and records what comes back. Of responses only the status is
//! decoded; for whole responses use [`HttpRequest::send_http2`](crate::HttpRequest::send_http2).

mod connection;
mod fields;
mod server;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::raw_socket;
pub use connection::{H2Connection, Received};
pub use fields::{field, get_fields, post_fields, push_integer, status};
pub use server::serve_frames;

/// The bytes with which a client begins.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Type of frames with a part of a body.
pub const DATA: u8 = 0;
/// Type of frames that begin a stream, or end it with trailers.
pub const HEADERS: u8 = 1;
/// Type of frames that nobody follows any more: the weight of a stream.
pub const PRIORITY: u8 = 2;
/// Type of frames that end a stream early.
pub const RST_STREAM: u8 = 3;
/// Type of frames with settings of the connection.
pub const SETTINGS: u8 = 4;
/// Type of frames that ask for a sign of life.
pub const PING: u8 = 6;
/// Type of frames that announce the end of the connection.
pub const GOAWAY: u8 = 7;
/// Type of frames that allow the peer to send more.
pub const WINDOW_UPDATE: u8 = 8;
/// Type of frames that go on with the fields of a HEADERS frame.
pub const CONTINUATION: u8 = 9;

/// Flag of the last frame in this direction of a stream.
pub const END_STREAM: u8 = 1;
/// Flag of a HEADERS or CONTINUATION frame that no CONTINUATION follows.
pub const END_HEADERS: u8 = 4;
/// Flag of a SETTINGS frame that acknowledges one of the peer.
pub const ACK: u8 = 1;

/// The bytes of a frame, whatever sense it makes.
///
/// ```
/// use sluicegate_testkit::h2_frames::{PING, frame};
///
/// assert_eq!(frame(PING, 0, 0, &[7; 8])[..9], [0, 0, 8, 6, 0, 0, 0, 0, 0]);
/// ```
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame has less than 16 MiB");
    let [_, length @ ..] = length.to_be_bytes();
    [&length[..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Name and value of a field, which need not be valid.
pub type Field = (Vec<u8>, Vec<u8>);

/// The end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// A response came.
    Response {
        /// Its status.
        status: u16,
        /// True when it has neither body nor trailers.
        is_head_only: bool,
    },
    /// The stream was reset.
    Reset,
    /// The connection was ended.
    ConnectionClosed,
}

/// Sends one request with these fields on a connection of its own.
///
/// # Panics
/// If the peer is silent, or responds with a status that cannot be decoded.
pub fn exchange(address: SocketAddr, fields: &[Field], body: Option<&[u8]>) -> StreamEnd {
    let mut stream = raw_socket::connect(address);
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    let flags = END_HEADERS | if body.is_none() { END_STREAM } else { 0 };
    let block: Vec<u8> = fields
        .iter()
        .flat_map(|(name, value)| field(name, value))
        .collect();
    bytes.extend(frame(HEADERS, flags, 1, &block));
    if let Some(body) = body {
        bytes.extend(frame(DATA, END_STREAM, 1, body));
    }
    // A peer that refuses early may have closed the connection already.
    let _ = stream.write_all(&bytes);
    stream_end(&mut stream)
}

fn stream_end(stream: &mut TcpStream) -> StreamEnd {
    loop {
        let received = match read_frame(stream) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the peer is silent"),
            Err(_) => return StreamEnd::ConnectionClosed,
        };
        match (received.kind, received.stream) {
            (HEADERS, 1) => {
                return StreamEnd::Response {
                    status: status(&received.payload).unwrap_or_else(|| {
                        panic!("a response that begins with {:x?}", received.payload)
                    }),
                    is_head_only: received.flags & END_STREAM != 0,
                };
            }
            (RST_STREAM, 1) => return StreamEnd::Reset,
            (GOAWAY, _) => return StreamEnd::ConnectionClosed,
            (SETTINGS, _) if received.flags & ACK == 0 => {
                let _ = stream.write_all(&frame(SETTINGS, ACK, 0, &[]));
            }
            _ => {}
        }
    }
}

/// A frame of the peer.
#[derive(Clone, Debug)]
pub struct ReceivedFrame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// The number of its stream; 0 is the connection.
    pub stream: u32,
    /// Everything behind its head.
    pub payload: Vec<u8>,
}

/// The next frame; an error when the connection has ended or the socket's timeout is over.
pub fn read_frame(stream: &mut TcpStream) -> io::Result<ReceivedFrame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [high, middle, low, kind, flags, number @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
    stream.read_exact(&mut payload)?;
    Ok(ReceivedFrame {
        kind,
        flags,
        stream: u32::from_be_bytes(number),
        payload,
    })
}
