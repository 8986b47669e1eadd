//! Reads a response: status 200, no content encoding, and a body within a bound.

use std::error::Error;
use std::fmt;

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

/// A response that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    /// No connection, or one that broke; with the cause.
    Unreachable(String),
    /// Another status than 200.
    Status(u16),
    /// A body of more than so many bytes.
    TooLong(usize),
    /// A body with a content encoding, such as gzip.
    Encoded,
}

impl ResponseError {
    /// The error of a connection.
    pub(crate) fn unreachable(error: &(dyn Error + 'static)) -> Self {
        Self::Unreachable(innermost_cause(error))
    }
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "cannot be reached: {why}"),
            Self::Status(status) => write!(f, "replied with status {status}, expected 200"),
            Self::TooLong(bytes_max) => write!(f, "the reply is longer than {bytes_max} bytes"),
            Self::Encoded => f.write_str("the reply has a content encoding, expected none"),
        }
    }
}

impl Error for ResponseError {}

/// The headers and the body of a usable response. At most `bytes_max` bytes of its body are kept.
pub(crate) async fn read_response(
    response: Response<Incoming>,
    bytes_max: usize,
) -> Result<(HeaderMap, Bytes), ResponseError> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(ResponseError::Status(head.status.as_u16()));
    }
    if is_encoded(&head.headers) {
        return Err(ResponseError::Encoded);
    }
    let body = Limited::new(body, bytes_max).collect().await;
    let body = body.map_err(|error| match error.is::<LengthLimitError>() {
        true => ResponseError::TooLong(bytes_max),
        false => ResponseError::unreachable(&*error),
    })?;
    Ok((head.headers, body.to_bytes()))
}

/// Returns true for a compressed body. None was asked for, and unpacked it could be of any size.
fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// The innermost cause of an error, which is the most specific one, such as "connection refused".
pub(crate) fn innermost_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
