//! Answers, and what every one of them tells a browser.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::{Either, Full, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// An answer of the operator's door.
pub(super) type Answer = Response<AnswerBody>;

/// All of it at once, or events as they happen.
pub(super) type AnswerBody = Either<Full<Bytes>, Events>;

/// Lines of a stream of events.
pub(super) type Events =
    StreamBody<Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, Infallible>> + Send>>>;

/// Silence after which a word says that we are still there.
const WORD_EVERY: Duration = Duration::from_secs(10);

/// Text with its line end.
pub(super) fn text(status: StatusCode, text: &str) -> Answer {
    with_type(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// A JSON object with its line end.
pub(super) fn json(status: StatusCode, value: &Value) -> Answer {
    with_type(status, "application/json", format!("{value}\n"))
}

/// A refusal that says why.
pub(super) fn error(status: StatusCode, why: &str) -> Answer {
    json(status, &json!({ "error": why }))
}

/// A body of this type.
pub(super) fn with_type(status: StatusCode, content_type: &'static str, body: String) -> Answer {
    with_bytes(status, content_type, Bytes::from(body))
}

/// The same of bytes.
pub(super) fn with_bytes(status: StatusCode, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(body)));
    *answer.status_mut() = status;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// Events as they come, until nobody reads them any more or `events` ends.
pub(super) fn events(events: mpsc::Receiver<String>) -> Answer {
    let next = async |mut events: mpsc::Receiver<String>| {
        let text = match timeout(WORD_EVERY, events.recv()).await {
            Ok(Some(event)) => format!("event: decision\ndata: {event}\n\n"),
            Ok(None) => return None,
            Err(_) => ": still here\n\n".to_owned(),
        };
        Some((Ok(Frame::data(Bytes::from(text))), events))
    };
    let hello = stream::once(async { Ok(Frame::data(Bytes::from_static(b": welcome\n\n"))) });
    let lines: Pin<Box<dyn Stream<Item = _> + Send>> =
        Box::pin(hello.chain(stream::unfold(events, next)));
    let mut answer = Response::new(Either::Right(StreamBody::new(lines)));
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    answer
}

/// With what keeps browsers from doing anything with an answer. Headers that let another site read it do not exist here.
pub(super) fn protected(mut answer: Answer) -> Answer {
    for (name, value) in PROTECTION {
        // A page says itself what it may load.
        answer
            .headers_mut()
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    answer
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
