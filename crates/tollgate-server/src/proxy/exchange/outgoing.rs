//! A request on its way to a server, as bytes of HTTP/1.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Uri};
use http_body::{Body, Frame};
use tokio::io::AsyncWrite;

use crate::proxy::body::{BodyError, RequestBody};
use crate::proxy::link::Link;
use crate::proxy::rewrite::{self, Hop, Lines};

/// What is still to be sent. Its memory is used again for the next request.
#[derive(Default)]
pub(super) struct Outgoing {
    /// The head, or the line before a chunk, and how much of it has gone.
    text: Vec<u8>,
    gone: usize,
    data: Bytes,
    /// The end of a chunk.
    tail: &'static [u8],
    body: Option<RequestBody>,
    framing: Framing,
    /// The names that may follow as trailers.
    trailers: Vec<HeaderName>,
    /// Not all of the last part has left the buffers of the connection.
    is_unflushed: bool,
    was_refused: bool,
}

/// How the server knows where the body ends.
#[derive(Clone, Copy, Debug, Default)]
enum Framing {
    /// So many bytes are to come.
    Length(u64),
    #[default]
    Chunked,
}

/// Why a request was not sent to its end.
pub(super) enum Unsent {
    /// The server takes no more.
    Refused,
    /// The client's body ended too early or was too large.
    Body(BodyError),
}

impl Outgoing {
    /// Writes the head, and sends the body after it.
    pub(super) fn begin(&mut self, parts: &Parts, hop: &Hop<'_>, body: RequestBody) {
        self.text.clear();
        self.gone = 0;
        (self.is_unflushed, self.was_refused) = (true, false);
        write_head(&mut self.text, parts, hop);
        self.trailers.clear();
        self.body = (!body.is_end_stream()).then_some(body);
        if self.body.is_some() {
            let length = parts.headers.get(CONTENT_LENGTH).and_then(|line| line.to_str().ok()?.parse().ok());
            self.framing = length.map_or(Framing::Chunked, Framing::Length);
            self.trailers.extend(rewrite::trailers(&parts.headers));
        }
    }

    /// Whether all of it has gone to the server.
    pub(super) fn is_sent(&self) -> bool {
        !self.is_unflushed && self.body.is_none() && !self.was_refused
    }

    /// Sends as much as goes.
    pub(super) fn poll_send(&mut self, link: &mut Link, cx: &mut Context<'_>) -> Poll<Result<(), Unsent>> {
        if self.was_refused {
            return Poll::Ready(Err(Unsent::Refused));
        }
        loop {
            if self.is_unflushed && ready!(self.poll_flush(link, cx)).is_err() {
                self.was_refused = true;
                self.body = None;
                return Poll::Ready(Err(Unsent::Refused));
            }
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
            match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => self.take(frame).map_err(Unsent::Body)?,
                Some(Err(error)) => return Poll::Ready(Err(Unsent::Body(error))),
                None => self.end(None).map_err(Unsent::Body)?,
            }
        }
    }

    fn poll_flush(&mut self, link: &mut Link, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let mut link = Pin::new(link);
        loop {
            let text = &self.text[self.gone..];
            if text.len() + self.data.len() + self.tail.len() == 0 {
                break;
            }
            let mut wrote = if self.data.is_empty() && self.tail.is_empty() {
                ready!(link.as_mut().poll_write(cx, text))?
            } else {
                let parts = [IoSlice::new(text), IoSlice::new(&self.data), IoSlice::new(self.tail)];
                ready!(link.as_mut().poll_write_vectored(cx, &parts))?
            };
            if wrote == 0 {
                return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
            }
            let of_text = wrote.min(text.len());
            self.gone += of_text;
            wrote -= of_text;
            let of_data = wrote.min(self.data.len());
            self.data.advance(of_data);
            wrote -= of_data;
            self.tail = &self.tail[wrote.min(self.tail.len())..];
        }
        ready!(link.poll_flush(cx))?;
        self.is_unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn take(&mut self, frame: Frame<Bytes>) -> Result<(), BodyError> {
        match frame.into_data() {
            Ok(data) if data.is_empty() => Ok(()),
            Ok(data) => {
                self.text.clear();
                self.gone = 0;
                match &mut self.framing {
                    // A length that was promised is kept: the next request would begin somewhere else.
                    Framing::Length(left) => *left = left.checked_sub(data.len() as u64).ok_or(BodyError::Length)?,
                    Framing::Chunked => {
                        push_hex(&mut self.text, data.len());
                        self.tail = b"\r\n";
                    }
                }
                self.data = data;
                self.is_unflushed = true;
                Ok(())
            }
            Err(frame) => self.end(frame.into_trailers().ok()),
        }
    }

    fn end(&mut self, trailers: Option<HeaderMap>) -> Result<(), BodyError> {
        self.body = None;
        match self.framing {
            Framing::Length(0) => Ok(()),
            Framing::Length(_) => Err(BodyError::Length),
            Framing::Chunked => {
                self.text.clear();
                self.gone = 0;
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
}

/// Lines of HTTP/1.
struct Text<'a>(&'a mut Vec<u8>);

impl Lines for Text<'_> {
    fn sent(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.ours(name, &[value.as_bytes()]);
    }

    fn ours(&mut self, name: &HeaderName, parts: &[&[u8]]) {
        self.0.extend_from_slice(name.as_str().as_bytes());
        self.0.extend_from_slice(b": ");
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
        self.0.extend_from_slice(b"\r\n");
    }
}

fn write_head(text: &mut Vec<u8>, parts: &Parts, hop: &Hop<'_>) {
    text.extend_from_slice(parts.method.as_str().as_bytes());
    text.push(b' ');
    text.extend_from_slice(target(&parts.uri).as_bytes());
    text.extend_from_slice(b" HTTP/1.1\r\n");
    rewrite::write_lines(parts, hop, &mut Text(text));
    text.extend_from_slice(b"\r\n");
}

/// The target as a path, as servers expect it.
fn target(uri: &Uri) -> &str {
    uri.path_and_query().map_or("/", |path| path.as_str())
}

/// The line before a chunk.
fn push_hex(text: &mut Vec<u8>, length: usize) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4).max(1);
    text.extend((0..digits).rev().map(|place| DIGITS[length >> (place * 4) & 15]));
    text.extend_from_slice(b"\r\n");
}
