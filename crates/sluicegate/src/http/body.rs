//! The body of a response: the inner service's, or a short one of our own.
//!
//! One type for both, so that the layer works with any body of the service behind it, and streams
//! it through without a copy.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::awaited_answer::AwaitedTrailers;

pin_project! {
    /// The body of a response that went through [`RateLimit`](super::RateLimit): the inner
    /// service's body as it is, or the whole body of a rejection.
    ///
    /// Its only use is as a type, in the signature of a function that returns a limited service:
    ///
    /// ```
    /// use http_body_util::Full;
    /// use sluicegate::http::RateLimitBody;
    ///
    /// fn status(response: &http::Response<RateLimitBody<Full<bytes::Bytes>>>) -> u16 {
    ///     response.status().as_u16()
    /// }
    /// # let _ = status;
    /// ```
    pub struct RateLimitBody<B> {
        #[pin]
        kind: BodyKind<B>,
        // Waits for the trailers of a body whose limits count by them.
        trailers: Option<Box<dyn AwaitedTrailers>>,
    }
}

impl<B: fmt::Debug> fmt::Debug for RateLimitBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut body = f.debug_struct("RateLimitBody");
        body.field("kind", &self.kind).finish_non_exhaustive()
    }
}

pin_project! {
    /// Where the bytes come from.
    #[derive(Debug)]
    #[project = BodyKindProjection]
    enum BodyKind<B> {
        // The service behind the layer answered.
        Inner { #[pin] body: B },
        // A rejection. Empty once its one frame was taken.
        Own { bytes: Bytes },
    }
}

impl<B> RateLimitBody<B> {
    pub(super) fn inner(body: B) -> Self {
        Self {
            kind: BodyKind::Inner { body },
            trailers: None,
        }
    }

    /// A body whose trailers settle charges.
    pub(super) fn watched(body: B, trailers: Box<dyn AwaitedTrailers>) -> Self {
        Self {
            kind: BodyKind::Inner { body },
            trailers: Some(trailers),
        }
    }

    pub(super) fn own(bytes: Bytes) -> Self {
        Self {
            kind: BodyKind::Own { bytes },
            trailers: None,
        }
    }
}

impl<B: Body<Data = Bytes>> Body for RateLimitBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = match this.kind.project() {
            BodyKindProjection::Inner { body } => body.poll_frame(cx),
            BodyKindProjection::Own { bytes } if bytes.is_empty() => Poll::Ready(None),
            BodyKindProjection::Own { bytes } => {
                Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes)))))
            }
        };
        if let Some(awaited) = this.trailers {
            match &frame {
                Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => {
                    awaited.end(frame.trailers_ref());
                }
                Poll::Ready(None) => awaited.end(None),
                // A body that breaks off has no answer, which is what dropping stands for.
                Poll::Ready(Some(_)) | Poll::Pending => {}
            }
        }
        frame
    }

    /// True from the start for an empty body: a gRPC rejection has to end with its headers.
    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Inner { body } => body.is_end_stream(),
            BodyKind::Own { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Inner { body } => body.size_hint(),
            BodyKind::Own { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Empty};
    use std::task::Waker;

    #[test]
    fn an_empty_body_has_ended_before_it_is_read() {
        let mut empty = RateLimitBody::<Empty<Bytes>>::own(Bytes::new());
        assert!(
            empty.is_end_stream(),
            "a gRPC status must travel in headers that end the stream"
        );
        let frame = Pin::new(&mut empty).poll_frame(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(frame, Poll::Ready(None)));
    }

    #[tokio::test]
    async fn our_own_body_is_one_frame_of_known_length() {
        let mut own = RateLimitBody::<Empty<Bytes>>::own(Bytes::from_static(b"no"));
        assert_eq!(
            (own.size_hint().exact(), own.is_end_stream()),
            (Some(2), false)
        );
        let frame = own.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "no");
        assert!(own.frame().await.is_none());
        assert_eq!(
            (own.size_hint().exact(), own.is_end_stream()),
            (Some(0), true)
        );
    }
}
