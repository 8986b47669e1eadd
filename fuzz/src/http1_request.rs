//! HTTP/1 requests: heads and bodies, one after the other on a connection.
//!
//! However the bytes arrive, they are the same requests; a connection that remembers the header lines
//! of the last request finds the same as one that does not; and a request that is written out again as
//! it was understood is understood in the same way.

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, Method, StatusCode, Version, header};
use sluicegate_config::Bounds;
use sluicegate_net::fuzz_internals::{BodyDecoder, BodyPart, HeadParser, ParsedHead};
use sluicegate_net::{BodyEnd, validate};

use crate::input::{InputBytes, fits_one_line};

pub(crate) const BOUNDS: Bounds = Bounds {
    header_bytes: 8 * 1024,
    headers: 32,
    target_bytes: 4 * 1024,
    body_bytes: Some(1 << 20),
};

/// The first byte is the length of the pieces in which the rest arrives.
pub fn run(data: &[u8]) {
    let mut input = InputBytes::new(data);
    let piece = input.piece_length();
    let bytes = input.rest();
    // Longer heads are refused, whole or in pieces, at slightly different lengths.
    if bytes.len() > BOUNDS.header_bytes {
        return;
    }
    let whole = ReadRequests::read(bytes, bytes.len());
    let pieces = ReadRequests::read_with(HeadParser::new(true), bytes, piece);
    assert_eq!(whole.requests.len(), pieces.requests.len());
    for (one, other) in whole.requests.iter().zip(&pieces.requests) {
        assert!(one.is_same(other), "{one:?} in pieces is {other:?}");
    }
    // An incomplete head in pieces is looked at again with its next line end only.
    if pieces.stop != RequestStop::Incomplete {
        assert_eq!(whole.stop, pieces.stop);
    }
    whole.requests.iter().for_each(ReadRequest::check);
}

/// The requests of a connection, up to the first that is incomplete or refused.
pub(crate) struct ReadRequests {
    pub(crate) requests: Vec<ReadRequest>,
    stop: RequestStop,
}

/// A request and its body, if that is complete.
#[derive(Debug)]
pub(crate) struct ReadRequest {
    pub(crate) head: ParsedHead,
    pub(crate) body: Vec<u8>,
    trailers: Option<HeaderMap>,
    pub(crate) is_complete: bool,
}

/// The reason why there is no further request.
#[derive(Debug, PartialEq)]
enum RequestStop {
    Incomplete,
    Refused(StatusCode),
    /// The body of the last request is malformed, or its end in doubt.
    BodyLost,
    /// The client has asked for the end of the connection.
    Closed,
}

impl ReadRequests {
    /// Reads each request as if it were the first.
    pub(crate) fn read(bytes: &[u8], piece: usize) -> Self {
        Self::read_with(HeadParser::new(false), bytes, piece)
    }

    fn read_with(mut heads: HeadParser, bytes: &[u8], piece: usize) -> Self {
        let mut input = BytesMut::new();
        let mut requests: Vec<ReadRequest> = Vec::new();
        let mut body: Option<BodyDecoder> = None;
        for piece in bytes.chunks(piece.max(1)) {
            input.put_slice(piece);
            loop {
                if let (Some(decoder), Some(request)) = (&mut body, requests.last_mut()) {
                    match request.read_body(decoder, &mut input) {
                        Ok(true) => body = None,
                        Ok(false) => break,
                        Err(_) => return Self::stopped(requests, RequestStop::BodyLost),
                    }
                    if !request.head.keep_alive {
                        return Self::stopped(requests, RequestStop::Closed);
                    }
                }
                match heads.take(&mut input, &BOUNDS) {
                    Ok(None) => break,
                    Ok(Some(head)) => {
                        let end = head.end;
                        requests.push(ReadRequest::new(head));
                        let Ok(end) = end else {
                            return Self::stopped(requests, RequestStop::BodyLost);
                        };
                        body = Some(BodyDecoder::new(end));
                    }
                    Err(status) => {
                        let refused = RequestStop::Refused(status);
                        return Self::stopped(requests, refused);
                    }
                }
            }
        }
        Self::stopped(requests, RequestStop::Incomplete)
    }

    fn stopped(requests: Vec<ReadRequest>, stop: RequestStop) -> Self {
        Self { requests, stop }
    }
}

impl ReadRequest {
    fn new(head: ParsedHead) -> Self {
        Self {
            head,
            body: Vec::new(),
            trailers: None,
            is_complete: false,
        }
    }

    /// Returns true when the body is complete.
    fn read_body(
        &mut self,
        decoder: &mut BodyDecoder,
        input: &mut BytesMut,
    ) -> Result<bool, &'static str> {
        loop {
            match decoder.decode(input)? {
                BodyPart::Data(data) => self.body.extend_from_slice(&data),
                BodyPart::Trailers(lines) => self.trailers = Some(lines),
                BodyPart::End => {
                    assert!(decoder.is_over());
                    self.is_complete = true;
                    return Ok(true);
                }
                BodyPart::Incomplete => return Ok(false),
            }
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        same_head(&self.head, &other.head)
            && self.head.valid == other.head.valid
            && self.body == other.body
            && self.trailers == other.trailers
            && self.is_complete == other.is_complete
    }

    fn check(&self) {
        let ParsedHead { parts, end, .. } = &self.head;
        for value in parts.headers.values() {
            assert!(fits_one_line(value.as_bytes()), "{value:?}");
        }
        check_end(&self.head);
        let text = head_text(&self.head);
        let mut input = BytesMut::from(&text[..]);
        let again = HeadParser::new(false).take(&mut input, &BOUNDS);
        match again {
            Ok(Some(again)) => {
                assert!(same_head(&self.head, &again), "{:?} {again:?}", self.head);
                assert!(input.is_empty());
            }
            // Written with the names of headers and blanks that we choose, it may be longer.
            _ => assert!(text.len() > BOUNDS.target_bytes, "{again:?}"),
        }
        if let Ok(end) = end {
            check_valid(&self.head, *end);
        }
    }
}

/// A body has one end.
fn check_end(head: &ParsedHead) {
    let headers = &head.parts.headers;
    let lengths = headers.get_all(header::CONTENT_LENGTH).iter().count();
    let codings = headers.get_all(header::TRANSFER_ENCODING).iter().count();
    match head.end {
        Ok(BodyEnd::None) => assert!(codings == 0 && lengths <= 1),
        Ok(BodyEnd::Length(length)) => {
            assert!(length > 0 && codings == 0 && lengths == 1);
            assert_eq!(headers[header::CONTENT_LENGTH], length.to_string());
        }
        Ok(BodyEnd::Chunked) => {
            assert!(lengths == 0 && codings == 1 && head.parts.version == Version::HTTP_11);
        }
        Err(_) => assert!(lengths + codings > 0, "{head:?}"),
    }
}

/// A request that is passed on has one target and one host.
fn check_valid(head: &ParsedHead, end: BodyEnd) {
    let parts = &head.parts;
    if validate(parts, end, &BOUNDS, false).is_err() {
        return;
    }
    let hosts = parts.headers.get_all(header::HOST).iter().count();
    let hosts_min = usize::from(parts.version == Version::HTTP_11);
    assert!((hosts_min..=1).contains(&hosts));
    let path = parts.uri.path();
    let is_options = parts.method == Method::OPTIONS;
    assert!(path.starts_with('/') || path == "*" && is_options);
    let target = parts.uri.to_string();
    assert!(target.is_ascii() && !target.contains(['#', ' ']));
    let authority = parts
        .uri
        .authority()
        .map_or("", |authority| authority.as_str());
    assert!(!authority.contains(['@', '/', '\\']), "{authority}");
    assert!(parts.method != Method::CONNECT && parts.method != Method::TRACE);
}

fn same_head(one: &ParsedHead, other: &ParsedHead) -> bool {
    let (parts, others) = (&one.parts, &other.parts);
    parts.method == others.method
        && parts.uri == others.uri
        && parts.version == others.version
        && parts.headers == others.headers
        && one.end == other.end
        && one.keep_alive == other.keep_alive
}

/// A head as it was understood.
fn head_text(head: &ParsedHead) -> Vec<u8> {
    let parts = &head.parts;
    let (method, version) = (&parts.method, parts.version);
    let uri = &parts.uri;
    let first = format!("{method} {uri} {version:?}\r\n");
    let mut text = first.into_bytes();
    for (name, value) in &parts.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}
