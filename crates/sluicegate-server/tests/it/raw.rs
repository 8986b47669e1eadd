//! A client that writes the bytes it is given.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than anything here takes: a proxy that is silent for so long hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Sends these bytes on a connection of their own, and reads until the proxy ends it.
pub fn exchange(address: SocketAddr, request: &[u8]) -> Answers {
    let mut stream = connect(address);
    // A proxy that refuses early may have ended the connection already.
    let _ = stream.write_all(request);
    read_to_end(stream)
}

/// Reads until the proxy ends the connection; a reset is an end too.
pub fn read_to_end(mut stream: TcpStream) -> Answers {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(length) => text.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!(
                "the connection did not end: {error}, after {:?}",
                String::from_utf8_lossy(&text)
            ),
        }
    }
    Answers {
        text: String::from_utf8_lossy(&text).into_owned(),
    }
}

/// One request in HTTP/1.1 for `a.example`, with these further lines, on a connection of its own.
pub fn request(address: SocketAddr, method: &str, target: &str, lines: &[&str]) -> Answers {
    let mut text =
        format!("{method} {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n");
    for line in lines {
        text.extend([line, "\r\n"]);
    }
    exchange(address, (text + "\r\n").as_bytes())
}

/// Everything that came back on a connection.
#[derive(Debug)]
pub struct Answers {
    pub text: String,
}

impl Answers {
    /// The statuses of all answers. No body in these tests holds the beginning of an answer.
    pub fn statuses(&self) -> Vec<u16> {
        let heads = self
            .text
            .match_indices("HTTP/1.")
            .filter_map(|(at, _)| self.text.get(at + 9..at + 12));
        heads
            .filter_map(|digits| digits.parse().ok())
            .filter(|status| *status != 100)
            .collect()
    }

    /// The status of the only answer; 0 if there is none.
    pub fn status(&self) -> u16 {
        let statuses = self.statuses();
        assert!(statuses.len() < 2, "{}", self.text);
        statuses.first().copied().unwrap_or(0)
    }

    /// A header of the first answer.
    pub fn field(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next()?;
        let mut lines = head
            .split("\r\n")
            .skip(1)
            .filter_map(|line| line.split_once(':'));
        lines
            .find(|(own, _)| own.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
    }
}
