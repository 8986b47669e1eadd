//! Headers that belong to one connection (RFC 9110, section 7.6.1).

use http::HeaderMap;
use http::header::{self, HeaderName};
use smallvec::SmallVec;

/// Removes the headers of a connection: these, and what `Connection` names unless it is [protected](is_protected).
pub(super) fn strip(headers: &mut HeaderMap, key_headers: &[HeaderName]) {
    let mut named: SmallVec<[HeaderName; 4]> = SmallVec::new();
    for line in headers.get_all(header::CONNECTION) {
        for option in options(line.as_bytes()) {
            // Most options, such as `close`, name no header that is there.
            if !str::from_utf8(option).is_ok_and(|option| headers.contains_key(option)) {
                continue;
            }
            match HeaderName::from_bytes(option) {
                Ok(name) if !is_protected(name.as_str(), key_headers) => named.push(name),
                _ => {}
            }
        }
    }
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// `Trailer` is not among them: it says which of the trailers that follow are meant to go on.
pub(super) const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Whether a caller cannot have a header taken away by naming it in `Connection`.
///
/// These are the headers that we write, those that callers are told apart by, and those that are meant for whoever answers:
/// who could remove `Authorization` or `X-Forwarded-For` behind our back could be taken for somebody else.
pub(super) fn is_protected(name: &str, key_headers: &[HeaderName]) -> bool {
    key_headers.iter().any(|key| key == name)
        || PROTECTED.contains(&name)
        || PROTECTED_FAMILIES.iter().any(|family| name.starts_with(family))
}

const PROTECTED: [&str; 31] = [
    "age",
    "allow",
    "authorization",
    "cache-control",
    "cookie",
    "date",
    "etag",
    "expect",
    "expires",
    "forwarded",
    "host",
    "last-modified",
    "location",
    "max-forwards",
    "origin",
    "pragma",
    "range",
    "referer",
    "retry-after",
    "set-cookie",
    "strict-transport-security",
    "traceparent",
    "tracestate",
    "trailer",
    "user-agent",
    "vary",
    "via",
    "www-authenticate",
    "x-api-key",
    "x-real-ip",
    "x-request-id",
];

const PROTECTED_FAMILIES: [&str; 9] =
    ["accept", "access-control-", "content-", "grpc-", "if-", "ratelimit", "sec-", "x-forwarded-", "x-ratelimit-"];

/// Whether a header that is a list has this option, in any case.
pub(super) fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let mut lines = headers.get_all(name).iter();
    lines.any(|line| options(line.as_bytes()).any(|option| option.eq_ignore_ascii_case(wanted.as_bytes())))
}

fn options(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}
