//! HTTP/1 as bytes, for clients and servers alike: where a body ends, and how a message is sent.

mod chunks;
mod framing;
mod line;
mod outgoing;

pub(super) use chunks::Chunks;
pub(super) use framing::{Decoded, Framing};
pub(super) use line::{Line, Span};
pub(super) use outgoing::{Ends, Outgoing, Text, Unsent};
