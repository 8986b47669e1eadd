//! One stream: a request that is received, answered and sent.

use std::pin::Pin;
use std::task::Waker;

use bytes::Bytes;
use http::HeaderMap;

use super::flow::{ReceiveWindow, SendWindow};
use super::gathering::Gathering;
use super::priority::Urgency;
use crate::response::HttpResponse;
use crate::stream_body::StreamBodySender;

/// What is left of a request when its handler has answered.
pub(crate) struct AnsweredRequest<B> {
    pub(crate) response: HttpResponse<B>,
    /// The request's headers, whose memory the next request uses.
    pub(crate) headers: HeaderMap,
}

/// The memory of a handler, which is large and is used again by other streams.
pub(super) type HandlerMemory<F> = Pin<Box<Option<F>>>;

/// A stream. Its waker is used again by the next stream in its place.
pub(super) struct Stream<F, B> {
    pub(super) id: u32,
    /// Marks this stream as ready.
    pub(super) waker: Waker,
    /// The handler, until it has answered.
    pub(super) handler: Option<HandlerMemory<F>>,
    /// The request, while its handler waits for the whole body.
    pub(super) gathering: Option<Gathering>,
    /// The request's body, if it has one; also after its end, while somebody reads it.
    pub(super) receiving: Option<Receiving>,
    /// The response's body, from the end of the handler to the end of the stream.
    pub(super) sending: Option<Sending<B>>,
    pub(super) window: SendWindow,
    pub(super) urgency: Urgency,
    /// The method is HEAD.
    pub(super) is_head: bool,
}

/// A request's body.
pub(super) struct Receiving {
    /// `None` if the body is gathered, or is of no use any more.
    pub(super) body: Option<StreamBodySender>,
    pub(super) window: ReceiveWindow,
    /// Bytes that must still come, if their number was announced.
    pub(super) left: Option<u64>,
    /// The client has ended its side.
    pub(super) is_over: bool,
}

impl Receiving {
    /// Bytes that the client has no new window for.
    pub(super) fn unreturned(&self) -> usize {
        self.body.as_ref().map_or(0, StreamBodySender::unreturned)
    }
}

/// A response's body.
pub(super) struct Sending<B> {
    /// The source; `None` when it has come to its end.
    pub(super) body: Option<B>,
    /// The part that is sent next.
    pub(super) data: Bytes,
    pub(super) trailers: Option<HeaderMap>,
    /// Bytes that must still be sent, if their number was announced.
    pub(super) left: Option<u64>,
    pub(super) clock: StallClock,
}

/// How long the client has not taken what waits for it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StallClock {
    /// Ticks in a row at which the client was waited for.
    ticks: u32,
    /// Bytes that were sent.
    pub(super) sent: u64,
    /// Bytes that were sent when the wait began.
    sent_before: u64,
}

impl StallClock {
    /// Looks at the stream once a tick. Returns true when the client has taken less than
    /// `bytes_min` within `ticks_max` ticks in which it was waited for.
    pub(super) fn tick(&mut self, is_waiting: bool, ticks_max: u32, bytes_min: u64) -> bool {
        if !is_waiting {
            (self.ticks, self.sent_before) = (0, self.sent);
            return false;
        }
        self.ticks += 1;
        if self.ticks <= ticks_max {
            return false;
        }
        let went = self.sent - self.sent_before;
        (self.ticks, self.sent_before) = (0, self.sent);
        went < bytes_min
    }
}

impl<F, B> Stream<F, B> {
    /// Returns true while the client may send more of the request.
    pub(super) fn is_receiving(&self) -> bool {
        self.receiving
            .as_ref()
            .is_some_and(|receiving| !receiving.is_over)
    }

    /// Drops everything that belongs to this request.
    pub(super) fn clear(&mut self) {
        self.id = 0;
        self.handler = None;
        self.gathering = None;
        (self.receiving, self.sending) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_given_up_that_takes_too_little_for_too_long() {
        let mut clock = StallClock::default();
        let ticks = |clock: &mut StallClock, each: u64| {
            (1..50).find(|_| {
                clock.sent += each;
                clock.tick(true, 4, 100)
            })
        };
        assert_eq!(ticks(&mut clock, 0), Some(5));
        assert_eq!(ticks(&mut clock, 19), Some(5));
        assert_eq!(ticks(&mut clock, 20), None);
        let mut clock = StallClock::default();
        let now_and_then = (0..50).find(|tick| clock.tick(tick % 4 != 0, 4, 100));
        assert_eq!(now_and_then, None, "who takes everything has time again");
    }
}
