//! The response of a limit's own to the requests that it denies.
//!
//! Everything is checked and taken apart when it is made: a denial only fills in the name of the
//! limit, the wait and the id of the request. None of the three can hold a letter that HTML, JSON
//! or a header line reads as more than text.

mod text;

use std::error::Error;
use std::fmt;

pub use self::text::{RejectionText, RejectionValues};

/// The response to requests that a limit denies; what is left out is as usual.
///
/// ```
/// use sluicegate_core::{Limit, OwnRejection, Quota};
///
/// let sorry = OwnRejection::default()
///     .with_status(403)?
///     .with_body("{limit}: come back in {retry_after} seconds", None)?
///     .with_header("X-Support", "mail us about {request_id}")?;
/// let login = Limit::per_client("login", Quota::per_minute(5)).reject(sorry);
/// assert_eq!(login.reject.and_then(|own| own.status()), Some(403));
/// # Ok::<(), sluicegate_core::RejectionError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRejection {
    status: Option<u16>,
    body: Option<OwnBody>,
    headers: Vec<(String, RejectionText)>,
}

/// The body of a rejection, in place of the one that the caller's `Accept` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnBody {
    /// The value of `Content-Type`.
    pub content_type: String,
    /// The bytes, with placeholders.
    pub text: RejectionText,
}

impl OwnRejection {
    /// The longest body, in bytes.
    pub const BODY_MAX: usize = 64 << 10;

    /// Answers with this status, 400 to 599, instead of 429. Callers of gRPC get theirs as always.
    pub fn with_status(mut self, status: u16) -> Result<Self, RejectionError> {
        match status {
            400..=599 => self.status = Some(status),
            got => return Err(RejectionError::Status(got)),
        }
        Ok(self)
    }

    /// Answers with this body; without a content type, the text tells it: HTML, JSON, XML or plain
    /// text.
    pub fn with_body(
        mut self,
        text: &str,
        content_type: Option<&str>,
    ) -> Result<Self, RejectionError> {
        if text.len() > Self::BODY_MAX {
            return Err(RejectionError::BodyTooLong(text.len()));
        }
        let content_type = content_type.unwrap_or_else(|| content_type_of(text));
        if !is_media_type(content_type) {
            return Err(RejectionError::ContentType(content_type.to_owned()));
        }
        self.body = Some(OwnBody {
            content_type: content_type.to_owned(),
            text: RejectionText::parse(text)?,
        });
        Ok(self)
    }

    /// Adds a header. Those that HTTP or the limiter writes itself are refused.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self, RejectionError> {
        let name = name.to_ascii_lowercase();
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(RejectionError::HeaderName(name));
        }
        if let Some(owner) = owner_of(&name) {
            return Err(RejectionError::OwnedHeader { name, owner });
        }
        if self.headers.iter().any(|(known, _)| *known == name) {
            return Err(RejectionError::RepeatedHeader(name));
        }
        if !value
            .bytes()
            .all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
        {
            return Err(RejectionError::HeaderValue(name));
        }
        let value = RejectionText::parse(value.trim())?;
        self.headers.push((name, value));
        Ok(self)
    }

    /// The status; `None` is 429.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// The body; `None` is the usual one.
    pub fn body(&self) -> Option<&OwnBody> {
        self.body.as_ref()
    }

    /// The headers to add, their names in lower case.
    pub fn headers(&self) -> &[(String, RejectionText)] {
        &self.headers
    }

    /// Takes the status, the body and the headers that this one lacks from another, each as a
    /// whole.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            status: self.status.or(other.status),
            body: self.body.or_else(|| other.body.clone()),
            headers: match self.headers.is_empty() {
                true => other.headers.clone(),
                false => self.headers,
            },
        }
    }
}

/// The media type of a text by its first and last letters.
fn content_type_of(text: &str) -> &'static str {
    let text = text.trim();
    let begins = |with: &str| {
        text.get(..with.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    let is_within = |open: char, close: char| text.starts_with(open) && text.ends_with(close);
    if begins("<!doctype html") || begins("<html") {
        "text/html; charset=utf-8"
    } else if begins("<?xml") {
        "application/xml"
    } else if is_within('{', '}') || is_within('[', ']') {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    }
}

/// True for `type/subtype`, perhaps with parameters, of printable ASCII.
fn is_media_type(text: &str) -> bool {
    let (media_type, parameters) = text.split_once(';').unwrap_or((text, ""));
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(is_token);
    let is_pair = |(kind, subtype): (&str, &str)| is_name(kind) && is_name(subtype);
    media_type
        .trim_end_matches(' ')
        .split_once('/')
        .is_some_and(is_pair)
        && parameters.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// True for a byte of a header's name.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The owner of a header that no rejection sets by itself.
fn owner_of(name: &str) -> Option<&'static str> {
    match name {
        "content-type" => Some("content_type, beside the body"),
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "te"
        | "trailer" | "upgrade" | "content-length" | "content-encoding" | "date" => {
            Some("HTTP itself")
        }
        "retry-after" | "ratelimit" | "ratelimit-policy" => Some("the limiter"),
        "x-request-id" => Some("the proxy"),
        "grpc-status" | "grpc-message" => Some("the rejection of gRPC callers"),
        _ if name.starts_with("ratelimit-") || name.starts_with("x-ratelimit-") => {
            Some("the limiter")
        }
        _ => None,
    }
}

/// The reason why a rejection cannot be as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RejectionError {
    /// A status outside 400 to 599.
    Status(u16),
    /// A word between braces that is no placeholder.
    UnknownPlaceholder(String),
    /// A body of more than [`OwnRejection::BODY_MAX`] bytes.
    BodyTooLong(usize),
    /// Something other than `type/subtype`.
    ContentType(String),
    /// A header whose name is none.
    HeaderName(String),
    /// A header that is written by somebody else.
    OwnedHeader {
        /// The name.
        name: String,
        /// Who writes it.
        owner: &'static str,
    },
    /// A header that is there already.
    RepeatedHeader(String),
    /// A header of this name whose value is not printable ASCII.
    HeaderValue(String),
}

impl fmt::Display for RejectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(got) => write!(f, "must be 400 to 599 (got {got})"),
            Self::UnknownPlaceholder(word) => write!(
                f,
                "unknown placeholder {{{word}}} (known: {{limit}}, {{retry_after}}, {{request_id}}); write {{{{{word}}}}} for the text {{{word}}}"
            ),
            Self::BodyTooLong(bytes) => {
                write!(f, "must be at most 64 KiB (got {bytes} bytes)")
            }
            Self::ContentType(got) => {
                write!(f, "expected a media type such as text/html (got {got:?})")
            }
            Self::HeaderName(_) => f.write_str("is not a valid header name"),
            Self::OwnedHeader { owner, .. } => {
                write!(f, "cannot be set here: it is written by {owner}")
            }
            Self::RepeatedHeader(_) => f.write_str("is listed twice"),
            Self::HeaderValue(_) => f.write_str("must be printable ASCII, without line ends"),
        }
    }
}

impl Error for RejectionError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_its_type() {
        for (text, expected) in [
            ("sorry", "text/plain; charset=utf-8"),
            ("", "text/plain; charset=utf-8"),
            (" <!DOCTYPE HTML><p>", "text/html; charset=utf-8"),
            ("<html lang=en>", "text/html; charset=utf-8"),
            ("<?xml version=\"1.0\"?>", "application/xml"),
            ("{\"a\": {retry_after}}\n", "application/json"),
            ("[1]", "application/json"),
            ("{limit} is spent", "text/plain; charset=utf-8"),
        ] {
            let own = OwnRejection::default().with_body(text, None).unwrap();
            assert_eq!(own.body().unwrap().content_type, expected, "{text}");
        }
    }

    #[test]
    fn what_would_break_a_response_is_refused() {
        let own = OwnRejection::default;
        for status in [0, 200, 399, 600] {
            assert_eq!(
                own().with_status(status),
                Err(RejectionError::Status(status))
            );
        }
        for content_type in [
            "",
            "html",
            "/",
            "text/",
            "text/html; a=\u{e9}",
            "text/html\r\n",
        ] {
            let error = own().with_body("", Some(content_type)).unwrap_err();
            assert_eq!(error, RejectionError::ContentType(content_type.to_owned()));
        }
        let longest = "a".repeat(OwnRejection::BODY_MAX);
        assert!(
            own()
                .with_body(&longest, Some("text/html;charset=utf-8"))
                .is_ok()
        );
        assert_eq!(
            own().with_body(&format!("{longest}a"), None),
            Err(RejectionError::BodyTooLong(OwnRejection::BODY_MAX + 1))
        );
    }

    #[test]
    fn headers_that_would_break_a_response_are_refused() {
        let own = OwnRejection::default;
        for name in ["", "a b", "a:", "\u{fc}", "a\r\nb"] {
            let error = own().with_header(name, "x").unwrap_err();
            assert!(matches!(error, RejectionError::HeaderName(_)), "{name}");
        }
        for value in ["a\r\nb: c", "\u{fc}", "\0", "a\n"] {
            let error = own().with_header("x-a", value).unwrap_err();
            assert!(matches!(error, RejectionError::HeaderValue(_)), "{value:?}");
        }
        for name in [
            "Content-Type",
            "Content-Length",
            "Transfer-Encoding",
            "Connection",
            "Retry-After",
            "RateLimit",
            "RateLimit-Policy",
            "X-RateLimit-Remaining",
            "X-Request-Id",
            "grpc-status",
        ] {
            let error = own().with_header(name, "x").unwrap_err();
            assert!(
                matches!(error, RejectionError::OwnedHeader { .. }),
                "{name}"
            );
        }
        let twice = own()
            .with_header("X-A", "1")
            .unwrap()
            .with_header("x-a", "2");
        assert_eq!(twice, Err(RejectionError::RepeatedHeader("x-a".to_owned())));
    }

    #[test]
    fn what_is_left_out_comes_from_the_default_part_by_part() {
        let default = OwnRejection::default()
            .with_status(403)
            .and_then(|own| own.with_body("default", None))
            .and_then(|own| own.with_header("x-a", "1"))
            .unwrap();
        let own = OwnRejection::default().with_status(503).unwrap();
        let joined = own.or(&default);
        assert_eq!(joined.status(), Some(503));
        assert_eq!(
            (joined.body(), joined.headers()),
            (default.body(), default.headers())
        );
        let own = OwnRejection::default()
            .with_body("own", None)
            .and_then(|own| own.with_header("x-b", "2"))
            .unwrap();
        let joined = own.clone().or(&default);
        assert_eq!(joined.status(), Some(403));
        assert_eq!(
            (joined.body(), joined.headers()),
            (own.body(), own.headers())
        );
    }
}
