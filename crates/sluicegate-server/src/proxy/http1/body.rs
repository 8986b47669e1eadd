//! The body of a request, read from the connection as it is asked for.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::AsyncWrite;

use super::{Client, Wire};
use crate::proxy::body::BodyError;
use crate::proxy::wire::Decoded;

/// The body of the request that is being answered.
pub(in crate::proxy) struct WireBody(Client);

impl WireBody {
    pub(super) fn new(client: Client) -> Self {
        Self(client)
    }
}

impl Body for WireBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let decoded = ready!(self.0.wire().poll_decoded(cx));
        Poll::Ready(match decoded {
            Ok(Decoded::Data(data)) => Some(Ok(Frame::data(data))),
            Ok(Decoded::Trailers(trailers)) => Some(Ok(Frame::trailers(trailers))),
            Ok(Decoded::End | Decoded::Incomplete) => None,
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.wire().body.is_over()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.wire().body.size_hint()
    }
}

impl Wire {
    fn poll_decoded(&mut self, cx: &mut Context<'_>) -> Poll<Result<Decoded, BodyError>> {
        loop {
            match self.body.decode(&mut self.input) {
                Ok(Decoded::Incomplete) => {}
                Ok(decoded) => return Poll::Ready(Ok(decoded)),
                Err(what) => {
                    self.is_lost = true;
                    return Poll::Ready(Err(BodyError::Chunks(what)));
                }
            }
            if self.waits_for_word {
                ready!(self.poll_word(cx))?;
            }
            let room = self.body.room();
            match ready!(self.poll_read(cx, room)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(BodyError::Gone)),
                Ok(_) => {}
            }
        }
    }

    /// Asks the client to go on. It is a word of 25 bytes on a connection where nothing else is being sent: if it does not
    /// go at once, and whole, the client is gone.
    fn poll_word(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        const WORD: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
        let wrote = ready!(Pin::new(&mut *self.io).poll_write(cx, WORD));
        if !wrote.is_ok_and(|wrote| wrote == WORD.len()) {
            return Poll::Ready(Err(BodyError::Gone));
        }
        let _ = Pin::new(&mut *self.io).poll_flush(cx);
        self.waits_for_word = false;
        Poll::Ready(Ok(()))
    }
}
