//! The little of HTTP/1.1 that client and backend need: heads with a length, and bodies that are skipped.

use std::io::{self, ErrorKind};

use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// What an HTTP connection runs over.
pub enum BenchStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection, with what was read from it and not used yet.
pub struct HttpConnection {
    stream: BenchStream,
    buffer: Box<[u8]>,
    begin: usize,
    end: usize,
}

/// The start of a request or an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageHead {
    /// The second word of the first line: a request's path, an answer's status.
    pub word: String,
    /// Zero where it is not named.
    pub content_length: usize,
    /// No further message comes on this connection.
    pub is_last: bool,
}

/// More than any head here has.
pub const BUFFER_MIN: usize = 4 << 10;

impl HttpConnection {
    pub fn new(stream: BenchStream, buffer_bytes: usize) -> io::Result<Self> {
        stream.tcp().set_nodelay(true)?;
        let buffer = vec![0; buffer_bytes.max(BUFFER_MIN)].into_boxed_slice();
        Ok(Self {
            stream,
            buffer,
            begin: 0,
            end: 0,
        })
    }

    /// True when its handshake took up an earlier session.
    pub fn is_resumed(&self) -> bool {
        let BenchStream::Tls(stream) = &self.stream else {
            return false;
        };
        stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The next head; `None` when the other side has closed the connection instead.
    pub async fn head(&mut self) -> io::Result<Option<MessageHead>> {
        loop {
            let unread = &self.buffer[self.begin..self.end];
            if let Some(length) = head_length(unread) {
                let head = MessageHead::parse(&unread[..length])?;
                self.begin += length;
                return Ok(Some(head));
            }
            if unread.len() == self.buffer.len() {
                return Err(invalid("a head that does not end"));
            }
            self.buffer.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
            match self.stream.read(&mut self.buffer[self.end..]).await? {
                0 if self.end == 0 => return Ok(None),
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.end += count,
            }
        }
    }

    /// Reads a body and forgets it.
    pub async fn skip(&mut self, bytes: usize) -> io::Result<()> {
        let here = bytes.min(self.end - self.begin);
        self.begin += here;
        let mut missing = bytes - here;
        while missing > 0 {
            let part = missing.min(self.buffer.len());
            match self.stream.read(&mut self.buffer[..part]).await? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => missing -= count,
            }
        }
        Ok(())
    }

    pub async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.stream {
            BenchStream::Plain(stream) => stream.write_all(bytes).await,
            BenchStream::Tls(stream) => stream.write_all(bytes).await,
        }
    }
}

impl BenchStream {
    async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer).await,
            Self::Tls(stream) => stream.read(buffer).await,
        }
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }
}

impl MessageHead {
    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|_| invalid("a head that is no text"))?;
        let mut lines = text.split("\r\n");
        let word = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .ok_or_else(|| invalid("no first line"))?;
        let mut head = Self {
            word: word.to_string(),
            content_length: 0,
            is_last: false,
        };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                head.content_length = value
                    .parse()
                    .map_err(|_| invalid("a length that is no number"))?;
            } else if name.eq_ignore_ascii_case("connection") {
                head.is_last = value.eq_ignore_ascii_case("close");
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(invalid("a body without a length"));
            }
        }
        Ok(head)
    }
}

/// Its length with the empty line at its end, once all of it is there.
fn head_length(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> io::Result<MessageHead> {
        MessageHead::parse(text.as_bytes())
    }

    #[test]
    fn heads_of_requests_and_answers_are_read() {
        let request =
            head("POST /64k HTTP/1.1\r\nHost: a\r\ncontent-length: 65536\r\n\r\n").unwrap();
        assert_eq!(
            request,
            MessageHead {
                word: "/64k".to_string(),
                content_length: 65_536,
                is_last: false
            }
        );
        let answer = head("HTTP/1.1 429 Too Many Requests\r\nConnection: Close\r\n\r\n").unwrap();
        assert_eq!(
            answer,
            MessageHead {
                word: "429".to_string(),
                content_length: 0,
                is_last: true
            }
        );
    }

    #[test]
    fn what_would_be_misread_is_refused() {
        assert!(head("\r\n\r\n").is_err());
        assert!(head("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n").is_err());
        assert!(head("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }

    #[test]
    fn a_head_ends_with_its_empty_line() {
        assert_eq!(head_length(b"GET / HTTP/1.1\r\n\r\nrest"), Some(18));
        assert_eq!(head_length(b"GET / HTTP/1.1\r\n\r"), None);
    }
}
