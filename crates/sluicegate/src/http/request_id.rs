//! The id of a request in `X-Request-Id`, as far as it can be repeated to anybody.

use http::{HeaderMap, HeaderName};

/// The header that carries the id of a request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that is repeated, in bytes.
pub const REQUEST_ID_MAX: usize = 128;

/// The id that came with a request, if it came once and is plain: 1 to 128 letters, digits and
/// `-._~:/+=@`. That is enough for the ids of other programs, and nothing in it ends a log line, a
/// field, a quoted text or an element of HTML.
///
/// ```
/// use http::{HeaderMap, HeaderValue};
/// use sluicegate::http::sent_request_id;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("x-request-id", HeaderValue::from_static("7dec-11d0"));
/// assert_eq!(sent_request_id(&headers), Some("7dec-11d0"));
/// headers.insert("x-request-id", HeaderValue::from_static("<script>"));
/// assert_eq!(sent_request_id(&headers), None);
/// ```
pub fn sent_request_id(headers: &HeaderMap) -> Option<&str> {
    let mut sent = headers.get_all(REQUEST_ID).iter();
    let (Some(only), None) = (sent.next(), sent.next()) else {
        return None;
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/+=@".contains(&byte);
    let is_valid = |id: &&str| (1..=REQUEST_ID_MAX).contains(&id.len()) && id.bytes().all(is_plain);
    only.to_str().ok().filter(is_valid)
}
