//! The body of a response: the inner service's, or a short one of our own.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The inner service's body as it is, or the whole of our own.
    #[derive(Debug)]
    pub struct RateLimitBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = KindProjection]
    enum Kind<B> {
        Inner { #[pin] body: B },
        Own { bytes: Bytes },
    }
}

impl<B> RateLimitBody<B> {
    pub(super) fn inner(body: B) -> Self {
        Self { kind: Kind::Inner { body } }
    }

    pub(super) fn own(bytes: Bytes) -> Self {
        Self { kind: Kind::Own { bytes } }
    }
}

impl<B: Body<Data = Bytes>> Body for RateLimitBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            KindProjection::Inner { body } => body.poll_frame(cx),
            KindProjection::Own { bytes } if bytes.is_empty() => Poll::Ready(None),
            KindProjection::Own { bytes } => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Own { bytes } => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Own { bytes } => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}
