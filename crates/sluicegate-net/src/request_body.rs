//! Bodies of requests: as a client sends them, and on their way to a server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{EXPECT, HeaderMap, HeaderName};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::body_error::BodyError;
use crate::client_wire::WireBody;
use crate::stream_body::StreamBody;
use crate::upload::{StalledUpload, UploadPace, UploadProgress};

/// The body of a request as the client sends it. It is read from the connection when it is
/// polled; nothing is buffered ahead.
#[derive(Default)]
pub enum ClientBody {
    /// The request has no body.
    #[default]
    Empty,
    /// A body over HTTP/1.
    Wire(WireBody),
    /// A body over HTTP/2.
    Stream(StreamBody),
    /// A body over HTTP/2 that was waited for
    /// ([`Handler::whole_body`](crate::Handler::whole_body)).
    Whole(WholeBody),
}

/// The whole body of a request, or the reason why it did not come.
pub struct WholeBody(Option<Result<Bytes, BodyError>>);

impl WholeBody {
    pub(crate) fn new(body: Result<Bytes, BodyError>) -> Self {
        Self(Some(body))
    }

    /// All bytes.
    pub fn into_bytes(self) -> Result<Bytes, BodyError> {
        self.0.unwrap_or_else(|| Ok(Bytes::new()))
    }
}

impl Body for WholeBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Poll::Ready(self.0.take().map(|body| body.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Some(Ok(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Some(Err(_)) => SizeHint::new(),
            None => SizeHint::with_exact(0),
        }
    }
}

impl ClientBody {
    /// Reads and discards a small body so that its connection can be used for the next request.
    /// Returns false when the body is large or slow, or when the client waits for
    /// `100 Continue` before it sends it: then closing the connection is cheaper.
    pub async fn drain(mut self, headers: &HeaderMap) -> bool {
        const BYTES_MAX: u64 = 64 * 1024;
        const TIME_MAX: Duration = Duration::from_millis(100);
        if headers.contains_key(EXPECT) || self.size_hint().lower() > BYTES_MAX {
            return false;
        }
        let read = async {
            let mut left = BYTES_MAX;
            while let Some(frame) = self.frame().await {
                let length = frame.ok()?.data_ref().map_or(0, |data| data.len() as u64);
                left = left.checked_sub(length)?;
            }
            Some(())
        };
        matches!(tokio::time::timeout(TIME_MAX, read).await, Ok(Some(())))
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Empty => Poll::Ready(None),
            Self::Wire(body) => Pin::new(body).poll_frame(cx),
            Self::Stream(body) => Pin::new(body).poll_frame(cx),
            Self::Whole(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Wire(body) => body.is_end_stream(),
            Self::Stream(body) => body.is_end_stream(),
            Self::Whole(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Wire(body) => body.size_hint(),
            Self::Stream(body) => body.size_hint(),
            Self::Whole(body) => body.size_hint(),
        }
    }
}

/// The body of a request on its way to a server: no longer than allowed, with its progress
/// recorded.
pub struct ForwardedBody {
    incoming: ClientBody,
    /// Bytes that may still come; `None` is any number.
    left: Option<u64>,
    /// `None` without a body.
    upload: Option<Upload>,
    /// The trailers that may follow; `None` without a body.
    trailers: Option<TrailerFilter>,
}

/// The progress of a body, and its clock.
struct Upload {
    progress: Arc<UploadProgress>,
    pace: UploadPace,
    stalled: StalledUpload,
}

/// Says which trailers a client may send.
pub type TrailerFilter = Arc<dyn Fn(&HeaderName) -> bool + Send + Sync>;

impl ForwardedBody {
    /// Forwards at most `bytes_max` of a client's body, and the trailers that may follow it. A
    /// client that sends nothing for `longest_stall` is given up.
    pub fn new(
        incoming: ClientBody,
        bytes_max: Option<u64>,
        pace: UploadPace,
        longest_stall: Duration,
        trailers: &TrailerFilter,
    ) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        Self {
            incoming,
            left: bytes_max,
            upload: Some(Upload {
                progress: Arc::default(),
                pace,
                stalled: StalledUpload::new(longest_stall, pace),
            }),
            trailers: Some(Arc::clone(trailers)),
        }
    }

    /// A body without a byte.
    pub fn empty() -> Self {
        Self {
            incoming: ClientBody::Empty,
            left: None,
            upload: None,
            trailers: None,
        }
    }

    /// The frame without trailers that may not be there.
    fn with_allowed_trailers(&self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let Some(is_allowed) = &self.trailers else {
            return frame;
        };
        match frame.into_trailers() {
            Err(data) => data,
            Ok(sent) => {
                let mut allowed = HeaderMap::new();
                for (name, value) in &sent {
                    if is_allowed(name) {
                        allowed.append(name, value.clone());
                    }
                }
                Frame::trailers(allowed)
            }
        }
    }

    /// Fails when the client has been waited for too long.
    fn poll_stalled(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let Some(Upload {
            progress, stalled, ..
        }) = &mut self.upload
        else {
            return Poll::Pending;
        };
        ready!(stalled.poll_stalled(cx, progress));
        Poll::Ready(Some(Err(BodyError::Stalled)))
    }

    /// Progress of the upload; `None` if there is nothing to come.
    pub fn progress(&self) -> Option<Arc<UploadProgress>> {
        self.upload
            .as_ref()
            .map(|upload| Arc::clone(&upload.progress))
    }

    /// Progress of an upload whose pace matters before the response begins.
    pub fn steady_progress(&self) -> Option<Arc<UploadProgress>> {
        let upload = self.upload.as_ref()?;
        (upload.pace == UploadPace::Steady).then(|| Arc::clone(&upload.progress))
    }
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let frame = Pin::new(&mut self.incoming).poll_frame(cx);
        if let Some(upload) = &self.upload {
            upload.progress.wants_more(frame.is_pending());
        }
        match frame {
            Poll::Pending => self.poll_stalled(cx),
            Poll::Ready(None) => {
                self.incoming = ClientBody::Empty;
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error))),
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, |data| data.remaining() as u64);
                if let Some(upload) = &mut self.upload {
                    upload.progress.has_come(length);
                    upload.stalled.has_come();
                }
                if let Some(left) = &mut self.left {
                    let Some(rest) = left.checked_sub(length) else {
                        return Poll::Ready(Some(Err(BodyError::TooLarge)));
                    };
                    *left = rest;
                }
                Poll::Ready(Some(Ok(self.with_allowed_trailers(frame))))
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
