//! Headers that belong to one connection (RFC 9110, section 7.6.1), and lists in headers.
//!
//! `Connection` names further headers that end with the connection. A caller who could name any
//! header there could make us drop one that the server trusts, so many are protected.

use http::HeaderMap;
use http::header::{self, HeaderName, HeaderValue};
use smallvec::SmallVec;

/// Removes the headers that belong to a connection.
pub fn strip(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// The header that an option of `Connection` in a response removes; `None` if the option names
/// none, or one that is [protected](is_protected).
pub fn droppable(option: &[u8]) -> Option<HeaderName> {
    if is_usual(option) {
        return None;
    }
    HeaderName::from_bytes(option)
        .ok()
        .filter(|name| !is_protected(name.as_str(), &[]))
}

/// Trailers that these lines of `Trailer` announce and that may be passed on. Those that frame the
/// message or identify its sender may not.
pub fn trailers<'a>(lines: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = HeaderName> {
    let names = lines
        .flat_map(options)
        .filter_map(|name| HeaderName::from_bytes(name).ok());
    names.filter(|name| !is_protected(name.as_str(), &[]) && !is_hop_by_hop(name.as_str()))
}

/// Headers of a request that its `Connection` removes: named there, present, and not
/// [protected](is_protected).
pub fn named<'a>(headers: &'a HeaderMap, key_headers: &[HeaderName]) -> SmallVec<[&'a str; 4]> {
    let mut named = SmallVec::new();
    for line in headers.get_all(header::CONNECTION) {
        for option in options(line.as_bytes()) {
            if is_usual(option) {
                continue;
            }
            let name = headers
                .keys()
                .find(|name| option.eq_ignore_ascii_case(name.as_str().as_bytes()));
            named.extend(
                name.map(HeaderName::as_str)
                    .filter(|name| !is_protected(name, key_headers)),
            );
        }
    }
    named
}

/// Returns true for the options that name no header.
fn is_usual(option: &[u8]) -> bool {
    [b"close".as_slice(), b"keep-alive", b"upgrade"]
        .iter()
        .any(|usual| option.eq_ignore_ascii_case(usual))
}

/// Returns true when a header belongs to one connection. The name is in lower case.
pub fn is_hop_by_hop(name: &str) -> bool {
    HOP_BY_HOP.contains(&name)
}

/// A header that belongs to one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopByHop {
    /// `Connection`.
    Connection,
    /// `Transfer-Encoding`.
    TransferEncoding,
    /// `Upgrade`.
    Upgrade,
    /// Any other.
    Other,
}

impl HopByHop {
    /// Finds a header by its name, in any case; `None` if it does not belong to a connection.
    pub fn of(name: &[u8]) -> Option<Self> {
        Some(match known(name)? {
            "connection" => Self::Connection,
            "transfer-encoding" => Self::TransferEncoding,
            "upgrade" => Self::Upgrade,
            _ => Self::Other,
        })
    }
}

/// The name in lower case of a header that belongs to a connection; `None` for all others.
#[inline]
pub(crate) fn known(name: &[u8]) -> Option<&'static str> {
    // The length alone excludes most names.
    if !matches!(name.len(), 2 | 7 | 10 | 16..=19) {
        return None;
    }
    let is_known = |known: &&&str| known.as_bytes().eq_ignore_ascii_case(name);
    HOP_BY_HOP.iter().find(is_known).copied()
}

/// `Trailer` is not among them: it announces trailers for the final recipient too.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Returns true when a caller cannot have a header removed by naming it in `Connection`.
///
/// Protected are the headers that a proxy writes, those in `key_headers` by which callers are
/// identified, and those meant for the server: a caller who could remove `Authorization` or
/// `X-Forwarded-For` could be taken for somebody else.
pub fn is_protected(name: &str, key_headers: &[HeaderName]) -> bool {
    key_headers.iter().any(|key| key == name)
        || PROTECTED.contains(&name)
        || PROTECTED_FAMILIES
            .iter()
            .any(|family| name.starts_with(family))
}

/// Names that are protected.
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

/// Beginnings of names that are protected.
const PROTECTED_FAMILIES: [&str; 9] = [
    "accept",
    "access-control-",
    "content-",
    "grpc-",
    "if-",
    "ratelimit",
    "sec-",
    "x-forwarded-",
    "x-ratelimit-",
];

/// Returns true when a header that is a list has this option, in any case.
pub(crate) fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .any(|line| has_option(line, wanted))
}

/// Returns true when one line of a list has this option, in any case.
pub fn has_option(line: &HeaderValue, wanted: &str) -> bool {
    options(line.as_bytes()).any(|option| option.eq_ignore_ascii_case(wanted.as_bytes()))
}

/// Options of one line of a list, without the spaces around them.
pub fn options(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_header_of_a_connection_is_known_in_any_case() {
        for name in HOP_BY_HOP {
            assert!(
                HopByHop::of(name.as_bytes()).is_some() && is_hop_by_hop(name),
                "{name}"
            );
            assert_eq!(
                HopByHop::of(name.to_ascii_uppercase().as_bytes()),
                HopByHop::of(name.as_bytes()),
                "{name}"
            );
        }
        assert_eq!(
            HopByHop::of(b"Transfer-Encoding"),
            Some(HopByHop::TransferEncoding)
        );
        for name in ["", "date", "content-length", "connectiox", "keep_alive"] {
            assert_eq!(HopByHop::of(name.as_bytes()), None, "{name}");
        }
    }
}
