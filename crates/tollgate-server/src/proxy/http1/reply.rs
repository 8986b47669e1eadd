//! Answers as a client of HTTP/1 gets them.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, TRANSFER_ENCODING};
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::Full;

use super::date;
use crate::proxy::body::AnswerBody;
use crate::proxy::rewrite::{self, Lines};
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
    response: Response<AnswerBody>,
    asked: Asked,
    may_go_on: bool,
) -> bool {
    let (head, body) = response.into_parts();
    let manner = Manner::of(head.status, &head.headers, &body, asked, may_go_on);
    let body = (manner.ends != Ends::Length(0)).then_some(body);
    outgoing.begin(|text| manner.write(text, head.status, &head.headers), body, manner.ends);
    if manner.ends == Ends::Chunked && asked.takes_trailers {
        outgoing.announce(rewrite::trailers(&head.headers));
    }
    manner.stays_open
}

/// Answers what is no request; it is the last answer of its connection.
pub(super) fn refuse(outgoing: &mut Outgoing<Full<Bytes>>, status: StatusCode, words: &'static str) {
    let length = words.len() as u64;
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain; charset=utf-8"));
    let manner = Manner {
        ends: Ends::Length(length),
        length: Length::Ours(length),
        is_http11: true,
        stays_open: false,
        is_switch: false,
    };
    let body = Full::new(Bytes::from_static(words.as_bytes()));
    outgoing.begin(|text| manner.write(text, status, &headers), Some(body), manner.ends);
}

/// How an answer is sent.
struct Manner {
    ends: Ends,
    length: Length,
    is_http11: bool,
    stays_open: bool,
    is_switch: bool,
}

/// What is said about the length of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    Ours(u64),
    /// What the server said: of a body that is not sent.
    Theirs,
    Nothing,
}

impl Manner {
    fn of(status: StatusCode, headers: &HeaderMap, body: &AnswerBody, asked: Asked, may_go_on: bool) -> Self {
        let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
        let said = headers.get(CONTENT_LENGTH).and_then(|line| line.to_str().ok()?.parse().ok());
        let known = said.or_else(|| body.size_hint().exact());
        let (ends, length) = if status.is_informational() || status == StatusCode::NO_CONTENT {
            (Ends::Length(0), Length::Nothing)
        } else if asked.is_head || status == StatusCode::NOT_MODIFIED {
            let ours = known.filter(|length| said.is_none() && *length > 0);
            (Ends::Length(0), ours.map_or(Length::Theirs, Length::Ours))
        } else if let Some(length) = known {
            (Ends::Length(length), Length::Ours(length))
        } else if asked.is_http11 {
            (Ends::Chunked, Length::Nothing)
        } else {
            (Ends::WithConnection, Length::Nothing)
        };
        let closes = headers.get(CONNECTION).is_some_and(|line| rewrite::has_option(line, "close"));
        let stays_open = asked.keeps && may_go_on && !closes && !is_switch && ends != Ends::WithConnection;
        Self { ends, length, is_http11: asked.is_http11, stays_open, is_switch }
    }

    fn write(&self, text: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
        text.extend_from_slice(if self.is_http11 { b"HTTP/1.1 " } else { b"HTTP/1.0 " });
        text.extend_from_slice(status.as_str().as_bytes());
        text.push(b' ');
        text.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
        text.extend_from_slice(b"\r\n");
        let mut has_date = false;
        for (name, value) in headers {
            match *name {
                CONTENT_LENGTH if self.length != Length::Theirs => continue,
                CONNECTION if !self.is_switch => continue,
                TRANSFER_ENCODING => continue,
                DATE => has_date = true,
                _ => {}
            }
            Text(text).sent(name, value);
        }
        if let Length::Ours(length) = self.length {
            text.extend_from_slice(b"content-length: ");
            text.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
            text.extend_from_slice(b"\r\n");
        }
        if self.ends == Ends::Chunked {
            text.extend_from_slice(b"transfer-encoding: chunked\r\n");
        }
        if !self.stays_open && !self.is_switch {
            text.extend_from_slice(b"connection: close\r\n");
        } else if !self.is_http11 {
            text.extend_from_slice(b"connection: keep-alive\r\n");
        }
        if !has_date {
            text.extend_from_slice(b"date: ");
            text.extend_from_slice(&date::now());
            text.extend_from_slice(b"\r\n");
        }
    }
}
