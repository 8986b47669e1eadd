//! Where the body of an answer ends.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::SizeHint;

use super::chunks::Chunks;

/// How the end of a body is known.
#[derive(Debug)]
pub(crate) enum Framing {
    /// So many bytes are to come.
    Length(u64),
    Chunked(Chunks),
    /// It ends with the connection.
    UntilEnd,
}

/// What was made of the bytes that have come.
#[derive(Debug, PartialEq)]
pub(crate) enum Decoded {
    Data(Bytes),
    Trailers(HeaderMap),
    End,
    /// More has to come first.
    Incomplete,
}

impl Framing {
    pub(crate) const EMPTY: Self = Self::Length(0);

    /// Takes what can be taken.
    pub(crate) fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, &'static str> {
        Ok(match self {
            Self::Length(0) => Decoded::End,
            Self::Length(_) | Self::UntilEnd if input.is_empty() => Decoded::Incomplete,
            Self::Length(left) => {
                let data = input.split_to(
                    usize::try_from(*left)
                        .unwrap_or(usize::MAX)
                        .min(input.len()),
                );
                *left -= data.len() as u64;
                Decoded::Data(data.freeze())
            }
            Self::Chunked(chunks) => return chunks.decode(input),
            Self::UntilEnd => Decoded::Data(input.split().freeze()),
        })
    }

    /// Whether nothing more comes.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => chunks.is_over(),
            Self::UntilEnd => false,
        }
    }

    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self, Self::UntilEnd)
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Length(left) => SizeHint::with_exact(*left),
            Self::Chunked(_) | Self::UntilEnd => SizeHint::default(),
        }
    }

    /// Room for the next reading: a large body is read in large parts.
    pub(crate) fn room(&self) -> usize {
        const SMALL: u64 = 8 * 1024;
        const LARGE: u64 = 128 * 1024;
        match self {
            Self::Length(left) => (*left).clamp(SMALL, LARGE) as usize,
            Self::Chunked(chunks) => chunks.left().clamp(SMALL, LARGE) as usize,
            Self::UntilEnd => LARGE as usize,
        }
    }
}
