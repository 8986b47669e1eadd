//! The body of a request over HTTP/1, read from its connection as it is polled.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::AsyncWrite;

use super::{ClientWire, WireState};
use crate::body_error::BodyError;
use crate::wire::Decoded;

/// The body of the request that is being answered.
pub struct WireBody(ClientWire);

impl WireBody {
    pub(crate) fn new(wire: ClientWire) -> Self {
        Self(wire)
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let decoded = ready!(self.0.state().poll_decoded(cx));
        Poll::Ready(match decoded {
            Ok(Decoded::Data(data)) => Some(Ok(Frame::data(data))),
            Ok(Decoded::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(Decoded::End | Decoded::Incomplete) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.state().body.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.state().body.size_hint()
    }
}

impl WireState {
    /// Decodes the bytes that have come, and reads more when they are not enough. `100 Continue` is
    /// sent only here: a handler that never polls the body refuses it without receiving it.
    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decoded, BodyError>> {
        loop {
            match self.body.decode(&mut self.input) {
                Ok(Decoded::Incomplete) => {}
                Ok(decoded) => return Poll::Ready(Ok(decoded)),
                Err(what) => {
                    self.is_body_end_lost = true;
                    return Poll::Ready(Err(BodyError::Chunks(what)));
                }
            }
            if self.expects_continue {
                ready!(self.poll_continue(cx))?;
            }
            let room = self.body.room();
            match ready!(self.poll_read(cx, room)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(BodyError::Closed)),
                Ok(_) => {}
            }
        }
    }

    /// Asks the client to send the body. These 25 bytes go over a connection on which nothing else
    /// is being sent: if they do not go at once, and whole, the client is gone.
    fn poll_continue(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
        let wrote = ready!(Pin::new(&mut *self.io).poll_write(cx, CONTINUE));
        if !wrote.is_ok_and(|wrote| wrote == CONTINUE.len()) {
            return Poll::Ready(Err(BodyError::Closed));
        }
        let _ = Pin::new(&mut *self.io).poll_flush(cx);
        self.expects_continue = false;
        Poll::Ready(Ok(()))
    }
}
