//! A message of HTTP/1 that is being sent: a response to a client, or a request to a server.
//!
//! Head and body leave in one write when both are there, because each write is a system call.
//! Nothing is sent that does not fit the framing that the head announced.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use crate::turn::Turns;

/// The unsent part of a message. Its memory is used again for the next one.
pub(crate) struct Outgoing<B> {
    /// The head, or the line before a chunk.
    text: Vec<u8>,
    /// Bytes of `text` that are sent.
    sent: usize,
    /// The current part of the body, sent after `text`.
    data: Bytes,
    /// The end of a chunk, sent after `data`.
    tail: &'static [u8],
    /// The rest of the body; `None` when it has come to its end.
    body: Option<B>,
    framing: OutgoingFraming,
    /// Names that may follow as trailers; others are dropped.
    trailers: Vec<HeaderName>,
    /// Some bytes have not left the buffers of the connection.
    is_unflushed: bool,
    /// The message was abandoned and will never be complete.
    is_broken: bool,
    turns: Turns,
}

/// The most parts of a body that are sent in one turn. With more, a client with
/// hundreds of uploads or downloads keeps everybody else waiting.
const PARTS_IN_A_ROW: usize = 16;

/// Way in which the receiver is told the end of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutgoingFraming {
    /// By `Content-Length`; this many bytes have not been sent yet.
    Length(u64),
    /// By chunks.
    #[default]
    Chunked,
    /// By the end of the connection.
    WithConnection,
}

/// Reason for which a message was not sent to its end.
#[derive(Debug)]
pub(crate) enum SendError<E> {
    /// The receiver takes no more.
    Closed,
    /// The body failed before its end.
    Body(E),
    /// The body is not as long as announced: the next message would seem to begin elsewhere.
    Length,
}

impl<B> Default for Outgoing<B> {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            sent: 0,
            data: Bytes::new(),
            tail: &[],
            body: None,
            framing: OutgoingFraming::default(),
            trailers: Vec::new(),
            is_unflushed: false,
            is_broken: false,
            turns: Turns::default(),
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Outgoing<B> {
    /// Starts a message. `head` writes its head without the empty line at the end; a body is sent
    /// as `framing` says.
    pub(crate) fn begin(
        &mut self,
        head: impl FnOnce(&mut Vec<u8>),
        body: Option<B>,
        framing: OutgoingFraming,
    ) {
        self.text.clear();
        self.sent = 0;
        (self.is_unflushed, self.is_broken) = (true, false);
        head(&mut self.text);
        self.text.extend_from_slice(b"\r\n");
        self.trailers.clear();
        (self.body, self.framing) = (body, framing);
    }

    /// Allows trailers with these names after the body.
    pub(crate) fn announce(&mut self, trailers: impl Iterator<Item = HeaderName>) {
        self.trailers.extend(trailers);
    }

    /// Returns true when the receiver takes the end of the connection for the end of the message.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.framing == OutgoingFraming::WithConnection
    }

    /// Returns true when the whole message has left.
    pub(crate) fn is_sent(&self) -> bool {
        !self.is_unflushed && self.body.is_none() && !self.is_broken
    }

    /// Sends as much as the receiver takes, or [`PARTS_IN_A_ROW`] of the body; ready when
    /// everything has left or an error ends it.
    pub(crate) fn poll_send(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError<B::Error>>> {
        if self.is_broken {
            return Poll::Ready(Err(SendError::Closed));
        }
        while !self.turns.is_over(PARTS_IN_A_ROW) {
            self.turns.count();
            let sent = self.poll_send_part(io, cx);
            if !matches!(sent, Poll::Ready(Ok(()))) || self.body.is_none() && !self.is_unflushed {
                self.turns.rest();
                return sent;
            }
        }
        self.turns.wait();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Sends what waits to be sent, or else the next part of the body.
    fn poll_send_part(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError<B::Error>>> {
        let filled = self.poll_fill(cx);
        if let Poll::Ready(Err(broken)) = filled {
            // The parts before the error are sent as far as they go at once.
            let _ = self.poll_flush(io, cx);
            self.give_up();
            return Poll::Ready(Err(broken));
        }
        if self.is_unflushed && ready!(self.poll_flush(io, cx)).is_err() {
            self.give_up();
            return Poll::Ready(Err(SendError::Closed));
        }
        filled
    }

    /// Abandons the message, and with it the source of its body.
    fn give_up(&mut self) {
        self.is_broken = true;
        self.body = None;
    }

    /// Polls the body for its next part, unless one is waiting to be sent.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SendError<B::Error>>> {
        while self.data.is_empty() && self.tail.is_empty() {
            let Some(body) = &mut self.body else { break };
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => self.take(frame)?,
                Some(Err(error)) => return Poll::Ready(Err(SendError::Body(error))),
                None => self.end(None)?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Writes text, data and tail, in this order, then flushes the connection.
    fn poll_flush(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut io = Pin::new(io);
        loop {
            let text = &self.text[self.sent..];
            if text.len() + self.data.len() + self.tail.len() == 0 {
                break;
            }
            let mut wrote = if self.data.is_empty() && self.tail.is_empty() {
                ready!(io.as_mut().poll_write(cx, text))?
            } else {
                let parts = [
                    IoSlice::new(text),
                    IoSlice::new(&self.data),
                    IoSlice::new(self.tail),
                ];
                ready!(io.as_mut().poll_write_vectored(cx, &parts))?
            };
            if wrote == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            let of_text = wrote.min(text.len());
            self.sent += of_text;
            wrote -= of_text;
            let of_data = wrote.min(self.data.len());
            self.data.advance(of_data);
            wrote -= of_data;
            self.tail = &self.tail[wrote.min(self.tail.len())..];
        }
        // Even an empty slice would hold on to the buffer that it was read into.
        self.data = Bytes::new();
        ready!(io.poll_flush(cx))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Frames one part of the body.
    fn take(&mut self, frame: Frame<Bytes>) -> Result<(), SendError<B::Error>> {
        let data = match frame.into_data() {
            Ok(data) if data.is_empty() => return Ok(()),
            Ok(data) => data,
            Err(frame) => return self.end(frame.into_trailers().ok()),
        };
        self.clear_sent_text();
        match &mut self.framing {
            OutgoingFraming::Length(left) => {
                *left = left
                    .checked_sub(data.len() as u64)
                    .ok_or(SendError::Length)?;
                if *left == 0 {
                    self.body = None;
                }
            }
            OutgoingFraming::Chunked => {
                push_chunk_size(&mut self.text, data.len());
                let is_last = self.body.as_ref().is_some_and(Body::is_end_stream);
                self.tail = if is_last { b"\r\n0\r\n\r\n" } else { b"\r\n" };
                self.body.take_if(|_| is_last);
            }
            OutgoingFraming::WithConnection => {}
        }
        self.data = data;
        self.is_unflushed = true;
        Ok(())
    }

    /// Ends the body: the last chunk and the announced trailers, or the check of the length.
    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), SendError<B::Error>> {
        self.body = None;
        match self.framing {
            OutgoingFraming::Length(0) | OutgoingFraming::WithConnection => Ok(()),
            OutgoingFraming::Length(_) => Err(SendError::Length),
            OutgoingFraming::Chunked => {
                self.clear_sent_text();
                self.text.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.iter().flatten() {
                    if self.trailers.contains(name) {
                        HeaderText(&mut self.text).header(name, value);
                    }
                }
                self.text.extend_from_slice(b"\r\n");
                self.is_unflushed = true;
                Ok(())
            }
        }
    }

    /// Clears the text if all of it was sent.
    fn clear_sent_text(&mut self) {
        if self.sent == self.text.len() {
            self.text.clear();
            self.sent = 0;
        }
    }
}

/// Header lines as HTTP/1 writes them, appended to a buffer.
pub struct HeaderText<'a>(pub(crate) &'a mut Vec<u8>);

impl<'a> HeaderText<'a> {
    /// Lines that are appended to `text`.
    pub fn behind(text: &'a mut Vec<u8>) -> Self {
        Self(text)
    }
}

impl HeaderText<'_> {
    /// Bytes so far.
    pub fn length(&self) -> usize {
        self.0.len()
    }

    /// Appends text that was written as lines before.
    pub fn written(&mut self, text: &[u8]) {
        self.0.extend_from_slice(text);
    }

    /// Appends a line whose value `value` writes in place.
    pub fn line(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        value(self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    /// Appends a header.
    pub fn header(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.line(name.as_str(), |text| {
            text.extend_from_slice(value.as_bytes())
        });
    }

    /// Appends a header whose value is the concatenation of `parts`.
    pub fn header_of_parts(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        self.line(name.as_str(), |text| {
            parts.iter().for_each(|part| text.extend_from_slice(part))
        });
    }
}

/// Appends the line before a chunk: its length in hexadecimal digits.
fn push_chunk_size(text: &mut Vec<u8>, length: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    text.extend(
        (0..digits)
            .rev()
            .map(|place| DIGITS[length >> (place * 4) & 15]),
    );
    text.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::Waker;

    use super::*;

    /// A body whose parts come one at a time; `None` is a part that has not come yet.
    struct Parts(VecDeque<Option<Frame<Bytes>>>);

    impl Body for Parts {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop_front() {
                Some(None) => Poll::Pending,
                Some(Some(frame)) => Poll::Ready(Some(Ok(frame))),
                None => Poll::Ready(None),
            }
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }
    }

    fn data(text: &'static str) -> Option<Frame<Bytes>> {
        Some(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    /// The bytes that are sent after a head, and true if the message was sent to its end.
    fn sent(
        ends: OutgoingFraming,
        parts: impl IntoIterator<Item = Option<Frame<Bytes>>>,
    ) -> (String, bool) {
        let (mut outgoing, mut io) = (Outgoing::default(), Vec::new());
        let body = Parts(parts.into_iter().collect());
        outgoing.begin(|text| text.extend_from_slice(b"HEAD\r\n"), Some(body), ends);
        outgoing.announce([HeaderName::from_static("x-sum")].into_iter());
        let mut context = Context::from_waker(Waker::noop());
        let done = loop {
            match outgoing.poll_send(&mut io, &mut context) {
                Poll::Pending => assert!(
                    io.starts_with(b"HEAD\r\n\r\n"),
                    "the head does not wait for its body"
                ),
                Poll::Ready(done) => break done,
            }
        };
        assert_eq!(done.is_ok(), outgoing.is_sent());
        (
            String::from_utf8(io).unwrap().replace("HEAD\r\n\r\n", ""),
            done.is_ok(),
        )
    }

    #[test]
    fn a_body_is_framed_as_its_head_says() {
        assert_eq!(
            sent(OutgoingFraming::Length(5), [data("he"), None, data("llo")]),
            ("hello".to_owned(), true)
        );
        assert_eq!(
            sent(
                OutgoingFraming::WithConnection,
                [data("he"), data(""), data("llo")]
            ),
            ("hello".to_owned(), true)
        );
        let chunked = "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n".to_owned();
        assert_eq!(
            sent(OutgoingFraming::Chunked, [data("he"), data("llo")]),
            (chunked.clone(), true)
        );
        assert_eq!(
            sent(
                OutgoingFraming::Chunked,
                [None, data("he"), None, data(""), data("llo"), None]
            ),
            (chunked, true)
        );
        assert_eq!(
            sent(OutgoingFraming::Chunked, [None]),
            ("0\r\n\r\n".to_owned(), true)
        );
        assert_eq!(
            sent(OutgoingFraming::Length(0), [None]),
            (String::new(), true)
        );
    }

    #[test]
    fn a_large_body_lets_others_go_on() {
        const PARTS: usize = 10 * PARTS_IN_A_ROW;
        let (mut outgoing, mut io) = (Outgoing::default(), Vec::new());
        let body = Parts((0..PARTS).map(|_| data("part")).collect());
        let framing = OutgoingFraming::Length(4 * PARTS as u64);
        outgoing.begin(|_| {}, Some(body), framing);
        let mut context = Context::from_waker(Waker::noop());
        let mut turns = 1;
        while outgoing.poll_send(&mut io, &mut context).is_pending() {
            assert!(io.len() < 5 * PARTS_IN_A_ROW * turns, "{} bytes", io.len());
            turns += 1;
        }
        assert_eq!((turns, io.len()), (10, 2 + 4 * PARTS));
    }

    #[test]
    fn a_length_that_was_promised_is_kept_or_the_message_is_broken_off() {
        assert_eq!(
            sent(OutgoingFraming::Length(4), [data("hello")]),
            (String::new(), false)
        );
        assert_eq!(
            sent(OutgoingFraming::Length(6), [data("hello")]),
            ("hello".to_owned(), false)
        );
    }

    #[test]
    fn only_trailers_that_were_announced_follow() {
        let trailers = ["x-sum", "x-other"]
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1")));
        let parts = [
            data("x"),
            Some(Frame::trailers(HeaderMap::from_iter(trailers))),
        ];
        assert_eq!(
            sent(OutgoingFraming::Chunked, parts),
            ("1\r\nx\r\n0\r\nx-sum: 1\r\n\r\n".to_owned(), true)
        );
    }
}
