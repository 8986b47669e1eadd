//! A client of HTTP/1 or of the protocol of Redis that counts every request it has sent.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use sluicegate_testkit::raw_socket;

use crate::load::is_open;

/// Requests in a row on one connection, each batch sent as one when the answers to the last have
/// come.
pub struct TextClient {
    pub address: SocketAddr,
    /// One request.
    pub request: Vec<u8>,
    /// Requests in a batch.
    pub depth: usize,
    pub protocol: TextProtocol,
    /// The connection, for as long as the server has not said that it closes.
    pub stream: Option<BufReader<TcpStream>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextProtocol {
    Http,
    Resp,
}

/// What an answer says about its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Open,
    Closes,
}

impl TextClient {
    pub fn new(
        protocol: TextProtocol,
        address: SocketAddr,
        request: impl Into<Vec<u8>>,
        depth: usize,
    ) -> Self {
        Self {
            address,
            request: request.into(),
            depth,
            protocol,
            stream: None,
        }
    }

    /// Sends a batch and waits for all of its answers. An error is anything but that: whoever keeps
    /// to the protocol loses nothing.
    pub fn ask(&mut self) -> Result<(), String> {
        self.send()?;
        self.receive()
    }

    /// Sends a batch, over a new connection if the last one was closed between two batches.
    pub fn send(&mut self) -> Result<(), String> {
        if let Some(stream) = &self.stream
            && !is_open(stream.get_ref()).map_err(|error| self.lost("before a request", &error))?
        {
            self.stream = None;
        }
        if self.stream.is_none() {
            let connected = raw_socket::try_connect(self.address);
            let stream = connected.map_err(|error| self.lost("while connecting", &error))?;
            self.stream = Some(BufReader::new(stream));
        }
        let batch = self.request.repeat(self.depth);
        let stream = self.stream.as_mut().expect("it was connected above");
        let sent = stream.get_mut().write_all(&batch);
        sent.map_err(|error| self.lost("while sending", &error))
    }

    /// Waits for the answers to a batch.
    pub fn receive(&mut self) -> Result<(), String> {
        let mut stream = self.stream.take().expect("a batch was sent");
        let mut after = After::Open;
        for place in 1..=self.depth {
            if after == After::Closes {
                let left = self.depth + 1 - place;
                return Err(format!("{self:?}: closed with {left} requests unanswered"));
            }
            let answer = match self.protocol {
                TextProtocol::Http => read_http(&mut stream),
                TextProtocol::Resp => read_resp(&mut stream),
            };
            let what = format!("at answer {place} of {}", self.depth);
            after = answer.map_err(|error| self.lost(&what, &error))?;
        }
        if after == After::Open {
            self.stream = Some(stream);
            return Ok(());
        }
        self.expect_end(stream)
    }

    /// The server ends the connection, and does not reset it.
    pub fn expect_end(&self, mut stream: BufReader<TcpStream>) -> Result<(), String> {
        match stream.read(&mut [0; 64]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(format!("{self:?}: bytes after the last answer")),
            Err(error) => Err(self.lost("after the last answer", &error)),
        }
    }

    fn lost(&self, moment: &str, error: &io::Error) -> String {
        let kind = match error.kind() {
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "reset",
            ErrorKind::UnexpectedEof => "unanswered or truncated",
            ErrorKind::ConnectionRefused => "refused",
            _ => "lost",
        };
        format!("{self:?}: {kind} {moment}: {error}")
    }
}

impl std::fmt::Debug for TextClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} × {}", self.protocol, self.address, self.depth)
    }
}

/// Reads one answer with a length; it must be 200.
fn read_http(stream: &mut BufReader<TcpStream>) -> io::Result<After> {
    let (mut length, mut after, mut line) = (0, After::Open, String::new());
    read_line(stream, &mut line)?;
    if !line.starts_with("HTTP/1.1 200 ") {
        return Err(io::Error::other(format!("{line:?} instead of 200")));
    }
    loop {
        read_line(stream, &mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        match line.split_once(": ") {
            Some(("content-length", text)) => length = text.parse().map_err(io::Error::other)?,
            Some(("connection", "close")) => after = After::Closes,
            _ if line.is_empty() => break,
            _ => {}
        }
    }
    stream.read_exact(&mut vec![0; length])?;
    Ok(after)
}

/// Reads the five numbers of one reply; the first says that the request may pass.
fn read_resp(stream: &mut BufReader<TcpStream>) -> io::Result<After> {
    let mut reply = Vec::new();
    for _ in 0..6 {
        let mut line = String::new();
        read_line(stream, &mut line)?;
        reply.push(line);
    }
    if reply[0] != "*5\r\n" || reply[1] != ":0\r\n" {
        return Err(io::Error::other(format!("{reply:?}")));
    }
    Ok(After::Open)
}

/// Reads one whole line.
fn read_line(stream: &mut BufReader<TcpStream>, line: &mut String) -> io::Result<()> {
    line.clear();
    stream.read_line(line)?;
    if line.ends_with("\r\n") {
        Ok(())
    } else {
        Err(ErrorKind::UnexpectedEof.into())
    }
}
