//! The parsers of this crate as plain functions, for the targets in `fuzz/`.
//!
//! Outside of a test they are reached through a socket only. Nothing here has a behaviour of its
//! own: a target that finds something has found it in the parser.

use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use sluicegate_config::Bounds;

use crate::client_wire::{HeadError, RequestHeadReader};
use crate::hpack::{Decoder, Field, FieldName, FieldValue, push_field};
use crate::http1_client::take_response_head;
use crate::request_parts::RequestParts;
use crate::validate::{BodyEnd, InvalidRequest};
use crate::wire::{ChunkDecoder, Decoded, Framing};

pub use crate::proxy_protocol::{ProxyHeader, parse as parse_proxy_header};

/// Takes the heads of requests from bytes, as a client's connection does.
pub struct HeadParser {
    reader: RequestHeadReader,
    parts: RequestParts,
    remembers: bool,
}

/// The head of a request.
#[derive(Debug)]
pub struct ParsedHead {
    /// Method, target, version and headers.
    pub parts: Parts,
    /// End of the body, or the reason why it is in doubt.
    pub end: Result<BodyEnd, InvalidRequest>,
    /// The client wants the connection to stay open.
    pub keep_alive: bool,
    /// What the check of the whole head says.
    pub valid: Result<(), InvalidRequest>,
}

impl HeadParser {
    /// A parser for one connection. It `remembers` the header lines of the last request, as
    /// connections do, or takes every request for the first.
    pub fn new(remembers: bool) -> Self {
        Self {
            reader: RequestHeadReader::default(),
            parts: RequestParts::none(),
            remembers,
        }
    }

    /// Takes a head if it is complete; an error is the status that the client gets.
    pub fn take(
        &mut self,
        input: &mut BytesMut,
        bounds: &Bounds,
    ) -> Result<Option<ParsedHead>, StatusCode> {
        if !self.remembers {
            self.parts = RequestParts::none();
        }
        let parts = &mut self.parts;
        match self.reader.take(input, bounds, || false, parts) {
            Ok(None) => Ok(None),
            Ok(Some(head)) => {
                let valid = head.end.and_then(|end| parts.validate(end, bounds, false));
                let parsed = ParsedHead {
                    parts: (**parts).clone(),
                    end: head.end,
                    keep_alive: head.reply.keep_alive,
                    valid,
                };
                parts.end();
                Ok(Some(parsed))
            }
            Err(HeadError::Malformed(status, _)) => Err(status),
            Err(HeadError::Closed) => unreachable!("only a stream can be closed"),
        }
    }
}

/// The head of a server's response.
#[derive(Debug)]
pub struct ParsedResponse {
    /// The status.
    pub status: StatusCode,
    /// Names and values of the lines that are passed on.
    pub lines: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body behind the head.
    pub body: BodyDecoder,
    /// The body ends with the connection.
    pub ends_with_connection: bool,
    /// The server takes another request after this.
    pub stays_open: bool,
}

/// Takes the head of a response if it is complete; `is_head` is true for a response to HEAD.
pub fn take_response(
    input: &mut BytesMut,
    is_head: bool,
) -> Result<Option<ParsedResponse>, &'static str> {
    let head = take_response_head(input, is_head)?;
    Ok(head.map(|head| ParsedResponse {
        status: head.status,
        lines: head
            .lines
            .server_lines()
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect(),
        ends_with_connection: head.framing.ends_with_connection(),
        body: BodyDecoder(head.framing),
        stays_open: head.stays_open,
    }))
}

/// Takes a body from bytes.
#[derive(Debug)]
pub struct BodyDecoder(Framing);

/// A step of a [`BodyDecoder`].
#[derive(Debug, PartialEq)]
pub enum BodyPart {
    /// A part of the body.
    Data(Bytes),
    /// The lines after the last chunk.
    Trailers(HeaderMap),
    /// The body is complete.
    End,
    /// More bytes have to come first.
    Incomplete,
}

impl BodyDecoder {
    /// A body with this end.
    pub fn new(end: BodyEnd) -> Self {
        Self(match end {
            BodyEnd::None => Framing::EMPTY,
            BodyEnd::Length(length) => Framing::Length(length),
            BodyEnd::Chunked => Framing::Chunked(ChunkDecoder::new()),
        })
    }

    /// Takes the next part; an error says what is malformed.
    pub fn decode(&mut self, input: &mut BytesMut) -> Result<BodyPart, &'static str> {
        Ok(match self.0.decode(input)? {
            Decoded::Data(data) => BodyPart::Data(data),
            Decoded::Trailers(lines) => BodyPart::Trailers(lines),
            Decoded::End => BodyPart::End,
            Decoded::Incomplete => BodyPart::Incomplete,
        })
    }

    /// Returns true when the whole body was taken.
    pub fn is_over(&self) -> bool {
        self.0.is_over()
    }
}

/// Decodes the header blocks of one connection of HTTP/2.
pub struct BlockDecoder(Decoder);

/// A field whose name and value are those of a field of HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedField {
    /// The name, with the colon of a pseudo header.
    pub name: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// Size by which tables and lists are measured.
    pub size: usize,
}

impl BlockDecoder {
    /// A connection of which nothing has come.
    #[expect(
        clippy::new_without_default,
        reason = "a connection begins, it has no default"
    )]
    pub fn new() -> Self {
        Self(Decoder::new())
    }

    /// The fields of a block, `None` for those that are no fields of HTTP; without any, the block
    /// ends the connection.
    pub fn decode(&mut self, block: &[u8]) -> Option<Vec<Option<DecodedField>>> {
        let mut fields = Vec::new();
        let decoded = self.0.decode(block, |field| {
            fields.push(decoded_field(field));
            ControlFlow::Continue(())
        });
        decoded.is_ok().then_some(fields)
    }
}

/// Appends a field to a block.
pub fn encode_field(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    push_field(block, name, value);
}

fn decoded_field(field: &Field) -> Option<DecodedField> {
    let name = match &field.name {
        FieldName::Method => ":method",
        FieldName::Scheme => ":scheme",
        FieldName::Authority => ":authority",
        FieldName::Path => ":path",
        FieldName::Protocol => ":protocol",
        FieldName::Header(name) => name.as_str(),
        FieldName::OtherPseudo | FieldName::Malformed => return None,
    };
    let value = match &field.value {
        FieldValue::Method(method) => method.as_str().as_bytes(),
        FieldValue::Scheme(scheme) => scheme.as_str().as_bytes(),
        FieldValue::Authority(authority) => authority.as_str().as_bytes(),
        FieldValue::Path(path) => path.as_str().as_bytes(),
        FieldValue::Protocol(value) | FieldValue::Header(value) => value.as_bytes(),
        FieldValue::Malformed => return None,
    };
    Some(DecodedField {
        name: name.as_bytes().to_vec(),
        value: value.to_vec(),
        size: field.size,
    })
}
