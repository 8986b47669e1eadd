//! Responses of the admin API: text, JSON, files and streams of events.
//!
//! Every response passes [`protected`], which adds the headers that keep browsers from using it on
//! behalf of another site.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use serde_json::{Value, json};
use sluicegate_net::ResponseBody;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// A response of the admin API.
pub(super) type AdminResponse = Response<AdminBody>;

/// The body of a response.
pub(super) enum AdminBody {
    /// All of it at once; `None` once it was taken.
    Whole(Option<Bytes>),
    /// Events as they happen.
    Events(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

impl AdminBody {
    /// Returns true for a body that goes on for as long as somebody reads it.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Events(_))
    }
}

impl Body for AdminBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let part = match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Events(events) => events.as_mut().poll_next(cx),
        };
        part.map(|part| part.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Events(_) => SizeHint::default(),
        }
    }
}

impl ResponseBody for AdminBody {}

/// Silence after which a stream sends a comment line, so that neither side takes it for dead.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);

/// A response of text; adds the line end.
pub(super) fn text(status: StatusCode, text: &str) -> AdminResponse {
    with_type(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// A response of JSON; adds the line end.
pub(super) fn json(status: StatusCode, value: &Value) -> AdminResponse {
    with_type(status, "application/json", format!("{value}\n"))
}

/// A JSON response `{"error": why}`.
pub(super) fn error(status: StatusCode, why: &str) -> AdminResponse {
    json(status, &json!({ "error": why }))
}

/// A response with a body of this type.
pub(super) fn with_type(
    status: StatusCode,
    content_type: &'static str,
    body: String,
) -> AdminResponse {
    with_bytes(status, content_type, Bytes::from(body))
}

/// A response with a body of bytes of this type.
pub(super) fn with_bytes(
    status: StatusCode,
    content_type: &'static str,
    body: Bytes,
) -> AdminResponse {
    let body = Some(body).filter(|body| !body.is_empty());
    let mut response = Response::new(AdminBody::Whole(body));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A stream of events, until nobody reads them any more or `events` ends.
pub(super) fn events(events: mpsc::Receiver<String>) -> AdminResponse {
    let next = async |mut events: mpsc::Receiver<String>| {
        let text = match timeout(KEEP_ALIVE_EVERY, events.recv()).await {
            Ok(Some(event)) => format!("event: decision\ndata: {event}\n\n"),
            Ok(None) => return None,
            Err(_) => ": still here\n\n".to_owned(),
        };
        Some((Bytes::from(text), events))
    };
    let hello = stream::once(async { Bytes::from_static(b": welcome\n\n") });
    let lines = Box::pin(hello.chain(stream::unfold(events, next)));
    let mut response = Response::new(AdminBody::Events(lines));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    response
}

/// Adds the headers that keep a browser from caching, framing or reinterpreting a response. No
/// header that lets another site read it (CORS) is ever sent.
pub(super) fn protected(mut response: AdminResponse) -> AdminResponse {
    for (name, value) in PROTECTION {
        // The dashboard sets a content policy of its own.
        response
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    response
}

const PROTECTION: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];
