//! The head of a client's request (RFC 9112, sections 2 to 6): bytes to [`Parts`].

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, EXPECT, HeaderName, HeaderValue, TE};
use http::request::Parts;
use http::{Method, Request, StatusCode, Uri, Version};
use sluicegate_config::Bounds;
use smallvec::SmallVec;

use crate::head_bytes::HeadBytes;
use crate::hop_by_hop::has_option;
use crate::validate::{self, BodyEnd, InvalidRequest};
use crate::wire::{ByteRange, ChunkDecoder, Framing, HeaderLine};

/// A request without its body.
#[derive(Debug)]
pub(crate) struct RequestHead {
    pub(crate) parts: Parts,
    /// End of the body, or the reason why it is in doubt.
    pub(crate) end: Result<BodyEnd, InvalidRequest>,
    /// The same for reading; empty if the end is in doubt.
    pub(crate) framing: Framing,
    pub(crate) reply: ReplyOptions,
}

/// Properties of a request that its response depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplyOptions {
    /// The method is HEAD: the response has no body.
    pub(crate) is_head_method: bool,
    /// The client speaks HTTP/1.1, and so understands chunks.
    pub(crate) is_http11: bool,
    /// The client wants the connection to stay open.
    pub(crate) keep_alive: bool,
    /// The client takes trailers.
    pub(crate) takes_trailers: bool,
    /// The client sends the body only after `100 Continue`.
    pub(crate) expects_continue: bool,
}

/// Reason why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadError {
    /// The client closed the connection.
    Closed,
    /// The bytes are not a request; to be answered with this status and text.
    Malformed(StatusCode, &'static str),
}

/// The bytes are not a request, for this reason.
const fn bad(words: &'static str) -> HeadError {
    HeadError::Malformed(StatusCode::BAD_REQUEST, words)
}

/// Takes heads from the bytes that have come.
#[derive(Debug, Default)]
pub(crate) struct RequestHeadReader {
    /// Bytes at the beginning that were parsed and are not a whole head.
    parsed: usize,
}

impl RequestHeadReader {
    /// Takes a head if it is complete. An incomplete one is parsed again only when another line
    /// end has come: a client that sends single bytes must not cost a parse for each.
    ///
    /// `keeps_bytes` is asked when the head is complete: true puts its [`HeadBytes`] into the
    /// extensions of the parts.
    pub(crate) fn take(
        &mut self,
        input: &mut BytesMut,
        bounds: &Bounds,
        keeps_bytes: impl Fn() -> bool,
    ) -> Result<Option<RequestHead>, HeadError> {
        let is_too_long = input.len() > bytes_max(bounds);
        let is_worth_it = self.parsed == 0 || is_too_long || input[self.parsed..].contains(&b'\n');
        if input.is_empty() || !is_worth_it {
            return Ok(None);
        }
        let head = take(input, bounds, keeps_bytes)?;
        self.parsed = if head.is_some() { 0 } else { input.len() };
        match head {
            None if is_too_long && input.contains(&b'\n') => Err(HeadError::Malformed(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the head is too large",
            )),
            None if is_too_long => Err(HeadError::Malformed(
                StatusCode::URI_TOO_LONG,
                "the target is too long",
            )),
            head => Ok(head),
        }
    }
}

/// Most bytes of an incomplete head. A complete one is measured by [`validate::validate`].
fn bytes_max(bounds: &Bounds) -> usize {
    const LEAST: usize = 8 * 1024;
    bounds.header_bytes.max(LEAST)
}

fn take(
    input: &mut BytesMut,
    bounds: &Bounds,
    keeps_bytes: impl Fn() -> bool,
) -> Result<Option<RequestHead>, HeadError> {
    /// More lines than almost every configuration allows; these lie on the stack.
    const USUAL: usize = 128;
    // One more than allowed, so that a request with too many lines is refused with its own
    // status and not as malformed.
    let lines = bounds.headers + 1;
    let mut places = SmallVec::new();
    let text = if lines <= USUAL {
        RequestLine::read(
            input,
            &mut [const { MaybeUninit::uninit() }; USUAL][..lines],
            &mut places,
        )
    } else {
        RequestLine::read(input, &mut vec![MaybeUninit::uninit(); lines], &mut places)
    };
    let Some(text) = text? else { return Ok(None) };
    let bytes = input.split_to(text.length).freeze();
    let mut head = text.understood(&bytes, &places)?;
    if keeps_bytes() {
        head.parts.extensions.insert(HeadBytes(bytes));
    }
    Ok(Some(head))
}

/// Positions of the lines of a head.
type LinePositions = SmallVec<[HeaderLine; 16]>;

/// The first line of a head, and the length of the whole head.
struct RequestLine {
    length: usize,
    method: Method,
    target: ByteRange,
    version: Version,
}

impl RequestLine {
    /// Parses a head; `None` if it is incomplete. The positions of its header lines go to
    /// `places`.
    fn read<'b>(
        input: &'b [u8],
        room: &mut [MaybeUninit<httparse::Header<'b>>],
        places: &mut LinePositions,
    ) -> Result<Option<Self>, HeadError> {
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
        places.extend(
            parsed
                .headers
                .iter()
                .map(|line| HeaderLine::of(input, line)),
        );
        Ok(Some(Self {
            length,
            method: Method::from_bytes(method.as_bytes()).map_err(|_| bad("the method is none"))?,
            target: ByteRange::of(input, target.as_bytes()),
            version: if parsed.version == Some(1) {
                Version::HTTP_11
            } else {
                Version::HTTP_10
            },
        }))
    }

    /// Makes a request of the parsed lines. The values share the memory of `bytes`.
    fn understood(self, bytes: &Bytes, lines: &[HeaderLine]) -> Result<RequestHead, HeadError> {
        let Self {
            method,
            target,
            version,
            ..
        } = self;
        let is_http11 = version == Version::HTTP_11;
        let (mut closes, mut keeps) = (false, false);
        let (mut takes_trailers, mut expects_continue) = (false, false);
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers.reserve(lines.len());
        for line in lines {
            let name = HeaderName::from_bytes(&bytes[line.name.range()]);
            let name = name.map_err(|_| bad("the name of a header is none"))?;
            let value = HeaderValue::from_maybe_shared(bytes.slice(line.value.range()));
            let value = value.map_err(|_| bad("the value of a header is none"))?;
            match name {
                CONNECTION => {
                    closes |= has_option(&value, "close");
                    keeps |= has_option(&value, "keep-alive");
                }
                TE => takes_trailers |= has_option(&value, "trailers"),
                EXPECT => expects_continue |= is_http11,
                _ => {}
            }
            parts.headers.append(name, value);
        }
        (parts.uri, parts.method, parts.version) =
            (uri(bytes.slice(target.range()), &method)?, method, version);
        let end = validate::body_end(&parts);
        let framing = match end {
            Ok(BodyEnd::Length(length)) => Framing::Length(length),
            Ok(BodyEnd::Chunked) => Framing::Chunked(ChunkDecoder::new()),
            // Refused before a byte of the body is read, and the connection ends.
            Ok(BodyEnd::None) | Err(_) => Framing::EMPTY,
        };
        let reply = ReplyOptions {
            is_head_method: parts.method == Method::HEAD,
            is_http11,
            keep_alive: !closes && (is_http11 || keeps),
            takes_trailers,
            expects_continue: expects_continue && !framing.is_over(),
        };
        Ok(RequestHead {
            parts,
            end,
            framing,
            reply,
        })
    }
}

/// The target as a URI. The target of CONNECT is an authority; that of any other method is not.
fn uri(target: Bytes, method: &Method) -> Result<Uri, HeadError> {
    /// Longest target that [`Uri`] can hold.
    const LONGEST: usize = u16::MAX as usize - 1;
    if target.len() > LONGEST {
        return Err(HeadError::Malformed(
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

/// The response to a head that cannot be parsed.
fn unreadable(error: httparse::Error) -> HeadError {
    match error {
        httparse::Error::TooManyHeaders => HeadError::Malformed(
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
