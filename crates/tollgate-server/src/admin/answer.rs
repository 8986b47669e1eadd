//! Answers, and what every one of them tells a browser.

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

/// An answer of the operator's door.
pub(super) type Answer = Response<Full<Bytes>>;

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
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// With what keeps browsers from doing anything with an answer. Headers that let another site read it do not exist here.
pub(super) fn protected(mut answer: Answer) -> Answer {
    for (name, value) in PROTECTION {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

const PROTECTION: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CACHE_CONTROL, "no-store"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];
