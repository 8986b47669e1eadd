//! A response on its way to a client.
//!
//! The header lines of a server stay the text that they came as until they are sent: they are
//! neither parsed into a map nor copied, because most of them are passed on unchanged.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};

use crate::header_lines::header_lines;
use crate::wire::{ByteRange, HeaderLine, HeaderText};

/// A response with a body of some kind.
#[derive(Debug)]
pub struct HttpResponse<B> {
    /// The status.
    pub status: StatusCode,
    /// Every header but those of the connection and of the body's framing, which the engine adds.
    pub lines: ResponseLines,
    /// The body.
    pub body: B,
    /// The connection ends after this response. Without meaning in HTTP/2.
    pub closes: bool,
}

impl<B> HttpResponse<B> {
    /// A response that keeps its connection open.
    pub fn new(status: StatusCode, lines: ResponseLines, body: B) -> Self {
        Self {
            status,
            lines,
            body,
            closes: false,
        }
    }

    /// The same response with another body.
    pub fn map<C>(self, map: impl FnOnce(B) -> C) -> HttpResponse<C> {
        let Self {
            status,
            lines,
            body,
            closes,
        } = self;
        HttpResponse {
            status,
            lines,
            body: map(body),
            closes,
        }
    }

    /// The response as HTTP/2 sends it.
    pub fn into_response(self) -> Response<B> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.lines.into_map();
        response
    }
}

impl<B> From<Response<B>> for HttpResponse<B> {
    /// Takes over a response that was built with a map. The names of a map are unique in its
    /// lower case, so the lines are written as they are.
    fn from(response: Response<B>) -> Self {
        let (head, body) = response.into_parts();
        let mut lines = ResponseLines::default();
        for (name, value) in &head.headers {
            lines.append(name, |text| text.extend_from_slice(value.as_bytes()));
        }
        Self::new(head.status, lines, body)
    }
}

impl HttpResponse<Bytes> {
    /// A response in plain text.
    pub fn plain_text(status: StatusCode, words: impl Into<Bytes>) -> Self {
        let mut lines = ResponseLines::default();
        lines.append(&CONTENT_TYPE, |text| {
            text.extend_from_slice(b"text/plain; charset=utf-8")
        });
        Self::new(status, lines, words.into())
    }
}

/// Header lines of a response: first those of a server, if one sent it, then our own.
#[derive(Debug, Default)]
pub struct ResponseLines {
    /// The head that the server sent.
    sent: Bytes,
    /// Positions in `sent` of the lines that are passed on.
    server: Vec<HeaderLine>,
    /// Our lines as they are sent, each with its CR LF.
    own: Vec<u8>,
}

impl ResponseLines {
    /// Bytes that our lines usually take.
    const OWN_BYTES: usize = 320;

    /// Lines of a server that speaks HTTP/1, at these positions of what it sent.
    pub(crate) fn from_text(sent: Bytes, server: Vec<HeaderLine>) -> Self {
        Self {
            sent,
            server,
            own: Vec::with_capacity(Self::OWN_BYTES),
        }
    }

    /// Lines of a server that speaks HTTP/2.
    pub fn from_map(map: &HeaderMap) -> Self {
        let (mut text, mut server) = (
            Vec::with_capacity(map.len() * 32),
            Vec::with_capacity(map.len()),
        );
        for (name, value) in map {
            let start = text.len();
            text.extend_from_slice(name.as_str().as_bytes());
            let middle = text.len();
            text.extend_from_slice(value.as_bytes());
            server.push(HeaderLine {
                name: ByteRange::new(start, middle),
                value: ByteRange::new(middle, text.len()),
            });
        }
        Self::from_text(text.into(), server)
    }

    /// Names and values of the server's lines.
    pub(crate) fn server_lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.server.iter().map(|line| {
            (
                &self.sent[line.name.range()],
                &self.sent[line.value.range()],
            )
        })
    }

    /// Names and values of our lines.
    pub(crate) fn own_lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        header_lines(&self.own)
    }

    /// Returns true when the server sent a line with this name, in any case.
    pub(crate) fn has_server_line(&self, name: &str) -> bool {
        let is_named =
            |line: &HeaderLine| self.sent[line.name.range()].eq_ignore_ascii_case(name.as_bytes());
        self.server
            .iter()
            .any(|line| line.name.length() == name.len() && is_named(line))
    }

    /// Keeps the server's lines for whose name `keep` returns true.
    pub(crate) fn retain_server_lines(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let sent = &self.sent;
        self.server.retain(|line| keep(&sent[line.name.range()]));
    }

    /// Position of our line with this name in `own`.
    fn own_line(&self, name: &HeaderName) -> Option<std::ops::Range<usize>> {
        let mut start = 0;
        for line in self.own.split_inclusive(|byte| *byte == b'\n') {
            if split(line).is_some_and(|(own, _)| own == name.as_str().as_bytes()) {
                return Some(start..start + line.len());
            }
            start += line.len();
        }
        None
    }

    /// Returns true when we have added a line with this name.
    pub fn has_own_line(&self, name: &HeaderName) -> bool {
        self.own_line(name).is_some()
    }

    /// Adds a line in the place of one that we have added before.
    pub fn replace_own_line(&mut self, name: &HeaderName, value: &str) {
        if let Some(line) = self.own_line(name) {
            self.own.drain(line);
        }
        self.append(name, |text| text.extend_from_slice(value.as_bytes()));
    }

    /// Appends all lines to `text` as HTTP/1 writes them.
    pub(crate) fn write(&self, text: &mut Vec<u8>) {
        text.reserve(self.sent.len() + self.own.len());
        for (name, value) in self.server_lines() {
            text.extend_from_slice(name);
            text.extend_from_slice(b": ");
            text.extend_from_slice(value);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(&self.own);
    }

    /// Lines as a map, which HTTP/2 takes. A line that no map can hold is dropped.
    fn into_map(self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(self.server.len() + 8);
        for line in &self.server {
            let name = HeaderName::from_bytes(&self.sent[line.name.range()]);
            let value = HeaderValue::from_maybe_shared(self.sent.slice(line.value.range()));
            if let (Ok(name), Ok(value)) = (name, value) {
                map.append(name, value);
            }
        }
        for (name, value) in self.own_lines() {
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            {
                map.append(name, value);
            }
        }
        map
    }
}

/// Name and value of one of our lines.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

impl ResponseLines {
    /// The first value that a server sent under this name.
    pub fn value(&self, name: &HeaderName) -> Option<&[u8]> {
        if !self.has_server_line(name.as_str()) {
            return None;
        }
        let is_named =
            |line: &(&[u8], &[u8])| line.0.eq_ignore_ascii_case(name.as_str().as_bytes());
        self.server_lines().find(is_named).map(|(_, value)| value)
    }

    /// Removes every line that a server sent under this name.
    pub fn remove(&mut self, name: &HeaderName) {
        if self.has_server_line(name.as_str()) {
            let name = name.as_str().as_bytes();
            self.retain_server_lines(|other| !other.eq_ignore_ascii_case(name));
        }
    }

    /// Adds a line. `value` writes its value, which must not contain a line end.
    pub fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        if self.own.capacity() == 0 {
            self.own.reserve(Self::OWN_BYTES);
        }
        HeaderText(&mut self.own).line(name.as_str(), value);
    }

    /// Adds lines that `write` writes as they are sent: names in lower case, each line with its CR LF.
    pub fn append_lines(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.own.capacity() == 0 {
            self.own.reserve(Self::OWN_BYTES);
        }
        write(&mut self.own);
    }

    /// Adds a line in the place of those that a server sent under this name.
    pub fn replace(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        self.remove(name);
        self.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static str) -> ResponseLines {
        let line = |line: &'static str| {
            let (name, value) = line.split_once(": ").unwrap();
            HeaderLine {
                name: ByteRange::of(text.as_bytes(), name.as_bytes()),
                value: ByteRange::of(text.as_bytes(), value.as_bytes()),
            }
        };
        ResponseLines::from_text(
            Bytes::from_static(text.as_bytes()),
            text.lines().map(line).collect(),
        )
    }

    fn written(lines: &ResponseLines) -> String {
        let mut text = Vec::new();
        lines.write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_servers_lines_stay_as_they_are_and_ours_follow() {
        let mut lines = lines("Server: x\nX-RateLimit-Limit: 5\nSet-Cookie: a=b\nset-cookie: c=d");
        assert_eq!(
            lines.value(&HeaderName::from_static("x-ratelimit-limit")),
            Some(&b"5"[..])
        );
        lines.replace(&HeaderName::from_static("x-ratelimit-limit"), |text| {
            text.push(b'3')
        });
        lines.append(&HeaderName::from_static("x-ours"), |text| text.push(b'1'));
        let text = "Server: x\r\nSet-Cookie: a=b\r\nset-cookie: c=d\r\nx-ratelimit-limit: 3\r\nx-ours: 1\r\n";
        assert_eq!(written(&lines), text);
        let map = lines.into_map();
        assert_eq!(map.len(), 5);
        assert_eq!(map["x-ratelimit-limit"], "3");
        assert_eq!(map.get_all("set-cookie").iter().count(), 2);
        assert_eq!(written(&ResponseLines::from_map(&map)).len(), text.len());
    }

    #[test]
    fn a_line_of_ours_can_take_the_place_of_another() {
        let mut lines = ResponseLines::default();
        lines.append(&HeaderName::from_static("a"), |text| text.push(b'1'));
        lines.append(&CONTENT_TYPE, |text| text.extend_from_slice(b"text/plain"));
        lines.append(&HeaderName::from_static("b"), |text| text.push(b'2'));
        lines.replace_own_line(&CONTENT_TYPE, "application/grpc");
        assert_eq!(
            written(&lines),
            "a: 1\r\nb: 2\r\ncontent-type: application/grpc\r\n"
        );
        assert!(
            lines.has_own_line(&CONTENT_TYPE) && !lines.has_own_line(&HeaderName::from_static("c"))
        );
    }
}
