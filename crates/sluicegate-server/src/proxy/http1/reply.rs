//! Answers as a client of HTTP/1 gets them.

use bytes::Bytes;
use http::StatusCode;
use http_body::Body;
use http_body_util::Full;

use super::date;
use crate::proxy::answer::{Answer, AnswerLines};
use crate::proxy::body::AnswerBody;
use crate::proxy::rewrite;
use crate::proxy::wire::{Ends, Outgoing, Text};

/// What a request says about its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) is_head: bool,
    pub(super) is_http11: bool,
    /// Whether the connection may go on.
    pub(super) keeps: bool,
    pub(super) takes_trailers: bool,
    /// Whether the body comes only after a word of ours.
    pub(super) waits_for_word: bool,
}

/// Begins with an answer. Says whether the connection goes on after it.
pub(super) fn begin(
    outgoing: &mut Outgoing<AnswerBody>,
    answer: Answer<AnswerBody>,
    asked: Asked,
    may_go_on: bool,
) -> bool {
    let Answer {
        status,
        lines,
        body,
        closes,
    } = answer;
    let mut manner = Manner::of(status, &body, asked);
    manner.stays_open &= asked.keeps && may_go_on && !closes;
    let body = (manner.ends != Ends::Length(0)).then_some(body);
    outgoing.begin(|text| manner.write(text, status, &lines), body, manner.ends);
    if manner.ends == Ends::Chunked && asked.takes_trailers {
        let announced = lines
            .theirs()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"trailer"));
        outgoing.announce(rewrite::trailers(announced.map(|(_, names)| names)));
    }
    manner.stays_open
}

/// Answers what is no request; it is the last answer of its connection.
pub(super) fn refuse(
    outgoing: &mut Outgoing<Full<Bytes>>,
    status: StatusCode,
    words: &'static str,
) {
    let Answer { lines, body, .. } = Answer::sentence(status, words);
    let length = body.len() as u64;
    let ends = Ends::Length(length);
    let manner = Manner {
        ends,
        length: Some(length),
        is_http11: true,
        stays_open: false,
        is_switch: false,
    };
    outgoing.begin(
        |text| manner.write(text, status, &lines),
        Some(Full::new(body)),
        ends,
    );
}

/// How an answer is sent.
struct Manner {
    ends: Ends,
    /// What is said about the length of the body, unless a server has said it.
    length: Option<u64>,
    is_http11: bool,
    stays_open: bool,
    is_switch: bool,
}

impl Manner {
    fn of(status: StatusCode, body: &AnswerBody, asked: Asked) -> Self {
        let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
        let known = body.size_hint().exact();
        let (ends, length) = if status.is_informational() || status == StatusCode::NO_CONTENT {
            (Ends::Length(0), None)
        } else if asked.is_head || status == StatusCode::NOT_MODIFIED {
            // Of a body of ours; what a server says about its own is among its lines.
            (Ends::Length(0), known.filter(|length| *length > 0))
        } else if let Some(length) = known {
            (Ends::Length(length), Some(length))
        } else if asked.is_http11 {
            (Ends::Chunked, None)
        } else {
            (Ends::WithConnection, None)
        };
        let stays_open = !is_switch && ends != Ends::WithConnection;
        Self {
            ends,
            length,
            is_http11: asked.is_http11,
            stays_open,
            is_switch,
        }
    }

    fn write(&self, text: &mut Vec<u8>, status: StatusCode, lines: &AnswerLines) {
        text.extend_from_slice(if self.is_http11 {
            b"HTTP/1.1 "
        } else {
            b"HTTP/1.0 "
        });
        text.extend_from_slice(status.as_str().as_bytes());
        text.push(b' ');
        text.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        text.extend_from_slice(b"\r\n");
        lines.write(text);
        let mut text = Text(text);
        if let Some(length) = self.length {
            text.line("content-length", |text| {
                text.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            });
        }
        if self.ends == Ends::Chunked {
            text.line("transfer-encoding", |text| {
                text.extend_from_slice(b"chunked")
            });
        }
        let connection: Option<&[u8]> = match (self.is_switch, self.stays_open, self.is_http11) {
            (true, ..) => Some(b"upgrade"),
            (false, false, _) => Some(b"close"),
            (false, true, false) => Some(b"keep-alive"),
            (false, true, true) => None,
        };
        if let Some(connection) = connection {
            text.line("connection", |text| text.extend_from_slice(connection));
        }
        if !lines.has("date") {
            text.line("date", |text| text.extend_from_slice(&date::now()));
        }
    }
}
