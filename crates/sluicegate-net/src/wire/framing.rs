//! The end of a body that is being received (RFC 9112, section 6).

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::SizeHint;

use super::chunks::ChunkDecoder;

/// Way in which the end of a body is known, and how far it has been read.
#[derive(Debug)]
pub(crate) enum Framing {
    /// This many bytes have not come yet.
    Length(u64),
    /// The body comes in chunks.
    Chunked(ChunkDecoder),
    /// The body ends with the connection; only responses do.
    UntilClose,
}

/// Result of decoding the bytes that have come.
#[derive(Debug, PartialEq)]
pub(crate) enum Decoded {
    /// A part of the body.
    Data(Bytes),
    /// The header lines after the last chunk; nothing follows them.
    Trailers(HeaderMap),
    /// The body is complete.
    End,
    /// More bytes have to come first.
    Incomplete,
}

impl Framing {
    /// No body at all.
    pub(crate) const EMPTY: Self = Self::Length(0);

    /// Takes the next part of the body from `input`, without copying it.
    pub(crate) fn decode(&mut self, input: &mut BytesMut) -> Result<Decoded, &'static str> {
        Ok(match self {
            Self::Length(0) => Decoded::End,
            Self::Length(_) | Self::UntilClose if input.is_empty() => Decoded::Incomplete,
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
            Self::UntilClose => Decoded::Data(input.split().freeze()),
        })
    }

    /// Returns true when the whole body was taken.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => chunks.is_over(),
            Self::UntilClose => false,
        }
    }

    /// Returns true when only the end of the connection ends the body.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self, Self::UntilClose)
    }

    /// Bytes that have not come yet, if that is known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Length(left) => SizeHint::with_exact(*left),
            Self::Chunked(_) | Self::UntilClose => SizeHint::default(),
        }
    }

    /// Bytes of buffer for the next read: a large body is read in large parts.
    pub(crate) fn room(&self) -> usize {
        const SMALL: u64 = 8 * 1024;
        const LARGE: u64 = 128 * 1024;
        match self {
            Self::Length(left) => (*left).clamp(SMALL, LARGE) as usize,
            Self::Chunked(chunks) => chunks.left().clamp(SMALL, LARGE) as usize,
            Self::UntilClose => LARGE as usize,
        }
    }
}
