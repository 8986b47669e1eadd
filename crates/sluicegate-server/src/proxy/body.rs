//! Bodies of responses on their way to clients.
//!
//! Every response of the proxy has a [`ProxyBody`], wherever its bytes come from. It holds the
//! request's guard, so that metrics and access log are written when the last byte was taken or the
//! client went away.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sluicegate_net::http2_client::Http2Body;
use sluicegate_net::{
    CompleteBody, ExchangeBody, ExchangeError, ResponseBody, SwitchedServer, Tunnel, TunnelError,
};

use super::request_guard::RequestGuard;
use super::server_clock::ServerClock;

/// Reason why a response did not come to its end.
#[derive(Debug)]
pub(crate) enum ProxyBodyError {
    Exchange(ExchangeError),
    Stream(hyper::Error),
    /// The server stopped sending.
    Stalled,
    Tunnel(TunnelError),
}

impl fmt::Display for ProxyBodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(error) => error.fmt(f),
            Self::Stream(error) => error.fmt(f),
            Self::Tunnel(error) => error.fmt(f),
            Self::Stalled => f.write_str("the server stopped in the middle of its response"),
        }
    }
}

impl Error for ProxyBodyError {}

/// The body of a response. Dropping it ends the request, because that drops its guard.
pub(crate) struct ProxyBody {
    source: BodySource,
    guard: RequestGuard,
}

/// Source of a response's body.
pub(super) enum BodySource {
    /// Our own bytes, if there are any.
    Own(Option<Bytes>),
    /// The response of a server that speaks HTTP/1.
    Exchange(ExchangeBody, ServerClock),
    /// The response of a server that speaks HTTP/2.
    Stream(Http2Body, ServerClock),
    /// The connection of a server that has agreed to another protocol; the engine takes it to relay
    /// bytes.
    Switched(Option<Box<SwitchedServer>>),
    /// The same over HTTP/2, where the stream itself carries the bytes.
    Tunnel(Box<Tunnel>),
}

impl BodySource {
    /// Empty bytes become `None`, so that the body is at its end from the start.
    pub(super) fn own(bytes: Bytes) -> Self {
        Self::Own(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    /// True for a body of HTTP/2 that is not over yet: trailers may follow it.
    pub(super) fn may_have_trailers(&self) -> bool {
        matches!(self, Self::Stream(body, _) if !body.is_end_stream())
    }
}

impl ProxyBody {
    pub(super) fn new(source: BodySource, guard: RequestGuard) -> Self {
        Self { source, guard }
    }

    /// Counts whoever has stopped, client or server, and gives the connections free.
    fn record_error(&mut self, error: &ProxyBodyError) {
        let is_client_stalled = match &self.source {
            BodySource::Exchange(_, clock) | BodySource::Stream(_, clock) => {
                clock.is_client_stalled()
            }
            BodySource::Own(_) | BodySource::Switched(_) | BodySource::Tunnel(_) => false,
        };
        if is_client_stalled {
            self.guard.record_stalled_client();
        } else if matches!(error, ProxyBodyError::Stalled) {
            self.guard.record_stalled_server();
        }
        self.source = BodySource::Own(None);
    }
}

impl ResponseBody for ProxyBody {
    fn take_switched(&mut self) -> Option<Box<SwitchedServer>> {
        if let BodySource::Switched(switched) = &mut self.source {
            switched.take()
        } else {
            None
        }
    }

    fn complete(&self) -> Option<CompleteBody<'_>> {
        let BodySource::Own(bytes) = &self.source else {
            return None;
        };
        Some(CompleteBody {
            data: bytes.as_deref().unwrap_or_default(),
            trailers: &[],
        })
    }

    fn sent_complete(&mut self) {
        if let BodySource::Own(bytes) = &mut self.source {
            self.guard.bytes_out += bytes.take().map_or(0, |bytes| bytes.len() as u64);
        }
    }

    fn poll_upload(&mut self, cx: &mut Context<'_>) {
        if let BodySource::Tunnel(tunnel) = &mut self.source {
            tunnel.poll_upload(cx);
        }
    }

    fn limit_next_part(&mut self, bytes_max: usize) {
        match &mut self.source {
            BodySource::Exchange(body, _) => body.limit_part(bytes_max),
            BodySource::Tunnel(tunnel) => tunnel.limit_part(bytes_max),
            BodySource::Own(_) | BodySource::Stream(..) | BodySource::Switched(_) => {}
        }
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = ProxyBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ProxyBodyError>>> {
        let frame = match &mut self.source {
            BodySource::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            BodySource::Exchange(body, clock) => match Pin::new(&mut *body).poll_frame(cx) {
                Poll::Pending => body.poll_deadline(cx, clock.deadline()).map(stalled),
                frame => {
                    clock.has_come();
                    frame.map_err(ProxyBodyError::Exchange)
                }
            },
            BodySource::Stream(body, clock) => match Pin::new(body).poll_frame(cx) {
                Poll::Pending => clock.poll_stalled(cx).map(stalled),
                frame => {
                    clock.has_come();
                    frame.map_err(ProxyBodyError::Stream)
                }
            },
            BodySource::Switched(_) => Poll::Ready(None),
            BodySource::Tunnel(tunnel) => {
                let frame = Pin::new(&mut **tunnel).poll_frame(cx);
                frame.map_err(ProxyBodyError::Tunnel)
            }
        };
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                self.guard.bytes_out += frame.data_ref().map_or(0, |data| data.len() as u64);
                if frame.is_trailers() {
                    self.guard.settle_by_trailers(frame.trailers_ref());
                }
            }
            Poll::Ready(None) => self.guard.settle_by_trailers(None),
            Poll::Ready(Some(Err(error))) => self.record_error(error),
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            BodySource::Own(bytes) => bytes.is_none(),
            BodySource::Exchange(body, _) => body.is_end_stream(),
            BodySource::Stream(body, _) => body.is_end_stream(),
            BodySource::Switched(_) => true,
            BodySource::Tunnel(tunnel) => tunnel.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::Own(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            BodySource::Exchange(body, _) => body.size_hint(),
            BodySource::Stream(body, _) => body.size_hint(),
            BodySource::Switched(_) => SizeHint::with_exact(0),
            BodySource::Tunnel(_) => SizeHint::default(),
        }
    }
}

/// The frame in place of one that did not come in time.
fn stalled((): ()) -> Option<Result<Frame<Bytes>, ProxyBodyError>> {
    Some(Err(ProxyBodyError::Stalled))
}
