//! The HTTP/2 server (RFC 9113): all requests of a connection are read, answered and sent in the
//! connection's task.
//!
//! One future serves a connection, like that of HTTP/1. It reads frames (`receiving.rs`), puts
//! requests together (`requests.rs`, `request_fields.rs`), polls the handlers of its streams itself
//! and sends their responses by turns (`sending.rs`). There is no task and no channel for a stream:
//! a stream's waker leaves a mark (`ready_set.rs`), so that a connection that is woken polls
//! those of its streams that have something to do. Everything that a turn of the loop
//! (`driver.rs`) has to say leaves in one write (`send_buffer.rs`).
//!
//! What a client can make us keep is bounded: streams (`streams.rs`), header bytes, bytes of
//! request bodies (`flow.rs`), unsent bytes. What it can make us do is bounded by `frame_credit.rs`,
//! and how long it may leave a response unread by the clock of each stream (`stream.rs`). A handler that
//! wants the whole body of its request is called when that is here (`gathering.rs`).

mod buffer_bounds;
mod driver;
mod flow;
mod frame;
mod frame_credit;
mod gathering;
mod held_answers;
mod priority;
mod ready_set;
mod receiving;
mod request_fields;
mod requests;
mod send_buffer;
mod sending;
mod sign_of_life;
mod spare_headers;
mod stream;
mod streams;

pub(crate) use buffer_bounds::BufferBounds;
pub(crate) use driver::{Driver, DriverSettings};
pub(crate) use request_fields::ExtendedConnectUse;
pub(crate) use stream::AnsweredRequest;

#[cfg(test)]
mod tests;
