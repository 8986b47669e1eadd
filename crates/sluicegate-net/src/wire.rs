//! HTTP/1 as bytes, for clients and servers alike: the end of a body, and the sending of a message.
//!
//! Nothing here knows a connection or a request. [`Framing`] takes bodies out of bytes that have
//! come; [`Outgoing`] makes bytes of a head and a body.

mod chunks;
mod framing;
mod header_line;
mod outgoing;

pub(crate) use chunks::ChunkDecoder;
pub(crate) use framing::{Decoded, Framing};
pub(crate) use header_line::{ByteRange, HeaderLine};
pub use outgoing::HeaderText;
pub(crate) use outgoing::{Outgoing, OutgoingFraming, SendError};
