//! The head of a client's request (RFC 9112, sections 2 to 6): bytes to [`RequestParts`].

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, EXPECT, HeaderName, HeaderValue, TE};
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode, Uri, Version};
use sluicegate_config::Bounds;
use smallvec::SmallVec;

use crate::head_bytes::HeadBytes;
use crate::hop_by_hop::has_option;
use crate::request_parts::{LinesMeaning, RememberedLines, RequestParts};
use crate::validate::{self, BodyEnd, InvalidRequest};
use crate::wire::{ByteRange, ChunkDecoder, Framing, HeaderLine};

/// What a head says besides its [`Parts`].
#[derive(Debug)]
pub(crate) struct RequestHead {
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
    /// The request goes into `parts`, which may remember the header lines of the last one.
    /// `keeps_bytes` is asked when the head is complete: true puts its [`HeadBytes`] into their
    /// extensions.
    pub(crate) fn take(
        &mut self,
        input: &mut BytesMut,
        bounds: &Bounds,
        keeps_bytes: impl Fn() -> bool,
        parts: &mut RequestParts,
    ) -> Result<Option<RequestHead>, HeadError> {
        let is_too_long = input.len() > bytes_max(bounds);
        let is_worth_it = self.parsed == 0 || is_too_long || input[self.parsed..].contains(&b'\n');
        if input.is_empty() || !is_worth_it {
            return Ok(None);
        }
        let head = match take_repeated(input, &keeps_bytes, parts)? {
            None => take(input, bounds, keeps_bytes, parts)?,
            repeated => repeated,
        };
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

/// Takes a head whose header lines are those of the last request; `None` if they are others, or not
/// here yet.
fn take_repeated(
    input: &mut BytesMut,
    keeps_bytes: impl Fn() -> bool,
    parts: &mut RequestParts,
) -> Result<Option<RequestHead>, HeadError> {
    let Some(lines) = parts.remembered() else {
        return Ok(None);
    };
    let Some(first) = first_line(input) else {
        return Ok(None);
    };
    if !input[first..].starts_with(&lines.text) {
        return Ok(None);
    }
    let line = RequestLine::read(&input[..first], &mut [], &mut SmallVec::new());
    let (version, meaning) = (lines.version, lines.meaning);
    let line = match line {
        Ok(Parsed::FirstLine(line)) if line.version == version => line,
        _ => return Ok(None),
    };
    let bytes = input.split_to(first + lines.text.len()).freeze();
    let target = uri(bytes.slice(line.target.range()), &line.method)?;
    parts.repeat(line.method, target, version);
    keep_bytes(bytes, keeps_bytes, parts);
    Ok(Some(RequestHead::new(parts, meaning)))
}

/// The length of the first line with its end.
fn first_line(input: &[u8]) -> Option<usize> {
    Some(input.iter().position(|byte| *byte == b'\n')? + 1)
}

/// Takes a head whose header lines are new.
fn take(
    input: &mut BytesMut,
    bounds: &Bounds,
    keeps_bytes: impl Fn() -> bool,
    parts: &mut RequestParts,
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
    let Parsed::Head(line, length) = text? else {
        return Ok(None);
    };
    let bytes = input.split_to(length).freeze();
    let version = line.version;
    // The map outlives this request with the lines, so it must not hold the buffer of the connection.
    let lines = rememberable(&bytes).map(|first| (Bytes::copy_from_slice(&bytes[first..]), first));
    let source = lines
        .as_ref()
        .map_or((&bytes, 0), |(text, first)| (text, *first));
    let headers = &mut parts.edit().headers;
    headers.clear();
    let options = read_headers(source, &places, headers)?;
    let target = uri(bytes.slice(line.target.range()), &line.method)?;
    parts.begin(line.method, target, version);
    let meaning = options.meaning(parts);
    if let Some((text, _)) = lines {
        parts.remember(RememberedLines::new(text, version, meaning));
    }
    keep_bytes(bytes, keeps_bytes, parts);
    Ok(Some(RequestHead::new(parts, meaning)))
}

/// The length of the first line, if the lines behind it are few enough to be remembered.
fn rememberable(head: &[u8]) -> Option<usize> {
    /// A connection that waits holds so many bytes at most.
    const BYTES_MAX: usize = 2 * 1024;
    // Empty lines may come before the first one.
    let first = first_line(head).filter(|_| !matches!(head[0], b'\r' | b'\n'))?;
    (head.len() - first <= BYTES_MAX).then_some(first)
}

/// Puts the bytes of a head beside it, if somebody wants them.
fn keep_bytes(head: Bytes, keeps_bytes: impl Fn() -> bool, parts: &mut RequestParts) {
    if keeps_bytes() {
        parts.extensions_mut().insert(HeadBytes(head));
    }
}

/// Positions of the lines of a head.
type LinePositions = SmallVec<[HeaderLine; 16]>;

/// The bytes that have come, as far as they are understood.
enum Parsed {
    /// The first line is not here.
    Incomplete,
    /// The first line is here, and the header lines are not.
    FirstLine(RequestLine),
    /// The whole head, with its length.
    Head(RequestLine, usize),
}

/// The first line of a head.
struct RequestLine {
    method: Method,
    target: ByteRange,
    version: Version,
}

impl RequestLine {
    /// Parses a head. The positions of its header lines go to `places`.
    fn read<'b>(
        input: &'b [u8],
        room: &mut [MaybeUninit<httparse::Header<'b>>],
        places: &mut LinePositions,
    ) -> Result<Parsed, HeadError> {
        let mut parsed = httparse::Request::new(&mut []);
        let config = httparse::ParserConfig::default();
        let length = match config.parse_request_with_uninit_headers(&mut parsed, input, room) {
            Ok(httparse::Status::Complete(length)) => Some(length),
            Ok(httparse::Status::Partial) => None,
            Err(error) => return Err(unreadable(error)),
        };
        let (Some(method), Some(target), Some(minor)) =
            (parsed.method, parsed.path, parsed.version)
        else {
            return Ok(Parsed::Incomplete);
        };
        let line = Self {
            method: Method::from_bytes(method.as_bytes()).map_err(|_| bad("the method is none"))?,
            target: ByteRange::of(input, target.as_bytes()),
            version: match minor {
                1 => Version::HTTP_11,
                _ => Version::HTTP_10,
            },
        };
        let Some(length) = length else {
            return Ok(Parsed::FirstLine(line));
        };
        let lines = parsed.headers.iter();
        places.extend(lines.map(|line| HeaderLine::of(input, line)));
        Ok(Parsed::Head(line, length))
    }
}

/// The words of the header lines that are about the connection.
#[derive(Default)]
struct ConnectionOptions {
    closes: bool,
    keeps: bool,
    takes_trailers: bool,
    expects: bool,
}

/// Makes a map of the header lines. `source` is their text, and the number of bytes of the head before
/// it; the values share its memory.
fn read_headers(
    (text, before): (&Bytes, usize),
    lines: &[HeaderLine],
    headers: &mut HeaderMap,
) -> Result<ConnectionOptions, HeadError> {
    let mut options = ConnectionOptions::default();
    headers.reserve(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(&text[line.name.range_behind(before)]);
        let name = name.map_err(|_| bad("the name of a header is none"))?;
        let value = HeaderValue::from_maybe_shared(text.slice(line.value.range_behind(before)));
        let value = value.map_err(|_| bad("the value of a header is none"))?;
        match name {
            CONNECTION => {
                options.closes |= has_option(&value, "close");
                options.keeps |= has_option(&value, "keep-alive");
            }
            TE => options.takes_trailers |= has_option(&value, "trailers"),
            EXPECT => options.expects = true,
            _ => {}
        }
        headers.append(name, value);
    }
    Ok(options)
}

impl ConnectionOptions {
    fn meaning(&self, parts: &Parts) -> LinesMeaning {
        let is_http11 = parts.version == Version::HTTP_11;
        LinesMeaning {
            end: validate::body_end(parts),
            keep_alive: !self.closes && (is_http11 || self.keeps),
            takes_trailers: self.takes_trailers,
            expects: self.expects && is_http11,
        }
    }
}

impl RequestHead {
    fn new(parts: &Parts, meaning: LinesMeaning) -> Self {
        let framing = match meaning.end {
            Ok(BodyEnd::Length(length)) => Framing::Length(length),
            Ok(BodyEnd::Chunked) => Framing::Chunked(ChunkDecoder::new()),
            // Refused before a byte of the body is read, and the connection ends.
            Ok(BodyEnd::None) | Err(_) => Framing::EMPTY,
        };
        let reply = ReplyOptions {
            is_head_method: parts.method == Method::HEAD,
            is_http11: parts.version == Version::HTTP_11,
            keep_alive: meaning.keep_alive,
            takes_trailers: meaning.takes_trailers,
            expects_continue: meaning.expects && !framing.is_over(),
        };
        Self {
            end: meaning.end,
            framing,
            reply,
        }
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
