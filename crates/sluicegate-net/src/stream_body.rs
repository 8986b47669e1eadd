//! The body of a request over HTTP/2, between the connection that receives it and the one who reads
//! it.
//!
//! Both are often parts of the same task, but need not be: a body on its way to a server of HTTP/2
//! is read by the task of that server's connection. What waits here is bounded by the window that
//! the connection has given to the client, and the window grows when bytes are taken.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::body_error::BodyError;

/// The reading side.
pub struct StreamBody(Arc<BodyQueue>);

/// The receiving side. Dropping it before the end is an error for the reader.
pub(crate) struct StreamBodySender(Arc<BodyQueue>);

struct BodyQueue {
    state: Mutex<QueueState>,
    /// Woken when the reader has taken bytes.
    taken: Waker,
}

struct QueueState {
    /// Bytes that came and were not read.
    data: BytesMut,
    trailers: Option<HeaderMap>,
    end: QueueEnd,
    /// Bytes that must still come, if their number was announced.
    left: Option<u64>,
    /// Bytes that were read and for which the client has not got new window.
    taken: usize,
    reader: Option<Waker>,
    /// The reader has got everything. It is told so only when it has asked: a head that announces
    /// a body may have been written already.
    is_read: bool,
    is_abandoned: bool,
}

/// What follows the bytes in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueEnd {
    /// More of the body.
    Open,
    /// Nothing.
    Complete,
    /// Nothing, although more should.
    Broken,
}

/// A body of `length` bytes, if that is known. `taken` is woken when some were read.
pub(crate) fn stream_body(length: Option<u64>, taken: Waker) -> (StreamBodySender, StreamBody) {
    let state = QueueState {
        data: BytesMut::new(),
        trailers: None,
        end: QueueEnd::Open,
        left: length,
        taken: 0,
        reader: None,
        is_read: false,
        is_abandoned: false,
    };
    let queue = Arc::new(BodyQueue {
        state: Mutex::new(state),
        taken,
    });
    (StreamBodySender(Arc::clone(&queue)), StreamBody(queue))
}

impl BodyQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamBodySender {
    /// Adds bytes. Returns false if nobody will ever read them.
    pub(crate) fn push(&self, data: &[u8]) -> bool {
        let mut state = self.0.lock();
        if state.is_abandoned {
            return false;
        }
        state.data.extend_from_slice(data);
        if let Some(left) = &mut state.left {
            *left = left.saturating_sub(data.len() as u64);
        }
        wake(state);
        true
    }

    /// Ends the body.
    pub(crate) fn finish(&self, trailers: Option<HeaderMap>) {
        let mut state = self.0.lock();
        state.trailers = trailers;
        state.end = QueueEnd::Complete;
        wake(state);
    }

    /// Bytes that were read since the last call.
    pub(crate) fn take_read(&self) -> usize {
        std::mem::take(&mut self.0.lock().taken)
    }

    /// Bytes that are in the queue, or were read since the last call of
    /// [`StreamBodySender::take_read`]: all that the client has no new window for.
    pub(crate) fn unreturned(&self) -> usize {
        let state = self.0.lock();
        state.data.len() + state.taken
    }
}

impl Drop for StreamBodySender {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if state.end == QueueEnd::Open {
            state.end = QueueEnd::Broken;
            state.data = BytesMut::new();
            wake(state);
        }
    }
}

/// Wakes the reader, if it waits, after the state is free.
fn wake(mut state: MutexGuard<'_, QueueState>) {
    let reader = state.reader.take();
    drop(state);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let mut state = self.0.lock();
        if !state.data.is_empty() {
            let data = state.data.split().freeze();
            state.taken += data.len();
            state.is_read = state.end == QueueEnd::Complete && state.trailers.is_none();
            drop(state);
            self.0.taken.wake_by_ref();
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match state.end {
            QueueEnd::Broken => Poll::Ready(Some(Err(BodyError::Closed))),
            QueueEnd::Complete => {
                state.is_read = true;
                let trailers = state.trailers.take();
                Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
            }
            QueueEnd::Open => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.lock().is_read
    }

    fn size_hint(&self) -> SizeHint {
        let state = self.0.lock();
        let here = state.data.len() as u64;
        match (state.left, state.end) {
            (Some(left), _) => SizeHint::with_exact(here + left),
            (None, QueueEnd::Complete) => SizeHint::with_exact(here),
            (None, _) => {
                let mut hint = SizeHint::new();
                hint.set_lower(here);
                hint
            }
        }
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_abandoned = true;
        state.taken += state.data.len();
        state.data = BytesMut::new();
        drop(state);
        self.0.taken.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn body(length: Option<u64>) -> (StreamBodySender, StreamBody) {
        stream_body(length, Waker::noop().clone())
    }

    #[tokio::test]
    async fn bytes_are_read_in_one_piece_and_trailers_follow() {
        let (sender, mut body) = body(Some(5));
        assert!(sender.push(b"he") && sender.push(b"llo"));
        sender.finish(Some(HeaderMap::from_iter([(
            http::header::ETAG,
            http::HeaderValue::from_static("x"),
        )])));
        assert_eq!((sender.unreturned(), sender.take_read()), (5, 0));
        assert_eq!(body.size_hint().exact(), Some(5));
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(
            (&data[..], sender.take_read(), sender.take_read()),
            (&b"hello"[..], 5, 0)
        );
        assert!(!body.is_end_stream());
        assert!(body.frame().await.unwrap().unwrap().is_trailers());
        assert!(body.is_end_stream() && body.frame().await.is_none());
    }

    #[tokio::test]
    async fn the_end_is_known_when_it_was_asked_for_and_not_before() {
        let (sender, mut body) = body(None);
        sender.finish(None);
        assert!(!body.is_end_stream());
        assert!(body.frame().await.is_none() && body.is_end_stream());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error_and_never_an_end() {
        let (sender, mut body) = body(None);
        assert!(sender.push(b"half"));
        drop(sender);
        assert!(!body.is_end_stream());
        assert!(body.frame().await.unwrap().is_err());
    }

    #[test]
    fn bytes_that_nobody_reads_are_given_back() {
        let (sender, body) = body(None);
        assert!(sender.push(b"some"));
        drop(body);
        assert_eq!((sender.take_read(), sender.push(b"more")), (4, false));
    }
}
