//! The head of a client's request (RFC 9112, sections 2 to 6).

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, EXPECT, HeaderName, HeaderValue, TE};
use http::request::Parts;
use http::{Method, Request, StatusCode, Uri, Version};
use sluicegate_config::Bounds;
use smallvec::SmallVec;

use super::reply::Asked;
use crate::proxy::rewrite;
use crate::proxy::validate::{self, BodyEnd, Refusal};
use crate::proxy::wire::{Chunks, Framing, Line, Span};

/// A request without its body.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) parts: Parts,
    pub(super) end: Result<BodyEnd, Refusal>,
    pub(super) framing: Framing,
    pub(super) asked: Asked,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The client has ended.
    Gone,
    /// What came is no request, and this is answered.
    Head(StatusCode, &'static str),
}

const fn bad(words: &'static str) -> Unreadable {
    Unreadable::Head(StatusCode::BAD_REQUEST, words)
}

/// Takes heads from what has come.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// How much was found to be no whole head.
    looked_at: usize,
}

impl Reader {
    /// A head if it is complete. It is looked at when it has begun, and again with each line: not with each byte.
    pub(super) fn take(
        &mut self,
        input: &mut BytesMut,
        bounds: &Bounds,
    ) -> Result<Option<Head>, Unreadable> {
        let is_too_long = input.len() > most(bounds);
        let is_worth_it =
            self.looked_at == 0 || is_too_long || input[self.looked_at..].contains(&b'\n');
        if input.is_empty() || !is_worth_it {
            return Ok(None);
        }
        let head = take(input, bounds)?;
        self.looked_at = if head.is_some() { 0 } else { input.len() };
        match head {
            None if is_too_long && input.contains(&b'\n') => Err(Unreadable::Head(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the head is too large",
            )),
            None if is_too_long => Err(Unreadable::Head(
                StatusCode::URI_TOO_LONG,
                "the target is too long",
            )),
            head => Ok(head),
        }
    }
}

/// The most bytes of a head that are waited for. What is complete is measured by [`validate::validate`].
fn most(bounds: &Bounds) -> usize {
    const LEAST: usize = 8 * 1024;
    bounds.header_bytes.max(LEAST)
}

fn take(input: &mut BytesMut, bounds: &Bounds) -> Result<Option<Head>, Unreadable> {
    /// More lines than almost every configuration allows.
    const USUAL: usize = 128;
    // One more, to tell a request that has too many from one that has as many as are allowed.
    let lines = bounds.headers + 1;
    let mut places = SmallVec::new();
    let text = if lines <= USUAL {
        Text::read(
            input,
            &mut [const { MaybeUninit::uninit() }; USUAL][..lines],
            &mut places,
        )
    } else {
        Text::read(input, &mut vec![MaybeUninit::uninit(); lines], &mut places)
    };
    let Some(text) = text? else { return Ok(None) };
    let bytes = input.split_to(text.length).freeze();
    text.understood(&bytes, &places).map(Some)
}

/// Where the lines of a head are.
type Places = SmallVec<[Line; 16]>;

/// The first line of a head as text, and the length of all.
struct Text {
    length: usize,
    method: Method,
    target: Span,
    version: Version,
}

impl Text {
    fn read<'b>(
        input: &'b [u8],
        room: &mut [MaybeUninit<httparse::Header<'b>>],
        places: &mut Places,
    ) -> Result<Option<Self>, Unreadable> {
        let mut parsed = httparse::Request::new(&mut []);
        let config = httparse::ParserConfig::default();
        let length = match config.parse_request_with_uninit_headers(&mut parsed, input, room) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let (Some(method), Some(target)) = (parsed.method, parsed.path) else {
            return Ok(None);
        };
        places.extend(parsed.headers.iter().map(|line| Line::of(input, line)));
        Ok(Some(Self {
            length,
            method: Method::from_bytes(method.as_bytes()).map_err(|_| bad("the method is none"))?,
            target: Span::of(input, target.as_bytes()),
            version: if parsed.version == Some(1) {
                Version::HTTP_11
            } else {
                Version::HTTP_10
            },
        }))
    }

    fn understood(self, bytes: &Bytes, lines: &[Line]) -> Result<Head, Unreadable> {
        let Self {
            method,
            target,
            version,
            ..
        } = self;
        let is_http11 = version == Version::HTTP_11;
        let (mut closes, mut keeps, mut takes_trailers, mut waits_for_word) =
            (false, false, false, false);
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers.reserve(lines.len());
        for line in lines {
            let name = HeaderName::from_bytes(&bytes[line.name.range()]);
            let name = name.map_err(|_| bad("the name of a header is none"))?;
            let value = HeaderValue::from_maybe_shared(bytes.slice(line.value.range()));
            let value = value.map_err(|_| bad("the value of a header is none"))?;
            match name {
                CONNECTION => {
                    closes |= rewrite::has_option(&value, "close");
                    keeps |= rewrite::has_option(&value, "keep-alive");
                }
                TE => takes_trailers |= rewrite::has_option(&value, "trailers"),
                EXPECT => waits_for_word |= is_http11,
                _ => {}
            }
            parts.headers.append(name, value);
        }
        (parts.uri, parts.method, parts.version) =
            (uri(bytes.slice(target.range()), &method)?, method, version);
        let end = validate::body_end(&parts);
        let framing = match end {
            Ok(BodyEnd::Length(length)) => Framing::Length(length),
            Ok(BodyEnd::Chunked) => Framing::Chunked(Chunks::new()),
            // Refused before anything is read of it, and the connection ends.
            Ok(BodyEnd::None) | Err(_) => Framing::EMPTY,
        };
        let asked = Asked {
            is_head: parts.method == Method::HEAD,
            is_http11,
            keeps: !closes && (is_http11 || keeps),
            takes_trailers,
            waits_for_word: waits_for_word && !framing.is_over(),
        };
        Ok(Head {
            parts,
            end,
            framing,
            asked,
        })
    }
}

fn uri(target: Bytes, method: &Method) -> Result<Uri, Unreadable> {
    /// The longest that there can be.
    const LONGEST: usize = u16::MAX as usize - 1;
    if target.len() > LONGEST {
        return Err(Unreadable::Head(
            StatusCode::URI_TOO_LONG,
            "the target is too long",
        ));
    }
    let uri = if *method == Method::CONNECT {
        http::uri::Authority::from_maybe_shared(target).map(Uri::from)
    } else {
        Uri::from_maybe_shared(target)
    };
    uri.map_err(|_| bad("the target is none"))
}

fn unreadable(error: httparse::Error) -> Unreadable {
    match error {
        httparse::Error::TooManyHeaders => Unreadable::Head(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "there are too many header lines",
        ),
        httparse::Error::HeaderName => bad("the name of a header is none"),
        httparse::Error::HeaderValue => bad("the value of a header is none"),
        httparse::Error::NewLine => bad("a line ends in the wrong way"),
        httparse::Error::Version => bad("the version is neither HTTP/1.1 nor HTTP/1.0"),
        httparse::Error::Token | httparse::Error::Status => {
            bad("the first line is none of a request")
        }
    }
}

#[cfg(test)]
mod tests;
