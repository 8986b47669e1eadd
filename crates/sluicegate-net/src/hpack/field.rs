//! A decoded field, parsed into what a request needs of it.

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, HeaderValue, Method};

/// A field of a request's head or trailers.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: FieldName,
    /// Bytes of the name, which the parsed form may have forgotten.
    pub(super) name_length: usize,
    pub(crate) value: FieldValue,
    /// Size by which tables and lists are measured: name, value and 32 bytes (RFC 7541, section
    /// 4.1).
    pub(crate) size: usize,
}

/// The name of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldName {
    /// `:method`.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:authority`.
    Authority,
    /// `:path`.
    Path,
    /// `:protocol` (RFC 8441).
    Protocol,
    /// Any other name that begins with a colon: none that a client may send.
    OtherPseudo,
    /// The name of a header, in lower case.
    Header(HeaderName),
    /// No name of a field.
    Malformed,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue {
    Method(Method),
    Scheme(Scheme),
    Authority(Authority),
    Path(PathAndQuery),
    Protocol(HeaderValue),
    Header(HeaderValue),
    /// No value that a field of this name can have.
    Malformed,
}

impl Field {
    /// Bytes that are added to name and value when the size of a field is measured.
    pub(crate) const OVERHEAD: usize = 32;

    /// Parses the value of a field whose name has `name_length` bytes.
    pub(super) fn new(name: FieldName, name_length: usize, value: &[u8]) -> Self {
        Self {
            size: name_length + value.len() + Self::OVERHEAD,
            value: FieldValue::parse(&name, value),
            name,
            name_length,
        }
    }
}

impl FieldName {
    /// Reads a name; one with capitals is malformed (RFC 9113, section 8.2).
    pub(super) fn parse(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":protocol" => Self::Protocol,
            [b':', ..] => Self::OtherPseudo,
            _ => HeaderName::from_lowercase(name).map_or(Self::Malformed, Self::Header),
        }
    }
}

impl FieldValue {
    fn parse(name: &FieldName, value: &[u8]) -> Self {
        let shared = || Bytes::copy_from_slice(value);
        let parsed = match name {
            FieldName::Method => Method::from_bytes(value).ok().map(Self::Method),
            FieldName::Scheme => Scheme::try_from(value).ok().map(Self::Scheme),
            FieldName::Authority => Authority::from_maybe_shared(shared())
                .ok()
                .map(Self::Authority),
            FieldName::Path if value.is_empty() => None,
            FieldName::Path => PathAndQuery::from_maybe_shared(shared())
                .ok()
                .map(Self::Path),
            FieldName::Protocol => HeaderValue::from_bytes(value).ok().map(Self::Protocol),
            FieldName::Header(_) => HeaderValue::from_bytes(value).ok().map(Self::Header),
            FieldName::OtherPseudo | FieldName::Malformed => None,
        };
        parsed.unwrap_or(Self::Malformed)
    }
}
