//! A server's side of a connection, frame by frame.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{ACK, PREFACE, SETTINGS, frame, read_frame};

/// Speaks HTTP/2 with a client until it closes the connection: settings are acknowledged, and
/// `serve` is called for every frame with its type and stream. It may write to the connection.
///
/// ```
/// use std::io::Write;
/// use sluicegate_testkit::h2_frames::{END_HEADERS, END_STREAM, H2Connection, HEADERS, frame, serve_frames};
/// use sluicegate_testkit::raw_socket;
///
/// const STATUS_204: &[u8] = &[0x89];
/// let address = raw_socket::serve_connections(|_, stream| {
///     serve_frames(stream, |kind, number, stream| {
///         if kind == HEADERS {
///             let answer = frame(HEADERS, END_HEADERS | END_STREAM, number, STATUS_204);
///             let _ = stream.write_all(&answer);
///         }
///     });
/// });
/// assert_eq!(H2Connection::start(address, &[]).get("/"), 204);
/// ```
pub fn serve_frames(mut stream: TcpStream, mut serve: impl FnMut(u8, u32, &mut TcpStream)) {
    let mut preface = [0; PREFACE.len()];
    let begun = stream
        .write_all(&frame(SETTINGS, 0, 0, &[]))
        .and_then(|()| stream.read_exact(&mut preface));
    if begun.is_err() {
        return;
    }
    while let Ok(received) = read_frame(&mut stream) {
        if received.kind == SETTINGS && received.flags & ACK == 0 {
            let _ = stream.write_all(&frame(SETTINGS, ACK, 0, &[]));
        }
        serve(received.kind, received.stream, &mut stream);
    }
}
