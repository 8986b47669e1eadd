//! A message on its way, as bytes of HTTP/1.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use crate::proxy::rewrite::Lines;

/// What is still to be sent. Its memory is used again for the next message.
pub(crate) struct Outgoing<B> {
    /// The head, or the line before a chunk, and how much of it has gone.
    text: Vec<u8>,
    gone: usize,
    data: Bytes,
    /// The end of a chunk.
    tail: &'static [u8],
    body: Option<B>,
    ends: Ends,
    /// The names that may follow as trailers.
    trailers: Vec<HeaderName>,
    /// Not all of the last part has left the buffers of the connection.
    is_unflushed: bool,
    /// It will not come to its end.
    was_refused: bool,
}

/// How whoever reads knows where the body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ends {
    /// So many bytes are to come.
    Length(u64),
    #[default]
    Chunked,
    /// It ends with the connection.
    WithConnection,
}

/// Why a message was not sent to its end.
#[derive(Debug)]
pub(crate) enum Unsent<E> {
    /// The other side takes no more.
    Refused,
    /// Its body broke off.
    Body(E),
    /// Its body is not as long as was said: the next message would begin somewhere else.
    Length,
}

impl<B> Default for Outgoing<B> {
    fn default() -> Self {
        Self {
            text: Vec::new(),
            gone: 0,
            data: Bytes::new(),
            tail: &[],
            body: None,
            ends: Ends::default(),
            trailers: Vec::new(),
            is_unflushed: false,
            was_refused: false,
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Outgoing<B> {
    /// Begins with a message: `head` writes all of its head but for the empty line.
    pub(crate) fn begin(&mut self, head: impl FnOnce(&mut Vec<u8>), body: Option<B>, ends: Ends) {
        self.text.clear();
        self.gone = 0;
        (self.is_unflushed, self.was_refused) = (true, false);
        head(&mut self.text);
        self.text.extend_from_slice(b"\r\n");
        self.trailers.clear();
        (self.body, self.ends) = (body, ends);
    }

    /// The names that may follow the body.
    pub(crate) fn announce(&mut self, trailers: impl Iterator<Item = HeaderName>) {
        self.trailers.extend(trailers);
    }

    /// Whether all of it has gone.
    pub(crate) fn is_sent(&self) -> bool {
        !self.is_unflushed && self.body.is_none() && !self.was_refused
    }

    /// Sends as much as goes: head and body in one piece if both are there.
    pub(crate) fn poll_send(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unsent<B::Error>>> {
        if self.was_refused {
            return Poll::Ready(Err(Unsent::Refused));
        }
        loop {
            let filled = self.poll_fill(cx);
            if let Poll::Ready(Err(broken)) = filled {
                // What came before it goes, as far as it goes at once.
                let _ = self.poll_flush(io, cx);
                self.give_up();
                return Poll::Ready(Err(broken));
            }
            if self.is_unflushed && ready!(self.poll_flush(io, cx)).is_err() {
                self.give_up();
                return Poll::Ready(Err(Unsent::Refused));
            }
            ready!(filled)?;
            if self.body.is_none() && !self.is_unflushed {
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn give_up(&mut self) {
        self.was_refused = true;
        self.body = None;
    }

    /// Takes the next part of the body, unless there is one already.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Unsent<B::Error>>> {
        while self.data.is_empty() && self.tail.is_empty() {
            let Some(body) = &mut self.body else { break };
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => self.take(frame)?,
                Some(Err(error)) => return Poll::Ready(Err(Unsent::Body(error))),
                None => self.end(None)?,
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_flush(
        &mut self,
        io: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut io = Pin::new(io);
        loop {
            let text = &self.text[self.gone..];
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
            self.gone += of_text;
            wrote -= of_text;
            let of_data = wrote.min(self.data.len());
            self.data.advance(of_data);
            wrote -= of_data;
            self.tail = &self.tail[wrote.min(self.tail.len())..];
        }
        // Even without a byte it would hold on to the memory that it was read into.
        self.data = Bytes::new();
        ready!(io.poll_flush(cx))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn take(&mut self, frame: Frame<Bytes>) -> Result<(), Unsent<B::Error>> {
        let data = match frame.into_data() {
            Ok(data) if data.is_empty() => return Ok(()),
            Ok(data) => data,
            Err(frame) => return self.end(frame.into_trailers().ok()),
        };
        self.forget_text();
        match &mut self.ends {
            Ends::Length(left) => {
                *left = left.checked_sub(data.len() as u64).ok_or(Unsent::Length)?;
                if *left == 0 {
                    self.body = None;
                }
            }
            Ends::Chunked => {
                push_hex(&mut self.text, data.len());
                let is_last = self.body.as_ref().is_some_and(Body::is_end_stream);
                self.tail = if is_last { b"\r\n0\r\n\r\n" } else { b"\r\n" };
                self.body.take_if(|_| is_last);
            }
            Ends::WithConnection => {}
        }
        self.data = data;
        self.is_unflushed = true;
        Ok(())
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), Unsent<B::Error>> {
        self.body = None;
        match self.ends {
            Ends::Length(0) | Ends::WithConnection => Ok(()),
            Ends::Length(_) => Err(Unsent::Length),
            Ends::Chunked => {
                self.forget_text();
                self.text.extend_from_slice(b"0\r\n");
                for (name, value) in trailers.iter().flatten() {
                    if self.trailers.contains(name) {
                        Text(&mut self.text).sent(name, value);
                    }
                }
                self.text.extend_from_slice(b"\r\n");
                self.is_unflushed = true;
                Ok(())
            }
        }
    }

    /// Makes room for more text, after what has not gone yet.
    fn forget_text(&mut self) {
        if self.gone == self.text.len() {
            self.text.clear();
            self.gone = 0;
        }
    }
}

/// Lines of HTTP/1.
pub(crate) struct Text<'a>(pub(crate) &'a mut Vec<u8>);

impl Text<'_> {
    /// A line whose value is written in place.
    pub(crate) fn line(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        value(self.0);
        self.0.extend_from_slice(b"\r\n");
    }
}

impl Lines for Text<'_> {
    fn sent(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.line(name.as_str(), |text| {
            text.extend_from_slice(value.as_bytes())
        });
    }

    fn ours(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        self.line(name.as_str(), |text| {
            parts.iter().for_each(|part| text.extend_from_slice(part))
        });
    }
}

/// The line before a chunk.
fn push_hex(text: &mut Vec<u8>, length: usize) {
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

    /// What goes after a head, and whether it came to its end.
    fn sent(ends: Ends, parts: impl IntoIterator<Item = Option<Frame<Bytes>>>) -> (String, bool) {
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
            sent(Ends::Length(5), [data("he"), None, data("llo")]),
            ("hello".to_owned(), true)
        );
        assert_eq!(
            sent(Ends::WithConnection, [data("he"), data(""), data("llo")]),
            ("hello".to_owned(), true)
        );
        let chunked = "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n".to_owned();
        assert_eq!(
            sent(Ends::Chunked, [data("he"), data("llo")]),
            (chunked.clone(), true)
        );
        assert_eq!(
            sent(
                Ends::Chunked,
                [None, data("he"), None, data(""), data("llo"), None]
            ),
            (chunked, true)
        );
        assert_eq!(sent(Ends::Chunked, [None]), ("0\r\n\r\n".to_owned(), true));
        assert_eq!(sent(Ends::Length(0), [None]), (String::new(), true));
    }

    #[test]
    fn a_length_that_was_promised_is_kept_or_the_message_is_broken_off() {
        assert_eq!(
            sent(Ends::Length(4), [data("hello")]),
            (String::new(), false)
        );
        assert_eq!(
            sent(Ends::Length(6), [data("hello")]),
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
            sent(Ends::Chunked, parts),
            ("1\r\nx\r\n0\r\nx-sum: 1\r\n\r\n".to_owned(), true)
        );
    }
}
