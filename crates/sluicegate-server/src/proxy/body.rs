//! Bodies on their way through: of requests to servers, and of answers to clients.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::ending::Ending;
use super::exchange::{Broken, ExchangeBody};
use super::http1::WireBody;
use super::upgrade::Switched;
use super::upload::{Pace, Upload};

/// The body of a request, as the client sends it.
pub(super) enum ClientBody {
    None,
    /// Over HTTP/1.
    Wire(WireBody),
    /// Over HTTP/2.
    Stream(Incoming),
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::None => Poll::Ready(None),
            Self::Wire(body) => Pin::new(body).poll_frame(cx),
            Self::Stream(body) => Pin::new(body).poll_frame(cx).map_err(BodyError::Stream),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::None => true,
            Self::Wire(body) => body.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::None => SizeHint::with_exact(0),
            Self::Wire(body) => body.size_hint(),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

/// The body of a request on its way to a server: no longer than is allowed, and looked at as it comes.
pub(super) struct RequestBody {
    incoming: ClientBody,
    /// How much more may come.
    left: Option<u64>,
    upload: Option<Arc<Upload>>,
}

impl RequestBody {
    pub(super) fn new(incoming: ClientBody, most: Option<u64>, pace: Pace) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        let upload = match pace {
            Pace::Steady => Some(Arc::default()),
            Pace::Messages => None,
        };
        Self {
            incoming,
            left: most,
            upload,
        }
    }

    /// Without a byte.
    pub(super) fn empty() -> Self {
        Self {
            incoming: ClientBody::None,
            left: None,
            upload: None,
        }
    }

    /// How it comes along; `None` if there is nothing to come, or nobody looks.
    pub(super) fn upload(&self) -> Option<Arc<Upload>> {
        self.upload.clone()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(cx);
        if let Some(upload) = &self.upload {
            upload.wants_more(frame.is_pending());
        }
        match frame {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => {
                self.incoming = ClientBody::None;
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, |data| data.remaining() as u64);
                if let Some(upload) = &self.upload {
                    upload.has_come(length);
                }
                if let Some(left) = &mut self.left {
                    let Some(rest) = left.checked_sub(length) else {
                        return Poll::Ready(Some(Err(BodyError::TooLarge)));
                    };
                    *left = rest;
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

/// Why a request's body did not come to its end.
#[derive(Debug)]
pub(super) enum BodyError {
    /// The client ended the connection.
    Gone,
    /// Its chunks are none.
    Chunks(&'static str),
    Stream(hyper::Error),
    TooLarge,
    /// It is not as long as was said.
    Length,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the client went away"),
            Self::Chunks(what) => write!(f, "the body is not in chunks: {what}"),
            Self::Stream(error) => error.fmt(f),
            Self::TooLarge => f.write_str("the body is larger than proxy.max_body"),
            Self::Length => f.write_str("the body is not as long as was said"),
        }
    }
}

impl Error for BodyError {}

/// Why an answer did not come to its end.
#[derive(Debug)]
pub(super) enum AnswerError {
    Exchange(Broken),
    Stream(hyper::Error),
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(error) => error.fmt(f),
            Self::Stream(error) => error.fmt(f),
        }
    }
}

impl Error for AnswerError {}

/// The body of an answer, and the end of its request.
pub(super) struct AnswerBody {
    from: From,
    ending: Ending,
}

/// Where an answer comes from.
pub(super) enum From {
    /// Our own words.
    Us(Option<Bytes>),
    /// A server over HTTP/1.
    Exchange(ExchangeBody),
    /// A server over HTTP/2.
    Stream(Incoming),
    /// A server that speaks something else from here on.
    Switched(Option<Box<Switched>>),
}

impl From {
    pub(super) fn us(bytes: Bytes) -> Self {
        Self::Us(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl AnswerBody {
    pub(super) fn new(from: From, ending: Ending) -> Self {
        Self { from, ending }
    }

    /// The server that speaks something else from here on.
    pub(super) fn take_switched(&mut self) -> Option<Box<Switched>> {
        if let From::Switched(switched) = &mut self.from {
            switched.take()
        } else {
            None
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let frame = match &mut self.from {
            From::Us(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            From::Exchange(body) => Pin::new(body).poll_frame(cx).map_err(AnswerError::Exchange),
            From::Stream(body) => Pin::new(body).poll_frame(cx).map_err(AnswerError::Stream),
            From::Switched(_) => Poll::Ready(None),
        };
        self.ending
            .has_part(matches!(frame, Poll::Ready(Some(Ok(_)))));
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.ending.bytes_out += frame.data_ref().map_or(0, |data| data.len() as u64);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.from {
            From::Us(bytes) => bytes.is_none(),
            From::Exchange(body) => body.is_end_stream(),
            From::Stream(body) => body.is_end_stream(),
            From::Switched(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Us(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            From::Exchange(body) => body.size_hint(),
            From::Stream(body) => body.size_hint(),
            From::Switched(_) => SizeHint::with_exact(0),
        }
    }
}
