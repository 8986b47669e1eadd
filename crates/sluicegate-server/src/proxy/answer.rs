//! An answer on its way to a client. Its lines stay the text that they are until they are sent.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use sluicegate::http::ResponseFields;

use super::wire::{Line, Span, Text};

/// An answer with a body of some kind.
#[derive(Debug)]
pub(super) struct Answer<B> {
    pub(super) status: StatusCode,
    pub(super) lines: AnswerLines,
    pub(super) body: B,
    /// Whether the connection ends after it, if it is one of HTTP/1.
    pub(super) closes: bool,
}

impl<B> Answer<B> {
    pub(super) fn new(status: StatusCode, lines: AnswerLines, body: B) -> Self {
        Self {
            status,
            lines,
            body,
            closes: false,
        }
    }

    pub(super) fn map<C>(self, map: impl FnOnce(B) -> C) -> Answer<C> {
        let Self {
            status,
            lines,
            body,
            closes,
        } = self;
        Answer {
            status,
            lines,
            body: map(body),
            closes,
        }
    }

    /// As HTTP/2 has it.
    pub(super) fn into_response(self) -> Response<B> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.lines.into_map();
        response
    }
}

impl Answer<Bytes> {
    /// A plain answer of ours.
    pub(super) fn sentence(status: StatusCode, words: impl Into<Bytes>) -> Self {
        let mut lines = AnswerLines::default();
        lines.append(&CONTENT_TYPE, |text| {
            text.extend_from_slice(b"text/plain; charset=utf-8")
        });
        Self::new(status, lines, words.into())
    }
}

/// The lines of an answer's head: a server's, and ours after them.
#[derive(Debug, Default)]
pub(super) struct AnswerLines {
    /// What the server sent, and where its lines are.
    sent: Bytes,
    theirs: Vec<Line>,
    /// Ours as they are sent, each with its end.
    ours: Vec<u8>,
}

impl AnswerLines {
    /// About as much as we add to an answer.
    const OURS: usize = 320;

    /// The lines of a server of HTTP/1.
    pub(super) fn of_text(sent: Bytes, theirs: Vec<Line>) -> Self {
        Self {
            sent,
            theirs,
            ours: Vec::with_capacity(Self::OURS),
        }
    }

    /// The lines of a server of HTTP/2.
    pub(super) fn of_map(map: &HeaderMap) -> Self {
        let (mut text, mut theirs) = (
            Vec::with_capacity(map.len() * 32),
            Vec::with_capacity(map.len()),
        );
        for (name, value) in map {
            let start = text.len();
            text.extend_from_slice(name.as_str().as_bytes());
            let middle = text.len();
            text.extend_from_slice(value.as_bytes());
            theirs.push(Line {
                name: Span::new(start, middle),
                value: Span::new(middle, text.len()),
            });
        }
        Self::of_text(text.into(), theirs)
    }

    /// The names and values that a server sent.
    pub(super) fn theirs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.theirs.iter().map(|line| {
            (
                &self.sent[line.name.range()],
                &self.sent[line.value.range()],
            )
        })
    }

    /// Whether a server sent a line with this name.
    pub(super) fn has(&self, name: &str) -> bool {
        let is_it =
            |line: &Line| self.sent[line.name.range()].eq_ignore_ascii_case(name.as_bytes());
        self.theirs
            .iter()
            .any(|line| line.name.length() == name.len() && is_it(line))
    }

    /// Keeps those of a server's lines whose name this is true of.
    pub(super) fn retain(&mut self, keep: impl Fn(&[u8]) -> bool) {
        let sent = &self.sent;
        self.theirs.retain(|line| keep(&sent[line.name.range()]));
    }

    /// Our line with this name, as a part of all of ours.
    fn our_line(&self, name: &HeaderName) -> Option<std::ops::Range<usize>> {
        let mut start = 0;
        for line in self.ours.split_inclusive(|byte| *byte == b'\n') {
            if split(line).is_some_and(|(own, _)| own == name.as_str().as_bytes()) {
                return Some(start..start + line.len());
            }
            start += line.len();
        }
        None
    }

    /// Whether one of our lines has this name.
    pub(super) fn is_ours(&self, name: &HeaderName) -> bool {
        self.our_line(name).is_some()
    }

    /// A line of ours in the place of another one of ours.
    pub(super) fn replace_ours(&mut self, name: &HeaderName, value: &str) {
        if let Some(line) = self.our_line(name) {
            self.ours.drain(line);
        }
        self.append(name, |text| text.extend_from_slice(value.as_bytes()));
    }

    /// Writes all lines as HTTP/1 has them.
    pub(super) fn write(&self, text: &mut Vec<u8>) {
        text.reserve(self.sent.len() + self.ours.len());
        for (name, value) in self.theirs() {
            text.extend_from_slice(name);
            text.extend_from_slice(b": ");
            text.extend_from_slice(value);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(&self.ours);
    }

    fn into_map(self) -> HeaderMap {
        let ours = self.ours.split(|byte| *byte == b'\n').filter_map(split);
        let mut map = HeaderMap::with_capacity(self.theirs.len() + 8);
        for line in &self.theirs {
            let name = HeaderName::from_bytes(&self.sent[line.name.range()]);
            let value = HeaderValue::from_maybe_shared(self.sent.slice(line.value.range()));
            if let (Ok(name), Ok(value)) = (name, value) {
                map.append(name, value);
            }
        }
        for (name, value) in ours {
            if let (Ok(name), Ok(value)) =
                (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
            {
                map.append(name, value);
            }
        }
        map
    }
}

/// Name and value of a line of ours.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    Some((&line[..colon], line[colon + 1..].trim_ascii()))
}

impl ResponseFields for AnswerLines {
    /// Of a server: ours have one line of each name.
    fn value(&self, name: &HeaderName) -> Option<&[u8]> {
        if !self.has(name.as_str()) {
            return None;
        }
        let is_it = |line: &(&[u8], &[u8])| line.0.eq_ignore_ascii_case(name.as_str().as_bytes());
        self.theirs().find(is_it).map(|(_, value)| value)
    }

    fn remove(&mut self, name: &HeaderName) {
        if self.has(name.as_str()) {
            let name = name.as_str().as_bytes();
            self.retain(|other| !other.eq_ignore_ascii_case(name));
        }
    }

    fn append(&mut self, name: &HeaderName, value: impl FnOnce(&mut Vec<u8>)) {
        if self.ours.capacity() == 0 {
            self.ours.reserve(Self::OURS);
        }
        Text(&mut self.ours).line(name.as_str(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &'static str) -> AnswerLines {
        let line = |line: &'static str| {
            let (name, value) = line.split_once(": ").unwrap();
            Line {
                name: Span::of(text.as_bytes(), name.as_bytes()),
                value: Span::of(text.as_bytes(), value.as_bytes()),
            }
        };
        AnswerLines::of_text(
            Bytes::from_static(text.as_bytes()),
            text.lines().map(line).collect(),
        )
    }

    fn written(lines: &AnswerLines) -> String {
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
        assert_eq!(written(&AnswerLines::of_map(&map)).len(), text.len());
    }

    #[test]
    fn a_line_of_ours_can_take_the_place_of_another() {
        let mut lines = AnswerLines::default();
        lines.append(&HeaderName::from_static("a"), |text| text.push(b'1'));
        lines.append(&CONTENT_TYPE, |text| text.extend_from_slice(b"text/plain"));
        lines.append(&HeaderName::from_static("b"), |text| text.push(b'2'));
        lines.replace_ours(&CONTENT_TYPE, "application/grpc");
        assert_eq!(
            written(&lines),
            "a: 1\r\nb: 2\r\ncontent-type: application/grpc\r\n"
        );
        assert!(lines.is_ours(&CONTENT_TYPE) && !lines.is_ours(&HeaderName::from_static("c")));
    }
}
