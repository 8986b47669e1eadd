//! Compression of header fields (RFC 7541).
//!
//! [`Decoder`] reads the blocks of a client; [`Encoder`] writes the blocks of responses. A field
//! that a client sends again and again lies in the dynamic table in the form in which a request
//! needs it, so that it is parsed and copied once for the connection and not once for each request.

mod decoder;
mod dynamic_table;
mod encoder;
mod field;
mod huffman;
mod integer;
mod recent_literals;
mod static_table;

pub(crate) use decoder::Decoder;
pub(crate) use encoder::{Encoder, push_field, push_lower_field, push_status};
pub(crate) use field::{Field, FieldName, FieldValue};

/// A block that cannot be decoded. The tables of both sides differ from here on, so the connection
/// has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HpackError;
